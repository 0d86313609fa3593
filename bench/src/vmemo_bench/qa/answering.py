"""Answering: recall the context of a question, and put the question to reflect as a user would."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vmemo import Memory
from vmemo.models import Disposition, Fact, Hit, Profile
from vmemo.models.results import Answer
from vmemo.ports import LLM
from vmemo_bench.bench_store import BankLocation
from vmemo_bench.case_run import Origins, RunSetup, end_of, score
from vmemo_bench.datasets import Case, DatasetQuestion
from vmemo_bench.qa.records import CitedFact, GivenAnswer, RecalledContext, RecalledFact
from vmemo_bench.statistics import Metrics, timed

NEUTRAL = Profile(disposition=Disposition(), bias=0.0)
"""A profile without influence on answers."""
REPORTED_FACTS = 12
"""Recalled facts that a report shows per question."""
MAX_FACT_LENGTH = 600
"""Characters of a reported fact."""
_FACT_ID = re.compile(r"\s*\[[0-9a-f]{8}-[0-9a-f-]{27}\]")
"""The id of a fact in a step of an answer; it differs between banks."""


def dated_questions(case: Case) -> tuple[DatasetQuestion, ...]:
    """Return the case's questions; one that states no time is asked at the end of the last session."""
    end = end_of(case)
    return tuple(replace(question, asked_at=question.asked_at or end) for question in case.questions)


def answering_memory(setup: RunSetup, case: Case, location: BankLocation, llm: LLM) -> Memory:
    """Return a memory on the bank of a case whose model answers; it runs no background jobs."""
    quiet = replace(setup, llm=llm, settings=setup.settings.model_copy(update={"background": False}))
    return quiet.memory(case, location)


async def make_neutral(memory: Memory) -> None:
    if await memory.profile() != NEUTRAL:
        await memory.profile(NEUTRAL)


@dataclass(frozen=True, kw_only=True)
class EvidenceCheck:
    """Recognises facts that come from the evidence of a question."""

    origins: Origins
    evidence: frozenset[str]

    def matches(self, fact: Fact) -> bool:
        """Return True if the fact comes from an evidence turn."""
        turns = (self.origins[message].turn for message in fact.messages if message in self.origins)
        return any(turn in self.evidence for turn in turns)

    def cited(self, fact: Fact) -> CitedFact:
        text = fact.text[:MAX_FACT_LENGTH]
        return CitedFact(network=fact.network, day=_day(fact), text=text, evidence=self.matches(fact))

    def recalled(self, hit: Hit, rank: int) -> RecalledFact:
        return RecalledFact(
            rank=rank,
            score=hit.score,
            day=_day(hit.fact),
            text=hit.text[:MAX_FACT_LENGTH],
            channels={channel: placement.rank for channel, placement in sorted(hit.channels.items())},
            evidence=self.matches(hit.fact),
        )


def _day(fact: Fact) -> str:
    return f"{fact.mentioned_at:%Y-%m-%d}"


async def record_recall(
    memory: Memory, question: DatasetQuestion, *, origins: Origins, setup: RunSetup
) -> RecalledContext:
    """Recall what reflect starts with: half of its tokens, or all of them if it may make no further lookups."""
    tokens = max(1, setup.max_tokens // 2) if setup.max_lookups else setup.max_tokens
    recall = memory.recall(question.text, max_tokens=tokens, budget=setup.budget, now=question.asked_at, explain=True)
    found, total = await timed(recall)
    check = EvidenceCheck(origins=origins, evidence=question.evidence)
    return RecalledContext(
        id=question.id,
        type=found.explanation.type if found.explanation else "general",
        tokens=found.tokens,
        count=len(found.hits),
        metrics=_metrics(question, found.hits, origins=origins, setup=setup, tokens=tokens),
        facts=tuple(check.recalled(hit, rank) for rank, hit in enumerate(found.hits[:REPORTED_FACTS], start=1)),
        timings={**found.timings, "total": total},
    )


def _metrics(
    question: DatasetQuestion, hits: Sequence[Hit], *, origins: Origins, setup: RunSetup, tokens: int
) -> Metrics:
    """Return the metrics of retrieval mode up to the recalled tokens; none for an unanswerable question."""
    if not question.answerable:
        return {}
    found = score(question, hits, origins, setup.unit)
    return {name: value for name, value in found.items() if _depth(name) <= tokens}


def _depth(metric: str) -> int:
    name, _, tokens = metric.partition("@")
    return int(tokens) if name == "evidence" else 0


async def answer_question(
    memory: Memory, question: DatasetQuestion, *, origins: Origins, setup: RunSetup
) -> GivenAnswer:
    """Answer a question with reflect; nothing that only the dataset knows is passed."""
    found, ms = await timed(reflect(memory, question, setup=setup))
    check = EvidenceCheck(origins=origins, evidence=question.evidence)
    return GivenAnswer(
        id=question.id,
        # The notes that reflect adds are not part of the model's answer; the report has them separately.
        text=found.plain.removesuffix("\n".join(found.notes)).strip(),
        found=found.found,
        steps=tuple(_FACT_ID.sub("", step) for step in found.steps),
        lookups=found.lookups,
        cited=tuple(map(check.cited, (*found.facts, *found.observations, *found.opinions))),
        flaws=found.flaws,
        usage=found.usage,
        ms=ms,
    )


async def reflect(memory: Memory, question: DatasetQuestion, *, setup: RunSetup) -> Answer:
    """Call reflect without forming opinions, which later questions would find."""
    return await memory.reflect(
        question.text,
        max_tokens=setup.max_tokens,
        budget=setup.budget,
        max_lookups=setup.max_lookups,
        now=question.asked_at,
        opinions=False,
    )
