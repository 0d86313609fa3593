"""One case: retain its sessions into a new bank, then ask its questions one at a time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from vmemo import Memory, Message
from vmemo.errors import VmemoError
from vmemo.models import Budget, Hit, MessageId
from vmemo.ports import LLM, Embedder
from vmemo.settings import Settings
from vmemo_bench.bank_contents import BankAudit, BankCost, audit_bank, bank_cost
from vmemo_bench.bench_store import BankLocation
from vmemo_bench.datasets import Case, ChatSession, DatasetQuestion, RankedUnit
from vmemo_bench.json_files import FileRecord
from vmemo_bench.recordings import BenchEngine
from vmemo_bench.statistics import Metrics, RankedItem, rank_metrics, timed, token_metrics

TURN_GAP = timedelta(seconds=20)
"""Time between the turns of a session: datasets date whole sessions only, and the order must be kept."""

Advance = Callable[[], None]
"""Reports one finished step."""


class QuestionScore(FileRecord):
    """Metrics of one question, and milliseconds per stage of its recall."""

    id: str
    category: str
    metrics: Mapping[str, float]
    timings: Mapping[str, float]


class CaseResult(FileRecord):
    case: str
    messages: int
    facts: int
    questions: tuple[QuestionScore, ...]
    audit: BankAudit | None = None
    """Contents of the bank, if it was filled from recordings."""
    cost: BankCost | None = None
    """Cost and size of the bank, if a language model filled it."""


@dataclass(frozen=True, kw_only=True)
class RunSetup:
    """Configuration of banks and recalls, the same for every case of a run."""

    embedder: Embedder
    settings: Settings
    unit: RankedUnit
    budget: Budget
    max_tokens: int
    engine: BenchEngine
    reranker: Literal["late", "none"] = "late"
    llm: LLM | None = None
    """A model that answers from a bank, instead of the engine that filled it."""
    max_lookups: int = 0
    """Memory lookups that an answer may make besides the first recall."""

    def memory(self, case: Case, location: BankLocation) -> Memory:
        return Memory(
            location.url,
            bank=location.bank,
            llm=self.llm or self.engine.llm or self.engine.extractors.get(case.id),
            embedder=self.embedder,
            reranker=self.reranker,
            settings=self.settings,
        )


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """The turn and session that a message was made from."""

    turn: str
    session: str


Origins = Mapping[MessageId, MessageOrigin]


@dataclass(frozen=True, kw_only=True)
class FilledBank:
    """A retained case: the origin of each message, and the size of the bank."""

    origins: Origins
    messages: int
    facts: int


async def run_case(case: Case, setup: RunSetup, location: BankLocation, advance: Advance) -> CaseResult:
    """Retain a case and return the scores and timings of its questions."""
    async with setup.memory(case, location) as memory:
        filled = await fill_bank(memory, case, advance)
        result = await ask_questions(memory, case, filled, setup, advance)
        cost = await bank_cost(memory, case) if setup.engine.llm is not None else None
        audit = await audit_bank(memory, location.export_file) if setup.engine.extractors else None
        return result.model_copy(update={"audit": audit, "cost": cost})


async def fill_bank(memory: Memory, case: Case, advance: Advance) -> FilledBank:
    """Retain a case. Raise VmemoError if messages stay pending, or another job of theirs failed."""
    origins = await retain_sessions(memory, case, advance)
    status = await memory.status()
    failed = [job for job in await memory.jobs() if job.error is not None]
    if status.pending or failed:
        reasons = dict.fromkeys([*(each.error for each in status.problems), *(str(job.error) for job in failed)])
        raise VmemoError(
            f"{status.pending} messages of {case.id} were not processed, and {len(failed)} jobs failed: "
            + "; ".join(reasons)
        )
    return FilledBank(origins=origins, messages=status.messages, facts=status.facts)


async def ask_questions(
    memory: Memory, case: Case, filled: FilledBank, setup: RunSetup, advance: Advance
) -> CaseResult:
    end = end_of(case)
    scores: list[QuestionScore] = []
    for question in case.questions:
        recall = memory.recall(
            question.text, max_tokens=setup.max_tokens, budget=setup.budget, now=question.asked_at or end
        )
        found, total = await timed(recall)
        scores.append(
            QuestionScore(
                id=question.id,
                category=question.category,
                metrics=score(question, found.hits, filled.origins, setup.unit),
                timings={**found.timings, "total": total},
            )
        )
        advance()
    return CaseResult(case=case.id, messages=filled.messages, facts=filled.facts, questions=tuple(scores))


async def retain_sessions(memory: Memory, case: Case, advance: Advance) -> Origins:
    """Retain the sessions in order of time and return the origin of each message."""
    for _, messages in sessions_of(case):
        if messages:
            await memory.retain(messages)
        advance()
    return origins_of(case)


def origins_of(case: Case) -> Origins:
    """Return the origin of each message of a case."""
    return {
        message.id: MessageOrigin(turn.id, session.id)
        for session, messages in sessions_of(case)
        for message, turn in zip(messages, session.turns, strict=True)
    }


def sessions_of(case: Case) -> Iterator[tuple[ChatSession, list[Message]]]:
    """Yield the sessions in order of time, each with its turns as messages."""
    first = 0
    for session in sorted(case.sessions, key=lambda session: session.started_at):
        yield session, _messages(session, first)
        first += len(session.turns)


def _messages(session: ChatSession, first: int) -> list[Message]:
    return [
        Message(
            # Ids determined by the position: a repeated run breaks ties in the same way.
            id=MessageId(str(uuid.UUID(int=first + number))),
            role=turn.role,
            speaker=turn.speaker,
            content=turn.text,
            timestamp=session.started_at + number * TURN_GAP,
            document=session.document,
            metadata={"turn": turn.id},
        )
        for number, turn in enumerate(session.turns)
    ]


def end_of(case: Case) -> datetime | None:
    """Return the end of the last session: the time of a question that states none."""
    return max((session.started_at + len(session.turns) * TURN_GAP for session in case.sessions), default=None)


def score(question: DatasetQuestion, hits: Sequence[Hit], origins: Origins, unit: RankedUnit) -> Metrics:
    """Return rank metrics over the unit, and evidence@N over turns."""
    turns = [
        RankedItem(frozenset(origins[source].turn for source in hit.fact.messages), hit.fact.tokens) for hit in hits
    ]
    evidence = token_metrics(question.evidence, turns)
    if unit == "turn":
        return {**rank_metrics(question.evidence, turns), **evidence}
    sessions = dict.fromkeys(origins[source].session for hit in hits for source in hit.fact.messages)
    ranking = [RankedItem(frozenset({session}), 0) for session in sessions]
    return {**rank_metrics(question.sessions, ranking), **evidence}
