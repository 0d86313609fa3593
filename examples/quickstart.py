"""Retain, recall, recall as of an earlier date, and reflect. Needs no API key, server or download."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from vmemo import Memory

TIMESTAMP = datetime(2024, 3, 4, 9, 30, tzinfo=UTC)


async def main(file: Path) -> None:
    """Store an exchange in one SQLite file and query it."""
    async with Memory(f"sqlite:///{file}") as memory:
        await memory.add_exchange(
            "I just started at Anthropic, last Friday was my first day.",
            "Congrats! Shall we make your desk cosy?",
            timestamp=TIMESTAMP,
        )
        await memory.process()

        found = await memory.recall("Where does the user work?", max_tokens=1024)
        print(found.to_prompt())

        earlier = await memory.retrieve("Where did the user work?", top_k=5, at_time=datetime(2024, 1, 1, tzinfo=UTC))
        print(f"\nFacts valid in January 2024: {len(earlier.hits)}")

        answer = await memory.reflect("What desk present would suit her?")
        print(f"\n{answer.text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "memory.db"))
