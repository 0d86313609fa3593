"""Running cases: the messages of each source are retained in order, and each question is asked at its time."""

from __future__ import annotations

import tempfile
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from uuid import uuid4
from xml.etree import ElementTree

from vmemo import Hit, Memory, Recalled
from vmemo.errors import InvalidInput, NotFound
from vmemo.models.recalled import TRUNCATED
from vmemo.models.records import parse_time, shortened, utc_now
from vmemo.models.requests import NewMessage, chat_values
from vmemo.settings import database_url
from vmemo_replay.cases import PlacedCase, Source
from vmemo_replay.configuration import Configuration
from vmemo_replay.player import Player
from vmemo_replay.transcripts import Transcript, in_order, read_transcript, with_ids, with_times

PRIVATE = "sqlite:///:memory:"
Operation = Literal["reprocess", "reembed"]
SHOWN = 3
"""Hits that a failure lists."""


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """What a case's question recalled, and the expectations that it does not meet."""

    placed: PlacedCase
    failures: tuple[str, ...]
    hits: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.failures


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """A time in a source: the lines that are known, until when the bank knew them, and the time of the question."""

    lines: int = 0
    known_at: datetime | None = None
    now: datetime | None = None


OnCase = Callable[[], None]


@dataclass(frozen=True)
class _Group:
    """The cases of one source; inline messages and files are read."""

    source: Source
    cases: list[PlacedCase] = field(default_factory=list[PlacedCase])
    transcript: Transcript | None = None


def grouped(cases: Sequence[PlacedCase], gap: timedelta) -> list[_Group]:
    """Return the cases by source, each of which is read once."""
    groups: dict[str, _Group] = {}
    for placed in cases:
        key = placed.source.model_dump_json()
        if key not in groups:
            groups[key] = _Group(placed.source, [], None if placed.source.db else _transcript(placed, gap))
        groups[key].cases.append(placed)
    return list(groups.values())


def _transcript(placed: PlacedCase, gap: timedelta) -> Transcript:
    source = placed.source
    if source.files:
        missing = next((name for name in source.files if not Path(name).exists()), None)
        if missing is not None:
            raise placed.error(f"source.files: {missing} does not exist; name it as seen from the case file's folder.")
        return read_transcript([Path(name) for name in source.files], source.origin, gap=gap)
    messages: list[NewMessage] = []
    for number, values in enumerate(source.messages, start=1):
        try:
            messages.append(NewMessage.of(chat_values(values) or {}))
        except InvalidInput as error:
            raise placed.error(f"source.messages: message {number}: {error}") from error
    return in_order(with_ids(with_times(messages, utc_now()), placed.file.name), gap)


async def run_cases(
    cases: Sequence[PlacedCase],
    configuration: Configuration,
    *,
    store: str = PRIVATE,
    on_case: OnCase = lambda: None,
) -> list[CaseResult]:
    """Return the results in the order of the cases. Messages of files go into a temporary bank of the store."""
    results: list[CaseResult] = []
    for group in grouped(cases, _gap(configuration)):
        if group.transcript is None:
            async with open_source(group.source, configuration) as memory:
                results += [await _ask_later(memory, placed, None, on_case) for placed in group.cases]
            continue
        async with _temporary(store, configuration) as memory:
            player = Player(memory, group.transcript.lines, "turn" if configuration.llm is None else "session")
            moments = [(_moment(placed, group.transcript), placed) for placed in group.cases]
            for moment, placed in sorted(moments, key=lambda each: each[0].lines):
                await player.advance(moment.lines)
                results.append(await _ask(memory, placed, _Moment(now=moment.now)))
                on_case()
    order = {id(placed): number for number, placed in enumerate(cases)}
    return sorted(results, key=lambda result: order[id(result.placed)])


