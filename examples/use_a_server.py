"""Start a server, call it with a client, and stream an answer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from vmemo import NotFound, TextDelta
from vmemo.client import Client


@contextmanager
def server(file: Path) -> Generator[str]:
    """Run a server on a free local port and yield its URL, which its first log line contains."""
    command = [sys.executable, "-m", "vmemo", "serve", "--db", f"sqlite:///{file}", "--port", "0", "--json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("{") and (record := json.loads(line)).get("event") == "listening":
                    yield record["url"]
                    break
        finally:
            process.terminate()
            process.communicate()


async def main(url: str) -> None:
    """Use `Client` like `Memory`: it has the same methods."""
    async with Client(url, bank="traveller") as client:
        await client.retain(["I moved to Lisbon in May.", "I get seasick on boats."], speaker="Ana")
        found = await client.recall("Where does Ana live?", max_tokens=500)
        print(found.to_prompt())

        async for event in client.reflect_stream("What should Ana avoid?"):
            if isinstance(event, TextDelta):
                print(event.text, end="")
        print()

        try:
            await client.bank("nobody").recall("Anything?")
        except NotFound as error:
            print(f"NotFound: {error}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, server(Path(folder) / "memory.db") as url:
        asyncio.run(main(url))
