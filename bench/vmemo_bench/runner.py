"""One case: its sessions are retained into a fresh bank, then its questions are asked one at a time."""

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
from vmemo_bench.audit import audit
from vmemo_bench.clock import timed
from vmemo_bench.datasets import Case, Question, Session, Unit
from vmemo_bench.engines import Engine
from vmemo_bench.ledger import Asked, Finished
from vmemo_bench.metrics import Metrics, Ranked, rank_metrics, token_metrics
from vmemo_bench.stores import Spot

TURN_GAP = timedelta(seconds=20)
"""Datasets date whole sessions; turns follow one another so that their order is kept."""

Tick = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How banks are made and asked, the same for every case of a run."""

    embedder: Embedder
    settings: Settings
    unit: Unit
    budget: Budget
    max_tokens: int
    engine: Engine
    reranker: Literal["late", "none"] = "late"
    llm: LLM | None = None
    """A model that answers from a bank, in place of the engine that filled it."""
    looks: int = 0
    """How often it may look into memory again."""

    def memory(self, case: Case, spot: Spot) -> Memory:
        """The case's bank in its place."""
        return Memory(
            spot.url,
            bank=spot.bank,
            llm=self.llm or self.engine.readers.get(case.id),
            embedder=self.embedder,
            reranker=self.reranker,
            settings=self.settings,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message comes from."""

    turn: str
    session: str


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A case in its bank: where each message comes from, and how much there is."""

    places: Mapping[MessageId, Place]
    messages: int
    facts: int


async def run_case(case: Case, setup: Setup, spot: Spot, tick: Tick) -> Finished:
    """Scores and timings of every question of the case."""
    async with setup.memory(case, spot) as memory:
        kept = await keep(memory, case, tick)
        finished = await ask(memory, case, kept, setup, tick)
        if not setup.engine.readers:
            return finished
        held = await audit(memory, case, spot.beside)
        return finished.model_copy(update={"audit": held})


async def keep(memory: Memory, case: Case, tick: Tick) -> Kept:
    """Retain the case; whatever stays unread is an error."""
    places = await ingest(memory, case, tick)
    status = await memory.status()
    if status.pending:
        reasons = "; ".join(trouble.error for trouble in status.troubles)
        raise VmemoError(f"{status.pending} messages of {case.id} were not processed: {reasons}")
    return Kept(places=places, messages=status.messages, facts=status.facts)


async def ask(memory: Memory, case: Case, kept: Kept, setup: Setup, tick: Tick) -> Finished:
    """Ask every question of a case that is in its bank."""
    end = end_of(case)
    asked: list[Asked] = []
    for question in case.questions:
        asked.append(await _ask(memory, question, question.asked_at or end, kept.places, setup))
        tick()
    return Finished(case=case.id, messages=kept.messages, facts=kept.facts, questions=tuple(asked))


async def ingest(memory: Memory, case: Case, tick: Tick) -> dict[MessageId, Place]:
    """Retain the sessions in order of time; the result tells where each message comes from."""
    for _, messages in sessions_of(case):
        if messages:
            await memory.retain(messages)
        tick()
    return places_of(case)


def places_of(case: Case) -> dict[MessageId, Place]:
    """Where each message of a case comes from."""
    return {
        message.id: Place(turn.id, session.id)
        for session, messages in sessions_of(case)
        for message, turn in zip(messages, session.turns, strict=True)
    }


def sessions_of(case: Case) -> Iterator[tuple[Session, list[Message]]]:
    """The sessions in order of time, each with its turns as they are said."""
    said = 0
    for session in sorted(case.sessions, key=lambda session: session.started_at):
        yield session, _messages(session, first=said)
        said += len(session.turns)


def _messages(session: Session, first: int) -> list[Message]:
    return [
        Message(
            # Ids that follow from the position: a run that is repeated breaks ties in the same way.
            id=MessageId(str(uuid.UUID(int=first + place))),
            role=turn.role,
            speaker=turn.speaker,
            content=turn.text,
            timestamp=session.started_at + place * TURN_GAP,
            document=session.document,
            metadata={"turn": turn.id},
        )
        for place, turn in enumerate(session.turns)
    ]


def end_of(case: Case) -> datetime | None:
    """When the last session is over: the moment of a question that has none of its own."""
    return max((session.started_at + len(session.turns) * TURN_GAP for session in case.sessions), default=None)


async def _ask(
    memory: Memory, question: Question, now: datetime | None, places: Mapping[MessageId, Place], setup: Setup
) -> Asked:
    recalling = memory.recall(question.text, max_tokens=setup.max_tokens, budget=setup.budget, now=now)
    found, total = await timed(recalling)
    return Asked(
        id=question.id,
        category=question.category,
        metrics=score(question, found.hits, places, setup.unit),
        timings={**found.timings, "total": total},
    )


def score(question: Question, hits: Sequence[Hit], places: Mapping[MessageId, Place], unit: Unit) -> Metrics:
    """Rank metrics over the unit, and evidence inside N tokens over turns."""
    turns = [_ranked({places[source].turn for source in hit.fact.messages}, hit) for hit in hits]
    evidence = token_metrics(question.evidence, turns)
    if unit == "turn":
        return {**rank_metrics(question.evidence, turns), **evidence}
    sessions = dict.fromkeys(places[source].session for hit in hits for source in hit.fact.messages)
    ranking = [Ranked(frozenset({session}), 0) for session in sessions]
    return {**rank_metrics(question.sessions, ranking), **evidence}


def _ranked(sources: set[str], hit: Hit) -> Ranked:
    return Ranked(frozenset(sources), hit.fact.tokens)