async def run_before_and_after(
    cases: Sequence[PlacedCase],
    operation: Operation,
    before: Configuration,
    after: Configuration,
    *,
    on_case: OnCase = lambda: None,
) -> tuple[list[CaseResult], list[CaseResult]]:
    """Run the cases on a copy of each source, then the operation on the copy, and the cases again."""
    first, second = list[CaseResult](), list[CaseResult]()
    for group in grouped(cases, _gap(before)):
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'copy.db'}"
            async with _copied(group, before, url) as memory:
                first += [await _ask_later(memory, placed, group.transcript, on_case) for placed in group.cases]
            memory = after.memory(url)
            try:
                await (memory.reembed() if operation == "reembed" else memory.reprocess())
                second += [await _ask_later(memory, placed, group.transcript, on_case) for placed in group.cases]
            finally:
                await memory.close()
    return first, second


def _gap(configuration: Configuration) -> timedelta:
    return timedelta(minutes=configuration.resolved().episode_gap_minutes)


def _existing(source: Source, configuration: Configuration) -> Memory:
    url = database_url(source.db or "")
    file = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not file.exists():
        raise NotFound(f"Database {file} does not exist; name another one as db of the source, or with --db.")
    return configuration.memory(url, source.bank).without_creation()


@asynccontextmanager
async def open_source(source: Source, configuration: Configuration) -> AsyncGenerator[Memory]:
    """Open the bank of a source, which must exist."""
    memory = _existing(source, configuration)
    try:
        yield memory
    finally:
        await memory.close()


@asynccontextmanager
async def _temporary(store: str, configuration: Configuration) -> AsyncGenerator[Memory]:
    """Create a bank in a store, and delete it at the end."""
    memory = configuration.memory(database_url(store), f"vmemo-test-{uuid4()}")
    try:
        yield memory
    finally:
        if store != PRIVATE and await memory.exists():
            await memory.forget(bank=True)
        await memory.close()


@asynccontextmanager
async def _copied(group: _Group, configuration: Configuration, url: str) -> AsyncGenerator[Memory]:
    """Open a new database with all messages of a source, derived, or a copy of its bank."""
    memory = configuration.memory(url)
    try:
        if group.transcript is not None:
            await Player(memory, group.transcript.lines).finish()
        else:
            exported = Path(url.removeprefix("sqlite:///")).with_name("bank.jsonl")
            async with open_source(group.source, configuration) as stored:
                await stored.export(exported)
            await memory.import_bank(exported)
        yield memory
    finally:
        await memory.close()


def _moment(placed: PlacedCase, transcript: Transcript) -> _Moment:
    """Return the time of a case in a transcript: before a message, or before a time."""
    at, lines = placed.case.at, transcript.lines
    if at is None:
        return _Moment(lines=len(lines), now=lines[-1].time)
    if (line := next((line for line in lines if line.id == at), None)) is not None:
        return _Moment(lines=line.number, known_at=line.known_before, now=line.time)
    time = _time(placed, at)
    count = bisect_left(lines, time, key=lambda line: line.time)
    # The bank knows messages of one time one microsecond after the other.
    return _Moment(lines=count, known_at=lines[count].known_before if count < len(lines) else time, now=time)


def _time(placed: PlacedCase, at: str) -> datetime:
    try:
        time = parse_time(at)
    except ValueError as error:
        raise placed.error(
            f"at: {at!r:.60} is neither a time nor the id of a message of the source; write 2026-03-01T10:00:00Z."
        ) from error
    if time.utcoffset() is None:
        raise placed.error(f"at: {at!r} has no time zone; write {at}Z for UTC, or add an offset such as +02:00.")
    return time


async def _stored_moment(memory: Memory, placed: PlacedCase) -> _Moment:
    """Return the time of a case in a bank, to travel to."""
    at = placed.case.at
    if at is None:
        return _Moment()
    try:
        time = _time(placed, at)
    except InvalidInput:
        try:
            message = await memory.get(at)
        except NotFound:
            message = None
        if message is None:
            raise
        return _Moment(known_at=message.recorded_at - timedelta(microseconds=1), now=message.mentioned_at)
    return _Moment(known_at=time, now=time)


