"""Workers and clients under load while the server of a store is ended and started again.

It takes some seconds; `VMEMO_ENDURANCE_SECONDS=120` lets it take as long as wanted, and `-s` shows what was counted.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import TypeVar

from pydantic import JsonValue

from max_wait import MAX_WAIT
from vmemo import Fact, Memory, Message, ProcessingDelayed, Settings, StoreBusy
from vmemo.jobs.worker import RunResult
from vmemo.ports import Completion, LLMRequest
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, ReceivedRequest

R = TypeVar("R")
SECONDS = float(os.environ.get("VMEMO_ENDURANCE_SECONDS", "1"))
STORING, RETAINING = 4, 2
NOTES = 4
"""Notes that are stored at least before the server ends, and after the last time."""
DOWN = 0.4
"""Seconds for which a server stays away, besides those in which it recovers."""
BUSY = 120.0
"""Seconds that a call may take: one whose outcome is not known waits until the server is back."""
NOTE = re.compile(r"^(\d+) \| .*?(Note \w+) was taken", re.MULTILINE)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Server:
    """A way to end a database server, and one to start it again with the data it had and wait until it answers."""

    end: Callable[[], None]
    start: Callable[[], None]


@dataclass(frozen=True)
class Load:
    """The number of workers, clients that recall, banks, and ends of the server."""

    workers: int
    recalling: int
    banks: int
    ends: int = 2

    @property
    def names(self) -> list[str]:
        """The names of the banks."""
        return [f"bank {number}" for number in range(self.banks)]


def answer(asked: ReceivedRequest) -> JsonValue:
    """One fact for each note."""
    if asked.step == "extract":
        lines = NOTE.findall(asked.user.rpartition("Lines to read (")[2])
        facts: list[JsonValue] = [{"what": f"{note} was taken.", "lines": [int(n)]} for n, note in lines]
        return {"topics": {note: [int(n)] for n, note in lines}, "facts": facts}
    if asked.step == "predict":
        return {"statements": []}
    assert asked.step == "judge"
    return {"verdicts": []}


class Slow:
    """A model that takes its time, so that the server's end finds work half done."""

    name = "slow"

    def __init__(self) -> None:
        self._model = FakeLLM(answer)

    async def complete(self, request: LLMRequest) -> Completion:
        """The answer after a few milliseconds."""
        await asyncio.sleep(random.uniform(0, 0.02))
        return await self._model.complete(request)


def a_memory(url: str, *, connections: int, model: Slow | None = None) -> Memory:
    """A memory with connections of its own, as a process of its own has it."""
    settings = Settings(
        connections=connections,
        extractions_per_bank=2,
        lease_seconds=10.0,
        retry_initial_seconds=0.1,
        busy_timeout=BUSY,
    )
    return Memory(url, "bank 0", llm=model, embedder=HashEmbedder(), settings=settings)


