"""Calls and tokens of each step of retain, session by session as in live use."""

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
from vmemo_bench.bank_audit import BankAudit, audit_bank
from vmemo_bench.case_run import Advance, sessions_of
from vmemo_bench.datasets import Case
from vmemo_bench.environment import sqlite_url
from vmemo_bench.recordings import Recording
from vmemo_bench.report import Table
from vmemo_bench.retain.recorded_llm import RecordedLLM
from vmemo_bench.retain_cost import RetainCost
from vmemo_bench.statistics import Metrics


@dataclass(frozen=True, kw_only=True)
class ConversationCost:
    """Cost of one conversation, of the later half of its sessions (`steady`), and the contents of its bank."""

    case: str
    whole: RetainCost
    steady: RetainCost
    split_sources: int
    audit: BankAudit


@dataclass(frozen=True, kw_only=True)
class CostRun:
    """Retains conversations and measures their cost; with `observe`, entities are observed after each session."""

    embedder: Embedder
    settings: Settings
    folder: Path
    observe: bool = False

    async def measure(self, case: Case, recording: Recording, advance: Advance) -> ConversationCost:
        """Retain a conversation session by session with a model that replays its recording."""
        llm = RecordedLLM(case, recording)
        database = self.folder / f"{case.id}{'-observed' if self.observe else ''}.db"
        costs: list[RetainCost] = [RetainCost()]
        async with Memory(
            sqlite_url(database), bank=case.id, llm=llm, embedder=self.embedder, settings=self.settings
        ) as memory:
            for _, messages in sessions_of(case):
                await memory.retain(messages)
                if self.observe:
                    await _observe(memory)
                costs.append(await _cost(memory))
                advance()
            audit = await audit_bank(memory, case, database.with_suffix(".jsonl"))
        return ConversationCost(
            case=case.id,
            whole=costs[-1],
            steady=costs[-1] - costs[len(costs) // 2],
            split_sources=llm.split_sources,
            audit=audit,
        )


async def _cost(memory: Memory) -> RetainCost:
    status = await memory.status()
    return RetainCost(messages=status.messages, episodes=status.episodes, facts=status.facts, spending=status.spending)


async def _observe(memory: Memory) -> None:
    """Wait until the observation jobs of the session are due, and run them."""
    due = [job.due for job in await memory.jobs() if job.kind == "observe"]
    if due:
        await asyncio.sleep(max(0.0, (max(due) - utc_now()).total_seconds()))
        await memory.process()


def metrics(costs: Sequence[ConversationCost], suffix: str = "") -> Metrics:
    """Return calls and tokens per 100 messages and per episode; `steady` is the later half of each conversation."""
    whole, steady = _total(each.whole for each in costs), _total(each.steady for each in costs)
    hundreds = max(1, whole.messages) / 100
    return {
        f"calls_per_100_messages{suffix}": whole.calls / hundreds,
        f"tokens_per_100_messages{suffix}": whole.tokens / hundreds,
        f"calls_per_episode{suffix}": whole.extraction_calls / max(1, whole.episodes),
        f"steady_calls_per_episode{suffix}": steady.extraction_calls / max(1, steady.episodes),
        f"messages_per_episode{suffix}": whole.messages / max(1, whole.episodes),
    }


def _total(costs: Iterable[RetainCost]) -> RetainCost:
    return sum(costs, RetainCost())


def step_table(costs: Sequence[ConversationCost]) -> Table:
    """Return each step's calls and tokens per 100 messages, its share of all tokens, and its calls per episode."""
    whole, steady = _total(each.whole for each in costs), _total(each.steady for each in costs)
    later = {each.step: each.calls for each in steady.spending}
    rows = {each.step: _row(each, later.get(each.step, 0), whole, steady) for each in whole.spending}
    return {**rows, "all": {column: sum(row[column] for row in rows.values()) for column in next(iter(rows.values()))}}


def _row(spending: Spending, later_calls: int, whole: RetainCost, steady: RetainCost) -> Mapping[str, float]:
    hundreds = max(1, whole.messages) / 100
    return {
        "calls / 100 messages": spending.calls / hundreds,
        "tokens in": spending.input_tokens / hundreds,
        "tokens out": spending.output_tokens / hundreds,
        "share of tokens, %": 100 * (spending.input_tokens + spending.output_tokens) / max(1, whole.tokens),
        "calls / episode": spending.calls / max(1, whole.episodes),
        "steady": later_calls / max(1, steady.episodes),
        "failures": float(spending.failures),
    }


def conversation_table(costs: Sequence[ConversationCost]) -> Table:
    """Return each conversation's size and calls."""
    rows: dict[str, Mapping[str, int | float]] = {
        each.case: {
            "messages": each.whole.messages,
            "episodes": each.whole.episodes,
            "facts": each.whole.facts,
            "calls": each.whole.calls,
            "tokens": each.whole.tokens,
            "steady calls / episode": each.steady.extraction_calls / max(1, each.steady.episodes),
            "split sources": each.split_sources,
        }
        for each in costs
    }
    return rows
