"""A program that the tests run and kill: it writes into one database and says what it has been promised.

`writer.py crash URL` reads a seed per line, forks, and lets the child retain without end; each line of the child
is `start PID` or `ack ID...`, and `dead` follows when the child was killed.
`writer.py share URL COUNT NAME...` forks a child per name; together they retain and recall; each line is `ack ID...`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import count

from vmemo import Memory, Message, Retained
from vmemo_conformance.embedders import HashEmbedder

PLACES = ("harbour", "station", "library", "orchard", "bakery", "lighthouse", "theatre", "market")
PEOPLE = (
    "Anna Kowalski", "Robert Hale", "Mei Tanaka", "Omar Haddad", "Ingrid Solberg",
    "Pablo Ortega", "Fatima Rahman", "Dmitri Volkov", "Chidi Okafor", "Leila Moradi",
)  # fmt: skip
LONG = "We walked along the river and talked about the old mill. " * 60


def say(*words: str) -> None:
    """One line, in one write, so that a kill can't tear it."""
    os.write(1, (" ".join(words) + "\n").encode())


def texts(source: random.Random) -> Iterator[str]:
    """Short lines, with a long one of several facts now and then."""
    for n in count():
        line = f"Note {n} of {os.getpid()}: yesterday I met Anna Kowalski at the {source.choice(PLACES)}."
        yield f"{line} {LONG}" if n % 5 == 4 else line


async def retain_without_end(url: str, seed: int) -> None:
    """Alternate between storing first and deriving later, and both at once; acknowledge what was returned."""
    source = random.Random(seed)
    lines = texts(source)
    async with Memory(url, embedder=HashEmbedder()) as memory:
        for n in count(seed):
            if n % 3 == 0:
                stored = await memory.retain(next(lines))
            elif n % 3 == 1:
                stored = await memory.retain([next(lines) for _ in range(4)])
            else:
                stored = await memory.add_message(next(lines))
            say("ack", *stored.stored)
            await memory.process()


async def warm_up(url: str) -> None:
    """Load everything before the first fork, so that a child spends its life writing. No thread is left behind."""
    Memory(url, embedder=HashEmbedder())
    async with Memory("sqlite:///:memory:", embedder=HashEmbedder()) as memory:
        await memory.retain(next(texts(random.Random(0))))
    # Garbage collection in a child would copy all that was loaded.
    gc.freeze()


def crash(url: str) -> None:
    """Fork a child per line of input and report its death."""
    asyncio.run(warm_up(url))
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            say("start", str(os.getpid()))
            asyncio.run(retain_without_end(url, int(line)))
        os.waitpid(child, 0)
        say("dead")


def share_all(url: str, messages: int, names: Sequence[str]) -> int:
    """Fork a child per name, let them start together, and return 1 if one of them failed."""
    asyncio.run(warm_up(url))
    start, ready = os.pipe()
    for name in names:
        if os.fork() == 0:
            os.close(ready)
            # The pipe ends when every process has closed its side of it.
            os.read(start, 1)
            asyncio.run(share(url, name, messages))
            sys.exit()
    os.close(ready)
    return int(max(os.wait()[1] for _ in names) > 0)


async def share(url: str, name: str, messages: int) -> None:
    """Retain and read in turns. All writers speak of the same people at the same time and add to one document."""
    async with Memory(url, embedder=HashEmbedder()) as memory:
        for n in range(messages):
            text = f"{name} note {n}: I met {PEOPLE[n % len(PEOPLE)]} at the Harbour Cafe."
            stored = await (memory.retain(text) if n % 2 else memory.add_message(text))
            say("ack", *stored.stored)
            shared = await memory.retain([f"Line {n} of the minutes."], document="minutes")
            say("ack", *shared.stored)
            await read(memory, stored)
        await memory.process()


async def read(memory: Memory, stored: Retained) -> None:
    """Stored messages are available at once, processed or not."""
    found = await memory.recall("Who was at the Harbour Cafe?")
    assert found.hits
    kept: list[Message] = [m for m in await memory.messages(limit=1000) if m.id in stored.stored]
    assert len(kept) == 1
    assert (await memory.status()).messages > 0


if __name__ == "__main__":
    if sys.argv[1] == "crash":
        crash(sys.argv[2])
    else:
        sys.exit(share_all(sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
