"""A program that the tests run, several at a time, and kill: it reads with a model that a scripted server plays.

`reader.py crash URL` reads a seed per line, forks, and lets the child retain without end; each line of the child
is `start PID` or `ack ID...`, and `dead` follows when the child was killed.
`reader.py work URL MODEL` waits for a line, works until nothing is queued, and says how many pieces it did.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
from itertools import count

from pydantic import JsonValue
from talk import days, quick, said

from vmemo import Memory
from vmemo.ports import LLM, Completion, LLMRequest
from vmemo.testing import FakeLLM, HashEmbedder, ReceivedRequest

SOON, LATE = 0.2, 60.0
"""Leases of those who are killed, and of those who are not."""
NOTE = re.compile(r"^(\d+) \| .*?(Note \w+) was taken", re.MULTILINE)


def answer(asked: ReceivedRequest) -> JsonValue:
    """One fact for each note, about the note's taker."""
    if asked.step == "extract":
        lines = NOTE.findall(asked.user.rpartition("Lines to read (")[2])
        alice: JsonValue = [{"name": "Alice", "type": "PERSON"}]
        facts: list[JsonValue] = [
            {"what": f"{note} was taken by Alice.", "lines": [int(n)], "entities": alice} for n, note in lines
        ]
        return {"topics": [{"title": "Notes", "lines": [int(n) for n, _ in lines]}], "facts": facts}
    if asked.step == "predict":
        return {"statements": []}
    if asked.step == "judge":
        return {"verdicts": []}
    assert asked.step == "observe"
    return {"profiles": [{"entity": "E1", "statements": [{"text": "Alice takes notes.", "facts": ["F1"]}]}]}


class Slow:
    """A model in this process that takes its time, so that a kill finds it at work."""

    name = "slow"

    def __init__(self) -> None:
        self._model = FakeLLM(answer)

    async def complete(self, request: LLMRequest) -> Completion:
        """The answer after a few milliseconds."""
        await asyncio.sleep(random.uniform(0, 0.01))
        return await self._model.complete(request)


def say(*words: str) -> None:
    """One line, in one write, so that a kill can't tear it."""
    os.write(1, (" ".join(words) + "\n").encode())


def a_memory(url: str, model: str | LLM, lease: float) -> Memory:
    """A memory that looks at its queue often."""
    settings = quick(lease_seconds=lease, poll_seconds=0.02, observe_delay=0.0)
    return Memory(url, llm=model, embedder=HashEmbedder(), settings=settings)


async def retain_without_end(url: str, seed: int) -> None:
    """Retain one line, or several of different hours, or store first; acknowledge what was returned."""
    source = random.Random(seed)
    async with a_memory(url, Slow(), SOON) as memory:
        for n in count():
            name = f"s{seed}n{n}"
            lines = [
                said(f"Note {name}x{k} was taken.", days(seed + n / 10 + k / 100)) for k in range(source.randint(1, 3))
            ]
            if source.random() < 0.3:
                stored = await memory.add_message(lines[0])
            else:
                stored = await memory.retain(lines)
            say("ack", *stored.stored)
            if source.random() < 0.5:
                await memory.process()


async def warm_up(url: str) -> None:
    """Load everything before the first fork, so that a child spends its life reading. No thread is left behind."""
    a_memory(url, Slow(), LATE)
    async with a_memory("sqlite:///:memory:", Slow(), LATE) as memory:
        await memory.retain([said("Note x was taken.")])


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


async def work(url: str, model: str) -> None:
    """Do what is due, side by side with others."""
    async with a_memory(url, model, LATE) as memory:
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        stop = asyncio.Event()
        working = asyncio.create_task(memory.work(stop))
        while await memory.jobs():  # noqa: ASYNC110  the other process does not tell
            await asyncio.sleep(0.05)
        stop.set()
        outcome = await working
        assert not outcome.errors, outcome.errors
        say("did", str(outcome.jobs))


if __name__ == "__main__":
    if sys.argv[1] == "crash":
        crash(*sys.argv[2:])
    else:
        asyncio.run(work(*sys.argv[2:]))
