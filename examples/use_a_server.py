"""The library's verbs at a server: start one, talk to it with a client, and watch a reflection on its way."""

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
    """A server on a free port of this machine; its first log line tells where."""
    command = [sys.executable, "-m", "vmemo", "serve", "--db", f"sqlite:///{file}", "--port", "0", "--json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("{") and (told := json.loads(line)).get("event") == "listening":
                    yield told["url"]
                    break
        finally:
            process.terminate()
            process.communicate()


async def main(url: str) -> None:
    """What works with `Memory` works with `Client`."""
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