async def ask_bank(memory: Memory, placed: PlacedCase) -> CaseResult:
    """Ask a bank about a case; one at a time knows what the bank had stored by then."""
    return await _ask_later(memory, placed, None, lambda: None)


async def _ask_later(memory: Memory, placed: PlacedCase, transcript: Transcript | None, on_case: OnCase) -> CaseResult:
    """Ask a bank that knows everything about an earlier time."""
    moment = await _stored_moment(memory, placed) if transcript is None else _moment(placed, transcript)
    result = await _ask(memory, placed, moment if placed.case.at else _Moment(now=moment.now))
    on_case()
    return result


async def _ask(memory: Memory, placed: PlacedCase, moment: _Moment) -> CaseResult:
    case, started = placed.case, time.perf_counter()
    found = await memory.recall(
        case.question, max_tokens=case.max_tokens, known_at=moment.known_at, now=moment.now, explain=False
    )
    return CaseResult(
        placed=placed,
        failures=tuple(failures(placed, found)),
        hits=tuple(hit.text for hit in found.hits[:SHOWN]),
        seconds=time.perf_counter() - started,
    )


def failures(placed: PlacedCase, found: Recalled) -> list[str]:
    """Return the expectations that a recall does not meet, in words."""
    case, hits = placed.case, found.hits
    shown = ", ".join(repr(shortened(hit.text, 80)) for hit in hits[:SHOWN]) or "nothing"
    missed = [
        f"must_recall: {expected!r} is not among the {len(hits)} hits; the first are {shown}."
        for expected in case.must_recall
        if not any(_is(expected, hit) for hit in hits)
    ]
    for expected in case.must_not_recall:
        rank = next((rank for rank, hit in enumerate(hits, start=1) if _is(expected, hit)), 0)
        missed += [f"must_not_recall: {expected!r} is hit {rank}."] if rank else []
    if case.first is not None and not (hits and _is(case.first, hits[0])):
        missed.append(f"first: {case.first!r} is not the first hit; the first are {shown}.")
    if case.silent is not None and case.silent != _is_silent(found, case.answerable):
        certain = "unknown" if found.answerable is None else f"{found.answerable:.2f}"
        rule = "nothing is" if case.silent else "something is not"
        missed.append(f"silent: {rule} expected, with {len(hits)} hits that are answerable with {certain}: {shown}.")
    followed = [fact.text for fact in found.instructions]
    missed += [
        f"follows: {expected!r} is not among the {len(followed)} standing instructions."
        for expected in case.follows
        if not any(_folded(expected) in _folded(text) for text in followed)
    ]
    return missed


def _is_silent(found: Recalled, threshold: float) -> bool:
    return not found.hits or (found.answerable is not None and found.answerable < threshold)


def _is(expected: str, hit: Hit) -> bool:
    """Return True if a hit has the words of a text, or comes from the message with this id."""
    if expected in hit.fact.messages or expected == hit.id:
        return True
    wanted, text = _folded(expected), _folded(hit.text)
    return wanted in text or (hit.truncated and wanted.startswith(text.removesuffix(TRUNCATED.strip()).strip()))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def junit(results: Sequence[CaseResult]) -> str:
    """Return the results as JUnit XML, a suite for each file."""
    root = ElementTree.Element("testsuites", name="vmemo test")
    for file in dict.fromkeys(result.placed.file for result in results):
        own = [result for result in results if result.placed.file == file]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=str(file),
            tests=str(len(own)),
            failures=str(sum(not result.passed for result in own)),
            errors="0",
            time=f"{sum(result.seconds for result in own):.3f}",
        )
        for result in own:
            name = f"{result.placed.number}: {_valid(result.placed.case.title)}"
            each = ElementTree.SubElement(
                suite, "testcase", classname=file.stem, name=name, time=f"{result.seconds:.3f}"
            )
            for failure in result.failures:
                ElementTree.SubElement(each, "failure", message=_valid(failure)).text = _valid(failure)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _valid(text: str) -> str:
    """Return a text without characters that XML forbids."""
    return "".join(c if c.isprintable() else " " for c in text)
