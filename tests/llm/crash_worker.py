"""A program that the crash tests run and kill.

`crash_worker.py crash URL` reads a seed per line and forks a child that retains without end; the child prints
`start PID` and `ack ID...`, and the parent `dead` once the child was killed.
`crash_worker.py work URL MODEL` forks two workers, which print their numbers of jobs when the queue is empty.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import re
import sys
from itertools import count

from conversations import days, fast_settings, said
from pydantic import JsonValue

from vmemo import Memory
from vmemo.ports import LLM, Completion, LLMRequest
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, ReceivedRequest

SOON, LATE = 0.2, 480.0
"""Lease seconds of processes that are killed, and of others, which must keep their jobs on a machine that stalls."""
NOTE = re.compile(r"^(\d+) \| .*?(Note \w+) was taken", re.MULTILINE)

STATEMENT = re.compile(r"^(S\d+) \|", re.MULTILINE)


def answer(asked: ReceivedRequest) -> JsonValue:
    """Return one fact for each note."""
    if asked.step == "extract":
        lines = NOTE.findall(asked.user.rpartition("Lines to read (")[2])
        facts: list[JsonValue] = [{"what": f"{note} was taken by Alice.", "lines": [int(n)]} for n, note in lines]
        topics: JsonValue = {note: [int(n)] for n, note in lines}
        return {"topics": topics, "facts": facts, "names": {"person": ["Alice"]}}
    if asked.step == "predict":
        return {"statements": []}
    if asked.step == "judge":
        return {"verdicts": []}
    assert asked.step == "observe"
    held = STATEMENT.findall(asked.user)
    write: JsonValue = [] if held else [{"text": "Alice takes notes.", "facts": ["F1"]}]
    return {"profiles": [{"entity": "E1", "keep": held, "write": write}]}


class SlowLLM:
    """A model with random delays, so that kills interrupt its calls."""

    name = "slow"

    def __init__(self) -> None:
        self._model = FakeLLM(answer)

    async def complete(self, request: LLMRequest) -> Completion:
        """Return the answer after a few milliseconds."""
        await asyncio.sleep(random.uniform(0, 0.01))
        return await self._model.complete(request)


def report(*words: str) -> None:
    """Print a line in one write, so that a kill cannot split it."""
    os.write(1, (" ".join(words) + "\n").encode())


def a_memory(url: str, model: str | LLM, lease: float, **settings: int) -> Memory:
    """Return a memory that polls its queue often."""
    chosen = fast_settings(lease_seconds=lease, poll_seconds=0.02, observe_delay=0.0, **settings)
    return Memory(url, llm=model, embedder=HashEmbedder(), settings=chosen)


async def retain_without_end(url: str, seed: int) -> None:
    """Retain one message, several of different times, or store one first; acknowledge each return."""
    source = random.Random(seed)
    async with a_memory(url, SlowLLM(), SOON) as memory:
        for n in count():
            name = f"s{seed}n{n}"
            lines = [
                said(f"Note {name}x{k} was taken.", days(seed + n / 10 + k / 100)) for k in range(source.randint(1, 3))
            ]
            if source.random() < 0.3:
                stored = await memory.add_message(lines[0])
            else:
                stored = await memory.retain(lines)
            report("ack", *stored.stored)
            if source.random() < 0.5:
                await memory.process()


async def warm_up(url: str) -> None:
    """Import and load everything before the first fork, without leaving a thread behind."""
    a_memory(url, SlowLLM(), LATE)
    async with a_memory("sqlite:///:memory:", SlowLLM(), LATE) as memory:
        await memory.retain([said("Note x was taken.")])
    # Garbage collection in a child would copy all that was loaded.
    gc.freeze()


def crash(url: str) -> None:
    """Fork a child per input line and report its end."""
    asyncio.run(warm_up(url))
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            report("start", str(os.getpid()))
            asyncio.run(retain_without_end(url, int(line)))
        os.waitpid(child, 0)
        report("dead")


def work_together(url: str, model: str) -> int:
    """Fork two workers, and return 1 if one of them failed."""
    asyncio.run(warm_up(url))
    a_memory(url, model, LATE)
    start, ready = os.pipe()
    for _ in range(2):
        if os.fork() == 0:
            asyncio.run(work(url, model, start, ready))
            sys.exit()
    os.close(ready)
    return int(max(os.wait()[1] for _ in range(2)) > 0)


async def work(url: str, model: str, start: int, ready: int) -> None:
    """Run jobs concurrently with the other worker, one at a time."""
    async with a_memory(url, model, LATE, extractions_per_bank=1) as memory:
        os.close(ready)
        # The pipe ends when every process has closed its side of it.
        await asyncio.to_thread(os.read, start, 1)
        stop = asyncio.Event()
        working = asyncio.create_task(memory.work(stop))
        # The other process sends no notification. A job that failed stays in the queue.
        while any(job.error is None for job in await memory.jobs()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        stop.set()
        outcome = await working
        assert not outcome.errors, outcome.errors
        report("did", str(outcome.jobs))


if __name__ == "__main__":
    if sys.argv[1] == "crash":
        crash(*sys.argv[2:])
    else:
        sys.exit(work_together(*sys.argv[2:]))
