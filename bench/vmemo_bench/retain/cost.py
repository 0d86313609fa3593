"""What writing costs: calls and tokens of each step, session by session, as in live use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vmemo import Memory
from vmemo.models import utc_now
from vmemo.models.results import Spending
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.audit import Audit, audit
from vmemo_bench.datasets import Case
from vmemo_bench.environment import sqlite_url
from vmemo_bench.metrics import Metrics
from vmemo_bench.recorded import Recording
from vmemo_bench.report import Table
from vmemo_bench.retain.model import RecordedLLM
from vmemo_bench.runner import Tick, sessions_of

STEPS = ("segment", "predict", "extract", "extract_small", "judge", "identify", "opinions", "observe")


@dataclass(frozen=True, kw_only=True)
class Bill:
    """How much was read, and what each step of it cost."""

    messages: int = 0
    episodes: int = 0
    facts: int = 0
    spent: tuple[Spending, ...] = ()

    def __add__(self, other: Bill) -> Bill:
        return self._with(other, 1)

    def __sub__(self, other: Bill) -> Bill:
        return self._with(other, -1)

    def _with(self, other: Bill, sign: int) -> Bill:
        return Bill(
            messages=self.messages + sign * other.messages,
            episodes=self.episodes + sign * other.episodes,
            facts=self.facts + sign * other.facts,
            spent=tuple(_sum(step, self.spent, other.spent, sign) for step in _steps(self.spent, other.spent)),
        )

    @property
    def calls(self) -> int:
        """Calls of all steps."""
        return sum(each.calls for each in self.spent)

    @property
    def reading(self) -> int:
        """Calls of all steps but observations."""
        return sum(each.calls for each in self.spent if each.step != "observe")

    @property
    def tokens(self) -> int:
        """Tokens of all steps, in and out."""
        return sum(each.input_tokens + each.output_tokens for each in self.spent)


def _steps(*spent: Iterable[Spending]) -> list[str]:
    named = {each.step for one in spent for each in one}
    return [*(step for step in STEPS if step in named), *sorted(named.difference(STEPS))]


def _sum(step: str, ours: Iterable[Spending], others: Iterable[Spending], sign: int) -> Spending:
    signed = [*((each, 1) for each in ours if each.step == step), *((e, sign) for e in others if e.step == step)]
    return Spending(
        step=step,
        model=signed[0][0].model,
        calls=sum(way * each.calls for each, way in signed),
        failures=sum(way * each.failures for each, way in signed),
        input_tokens=sum(way * each.input_tokens for each, way in signed),
        output_tokens=sum(way * each.output_tokens for each, way in signed),
    )


@dataclass(frozen=True, kw_only=True)
class Written:
    """One conversation's bill, that of the later half of its sessions, and what its bank held."""

    case: str
    whole: Bill
    steady: Bill
    split_sources: int
    audit: Audit


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What conversations are written with; with `observe`, what a session touched is described after it."""

    embedder: Embedder
    settings: Settings
    folder: Path
    observe: bool = False


async def write(case: Case, recording: Recording, desk: Desk, tick: Tick) -> Written:
    """Retain a conversation session by session with a model that replays its recording."""
    llm = RecordedLLM(case, recording)
    database = desk.folder / f"{case.id}{'-observed' if desk.observe else ''}.db"
    bills: list[Bill] = [Bill()]
    async with Memory(
        sqlite_url(database), bank=case.id, llm=llm, embedder=desk.embedder, settings=desk.settings
    ) as memory:
        for _, messages in sessions_of(case):
            await memory.retain(messages)
            if desk.observe:
                await _observe(memory)
            bills.append(await _bill(memory))
            tick()
        held = await audit(memory, case, database.with_suffix(".jsonl"))
    half = len(bills) // 2
    return Written(
        case=case.id,
        whole=bills[-1],
        steady=bills[-1] - bills[half],
        split_sources=llm.split_sources,
        audit=held,
    )


async def _bill(memory: Memory) -> Bill:
    status = await memory.status()
    return Bill(messages=status.messages, episodes=status.episodes, facts=status.facts, spent=status.spending)


async def _observe(memory: Memory) -> None:
    """Describe what the session touched, once all of it is due."""
    due = [job.due for job in await memory.jobs() if job.kind == "observe"]
    if due:
        await asyncio.sleep(max(0.0, (max(due) - utc_now()).total_seconds()))
        await memory.process()


def metrics(written: Sequence[Written], suffix: str = "") -> Metrics:
    """Calls and tokens per 100 messages and per episode; `steady` is the later half of each conversation."""
    whole, steady = _total(each.whole for each in written), _total(each.steady for each in written)
    hundreds = max(1, whole.messages) / 100
    return {
        f"calls_per_100_messages{suffix}": whole.calls / hundreds,
        f"tokens_per_100_messages{suffix}": whole.tokens / hundreds,
        f"calls_per_episode{suffix}": whole.reading / max(1, whole.episodes),
        f"steady_calls_per_episode{suffix}": steady.reading / max(1, steady.episodes),
        f"messages_per_episode{suffix}": whole.messages / max(1, whole.episodes),
    }


def _total(bills: Iterable[Bill]) -> Bill:
    return sum(bills, Bill())


def steps(written: Sequence[Written]) -> Table:
    """Each step's calls and tokens per 100 messages, its share of all tokens, and its calls per episode."""
    whole, steady = _total(each.whole for each in written), _total(each.steady for each in written)
    later = {each.step: each.calls for each in steady.spent}
    rows = {each.step: _row(each, later.get(each.step, 0), whole, steady) for each in whole.spent}
    return {**rows, "all": {column: sum(row[column] for row in rows.values()) for column in next(iter(rows.values()))}}


def _row(spent: Spending, later: int, whole: Bill, steady: Bill) -> Mapping[str, float]:
    hundreds = max(1, whole.messages) / 100
    return {
        "calls / 100 messages": spent.calls / hundreds,
        "tokens in": spent.input_tokens / hundreds,
        "tokens out": spent.output_tokens / hundreds,
        "share of tokens, %": 100 * (spent.input_tokens + spent.output_tokens) / max(1, whole.tokens),
        "calls / episode": spent.calls / max(1, whole.episodes),
        "steady": later / max(1, steady.episodes),
        "failures": float(spent.failures),
    }


def conversations(written: Sequence[Written]) -> Table:
    """Each conversation's size and calls."""
    rows: dict[str, Mapping[str, int | float]] = {
        each.case: {
            "messages": each.whole.messages,
            "episodes": each.whole.episodes,
            "facts": each.whole.facts,
            "calls": each.whole.calls,
            "tokens": each.whole.tokens,
            "steady calls / episode": each.steady.reading / max(1, each.steady.episodes),
            "split sources": each.split_sources,
        }
        for each in written
    }
    return rows
