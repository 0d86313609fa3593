"""A case in its bank: it is retained once, and what is recalled for each question is noted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vmemo import Memory
from vmemo.models import Disposition, Fact, Hit, MessageId, Profile
from vmemo.ports import LLM
from vmemo_bench.clock import timed
from vmemo_bench.datasets import Case, Question
from vmemo_bench.metrics import Metrics
from vmemo_bench.qa.records import Cited, Recollection, Shown
from vmemo_bench.runner import Place, Setup, end_of, score
from vmemo_bench.stores import in_file

NEUTRAL = Profile(disposition=Disposition(), bias=0.0)
"""Whoever answers adds nothing of its own."""
FACTS_SHOWN = 12
"""Recalled facts that a report shows of each question."""
LONGEST_FACT = 600
"""Characters of a fact that are shown."""


def dated(case: Case) -> tuple[Question, ...]:
    """The case's questions; one without a moment of its own is asked when the last session is over."""
    end = end_of(case)
    return tuple(replace(question, asked_at=question.asked_at or end) for question in case.questions)


def file_of(case: Case, folder: Path) -> Path:
    """The database of a case, the same in every run."""
    return folder / f"{hashlib.sha256(case.id.encode()).hexdigest()[:16]}.db"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where facts come from, and which turns are a question's evidence."""

    places: Mapping[MessageId, Place]
    evidence: frozenset[str]

    def holds(self, fact: Fact) -> bool:
        """Whether a fact comes from a turn that is evidence."""
        return any(self.places[message].turn in self.evidence for message in fact.messages if message in self.places)

    def cited(self, fact: Fact) -> Cited:
        """A fact as an answer cites it."""
        return Cited(network=fact.network, day=_day(fact), text=fact.text[:LONGEST_FACT], evidence=self.holds(fact))

    def shown(self, hit: Hit, rank: int) -> Shown:
        """A fact as recall found it."""
        return Shown(
            rank=rank,
            score=hit.score,
            day=_day(hit.fact),
            text=hit.text[:LONGEST_FACT],
            channels={channel: placing.rank for channel, placing in sorted(hit.channels.items())},
            evidence=self.holds(hit.fact),
        )


def _day(fact: Fact) -> str:
    return f"{fact.mentioned_at:%Y-%m-%d}"


async def recollect(
    memory: Memory, question: Question, *, places: Mapping[MessageId, Place], setup: Setup
) -> Recollection:
    """What is there when the answering begins: half of the tokens that it may read, all if it may not look again."""
    room = max(1, setup.max_tokens // 2) if setup.looks else setup.max_tokens
    recalling = memory.recall(question.text, max_tokens=room, budget=setup.budget, now=question.asked_at, explain=True)
    found, total = await timed(recalling)
    sources = Sources(places=places, evidence=question.evidence)
    return Recollection(
        id=question.id,
        type=found.explanation.type if found.explanation else "general",
        tokens=found.tokens,
        count=len(found.hits),
        metrics=_metrics(question, found.hits, places=places, setup=setup, room=room),
        facts=tuple(sources.shown(hit, rank) for rank, hit in enumerate(found.hits[:FACTS_SHOWN], start=1)),
        timings={**found.timings, "total": total},
    )


def _metrics(
    question: Question, hits: Sequence[Hit], *, places: Mapping[MessageId, Place], setup: Setup, room: int
) -> Metrics:
    """Those of retrieval mode, as far as the recalled tokens reach; none where there is nothing to find."""
    if not question.answerable:
        return {}
    found = score(question, hits, places, setup.unit)
    return {name: value for name, value in found.items() if _reach(name) <= room}


def _reach(metric: str) -> int:
    name, _, size = metric.partition("@")
    return int(size) if name == "evidence" else 0


def answering(setup: Setup, case: Case, *, database: Path, llm: LLM) -> Memory:
    """The same bank for a model that answers from it; nothing goes on behind the answers."""
    quiet = replace(setup, llm=llm, settings=replace(setup.settings, background=False))
    return quiet.memory(case, in_file(database, case.id))


async def be_neutral(memory: Memory) -> None:
    """Give the bank a character that has no say."""
    if await memory.profile() != NEUTRAL:
        await memory.profile(NEUTRAL)