@dataclass
class Report:
    """The record of what clients and workers did."""

    recalls: int = 0
    recovered: int = 0
    away: list[float] = field(default_factory=list[float])
    """Seconds from each end of the server until the server answered again."""
    longest: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds from the begin of a call that failed until it was answered at last, by what was asked for."""
    errors: Counter[str] = field(default_factory=Counter[str])
    others: list[Exception] = field(default_factory=list[Exception])
    """Errors that no client should see."""
    stored: dict[str, str] = field(default_factory=dict[str, str])
    """The ids of acknowledged notes, by their text; empty where they are stored, but their ids were not told."""
    worked: Counter[str] = field(default_factory=Counter[str])

    def __str__(self) -> str:
        return (
            f"{len(self.stored)} messages, {self.recalls} recalls, {len(self.away)} ends (server away for "
            f"{', '.join(f'{seconds:.1f}' for seconds in self.away)} s), {self.recovered} recoveries, "
            f"longest outages of clients { ({kind: round(seconds, 1) for kind, seconds in self.longest.items()}) }, "
            f"errors {dict(self.errors)}, workers {dict(self.worked)}"
        )

    def answered(self, kind: str, began: float) -> None:
        """Note that a call that failed at first was answered."""
        self.recovered += 1
        self.longest[kind] = max(self.longest.get(kind, 0.0), time.monotonic() - began)


async def insist(report: Report, kind: str, call: Callable[[], Awaitable[R]]) -> R:
    """Repeat a call for as long as it raises the error that allows it; nothing else is expected."""
    began, failed = time.monotonic(), False
    while True:
        try:
            result = await call()
        except StoreBusy:
            failed = True
            report.errors["StoreBusy"] += 1
            await asyncio.sleep(random.uniform(0.02, 0.1))
            continue
        if failed:
            report.answered(kind, began)
        return result


async def recalling(memory: Memory, report: Report, over: asyncio.Event) -> None:
    while not over.is_set():
        await insist(report, "recall", partial(memory.recall, "Which note was taken?"))
        report.recalls += 1
        await asyncio.sleep(random.uniform(0, 0.6))


async def storing(banks: Sequence[Memory], writer: int, report: Report, over: asyncio.Event) -> None:
    """Store one note after the other; the last writers also have them read at once."""
    for number in count():
        if over.is_set():
            return
        text = f"Note w{writer}n{number} was taken."
        bank = banks[(writer + number) % len(banks)]
        # A day between two notes makes an episode of each, and a job of its own.
        at = NOON + timedelta(days=number)
        if writer < STORING:
            stored = await insist(report, "store", partial(bank.add_message, text, timestamp=at))
            [report.stored[text]] = stored.stored
        else:
            await retained(bank, text, at, report)
        await asyncio.sleep(random.uniform(0, 0.5))


async def retained(memory: Memory, text: str, at: datetime, report: Report) -> None:
    try:
        stored = await insist(report, "retain", partial(memory.retain, text, timestamp=at))
        [report.stored[text]] = stored.stored
    except ProcessingDelayed:
        # It is stored, and a worker reads it.
        report.errors["ReadingDelayed"] += 1
        report.stored[text] = ""
        await insist(report, "status", memory.status)


async def guarded(report: Report, client: Awaitable[None]) -> None:
    try:
        await client
    except Exception as error:
        report.others.append(error)


async def ending(server: Server, ends: int, report: Report) -> None:
    """End and start the server, evenly spread, and let some time pass afterwards."""
    for _ in range(ends):
        await some_load(ends, report)
        began = time.monotonic()
        await asyncio.to_thread(server.end)
        await asyncio.sleep(DOWN)
        await asyncio.to_thread(server.start)
        report.away.append(time.monotonic() - began)
    await some_load(ends, report)


async def some_load(ends: int, report: Report) -> None:
    """Wait for a share of the time, and until clients have stored some notes in it or failed."""
    wanted = len(report.stored) + NOTES
    await asyncio.sleep(SECONDS / (ends + 1))
    while len(report.stored) < wanted and not report.others:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


@asynccontextmanager
async def workers(url: str, number: int, report: Report) -> AsyncGenerator[None]:
    """Each with a memory of its own; they are told to stop when the block ends."""
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        memories = [await stack.enter_async_context(a_memory(url, connections=2, model=Slow())) for _ in range(number)]
        working = [asyncio.create_task(memory.work(stop)) for memory in memories]
        try:
            yield
        finally:
            stop.set()
            for outcome in await asyncio.gather(*working):
                tally(report, outcome)


def tally(report: Report, outcome: RunResult) -> None:
    report.worked["jobs"] += outcome.jobs
    report.worked["failed"] += outcome.failed
    report.worked["idle"] += outcome.jobs == 0
    report.others += [error for error in outcome.errors if not isinstance(error, StoreBusy)]


async def clients(url: str, load: Load, report: Report, server: Server) -> None:
    """Recall and store while the server comes and goes."""
    over = asyncio.Event()
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(a_memory(url, connections=4)) for _ in range(4)]
        writers = [
            await stack.enter_async_context(a_memory(url, connections=2, model=Slow()))
            for _ in range(STORING + RETAINING)
        ]
        busy = [
            *(recalling(readers[n % 4].bank(load.names[n % load.banks]), report, over) for n in range(load.recalling)),
            *(storing([memory.bank(name) for name in load.names], n, report, over) for n, memory in enumerate(writers)),
        ]
        running = [asyncio.create_task(guarded(report, client)) for client in busy]
        await ending(server, load.ends, report)
        over.set()
        await asyncio.gather(*running)


async def endure(url: str, server: Server, load: Load) -> tuple[Report, list[Fact], list[Message]]:
    report = Report()
    async with a_memory(url, connections=1) as memory:
        banks = [memory.bank(name) for name in load.names]
        for bank in banks:
            await bank.open()
        async with workers(url, load.workers, report):
            await clients(url, load, report, server)
            deadline = time.monotonic() + MAX_WAIT
            while any([await bank.jobs() for bank in banks]) and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert [await bank.jobs() for bank in banks] == [[]] * load.banks, "something was not done in the end"
        facts = [fact for bank in banks for fact in await all_facts(bank)]
        return report, facts, [message for bank in banks for message in await all_messages(bank)]


async def all_facts(bank: Memory) -> list[Fact]:
    found = await bank.facts(limit=1000)
    while found and (page := await bank.facts(limit=1000, after=found[-1].id)):
        found += page
    return found


async def all_messages(bank: Memory) -> list[Message]:
    found = await bank.messages(limit=1000)
    while found and (page := await bank.messages(limit=1000, after=found[-1].id)):
        found += page
    return found


def assert_nothing_lost_or_repeated(url: str, server: Server, load: Load) -> None:
    """End the server under a load; check that each acknowledged note is there once, and once as a fact."""
    report, facts, messages = asyncio.run(endure(url, server, load))
    print(f"\n{SECONDS:g} seconds: {report}")
    assert report.others == [], f"a client or a worker saw an error that it can't simply wait out: {report.others}"
    assert len(report.away) == load.ends
    assert report.recovered, "no client noticed the server's absence"
    # Every call was repeated until it was acknowledged, so that each note is there, and there once.
    assert Counter(message.content for message in messages) == dict.fromkeys(report.stored, 1)
    ids = {message.content: message.id for message in messages}
    assert all(ids[text] == id for text, id in report.stored.items() if id)
    assert {message.state for message in messages} == {"extracted"}
    # Each note was read once, into one fact that rests on it.
    assert Counter(fact.text for fact in facts) == dict.fromkeys(report.stored, 1)
    assert all(fact.messages == (ids[fact.text],) for fact in facts)
