"""Opinion updates: assess the held opinions that new facts affect, and change their confidence in fixed steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, ConfidenceChange, Fact, FactId, Mention, Stance, utc_now
from vmemo.models.changes import Changes, Lease
from vmemo.models.select import FactSelect
from vmemo.ports import Context
from vmemo.reflect.llm_schemas import OpinionAssessments

PROMPTS = Path(__file__).parent / "prompts"
STEP = 0.15
"""Change of confidence when a fact reinforces or weakens an opinion."""
AFFECTING_COSINE = 0.6
"""Least cosine of a fact that affects an opinion without sharing an entity."""
_STEPS: Mapping[Stance, int] = {"reinforce": 1, "weaken": -1, "contradict": -2, "neutral": 0}
"""Steps by which an assessment changes the confidence of an opinion."""


def changed_confidence(confidence: float, stance: Stance) -> float:
    """Return the confidence after an assessment, between 0 and 1."""
    return round(min(1.0, max(0.0, confidence + _STEPS[stance] * STEP)), 6)


def evidence_by_opinion(opinions: Sequence[Fact], changes: Sequence[ConfidenceChange]) -> dict[FactId, set[FactId]]:
    """Return the facts that each opinion already rests on or was changed by; none of them counts again."""
    used = {opinion.id: set(opinion.basis) for opinion in opinions}
    for change in changes:
        used.setdefault(change.opinion, set()).update(change.evidence)
    return used


def affected_opinions(
    opinions: Sequence[Fact], facts: Sequence[Fact], used: Mapping[FactId, set[FactId]]
) -> list[Fact]:
    """Return the opinions that share an entity with a fact, or are similar to one, that did not count yet."""
    return [
        opinion
        for opinion in opinions
        if any(fact.id not in used[opinion.id] and _affects(fact, opinion) for fact in facts)
    ]


def _affects(fact: Fact, opinion: Fact) -> bool:
    entities = {mention.id for mention in opinion.entities}
    if not entities.isdisjoint(mention.id for mention in fact.entities):
        return True
    if not entities and entities_in(opinion.text, [fact]):
        # What the opinion names was not known as an entity yet when it was formed.
        return True
    if fact.embedding is None or opinion.embedding is None:
        return False
    return float(np.dot(fact.embedding, opinion.embedding)) >= AFFECTING_COSINE


def entities_in(text: str, facts: Iterable[Fact]) -> tuple[Mention, ...]:
    """Return the entities of the facts that the text names."""
    found: dict[str, Mention] = {}
    for mention in (mention for fact in facts for mention in fact.entities):
        names = "|".join(re.escape(name) for name in (mention.name, mention.name_in_text) if name)
        if re.search(rf"(?<!\w)(?:{names})(?!\w)", text, re.IGNORECASE):
            found.setdefault(mention.id, mention.model_copy(update={"name_in_text": ""}))
    return tuple(found.values())


async def update_opinions(
    bank: BankId, new: Sequence[FactId], context: Context, llm: StructuredLLM, lease: Lease
) -> list[ConfidenceChange]:
    """Assess the opinions that new facts affect, and write the changes of their confidence; this completes the job."""
    store = context.store
    while True:
        revision = await store.revision(bank)
        facts = [
            fact
            for fact in await store.facts(bank, FactSelect(ids=new, with_embeddings=True))
            if fact.expired_at is None
        ]
        held = await store.facts(bank, FactSelect.believed("opinion"))
        used = evidence_by_opinion(held, await store.confidence_changes(bank))
        opinions = affected_opinions(held, facts, used)
        if not opinions:
            await store.commit(Changes(bank=bank, finished=[lease], spending=llm.spending))
            return []
        assessed = await _assess(opinions, facts, llm)
        confidence = _confidence_changes(assessed, opinions, facts, used)
        changes = Changes(
            bank=bank,
            confidence=confidence,
            spending=llm.spending,
            finished=[lease],
            revision=revision,
            embedder=context.embedder.name,
        )
        if await store.commit(changes):
            return confidence
        if not await store.renew([lease], lease.seconds):
            return []


async def _assess(opinions: Sequence[Fact], facts: Sequence[Fact], llm: StructuredLLM) -> OpinionAssessments:
    opinion_lines = [f"O{n} | {opinion.text}" for n, opinion in enumerate(opinions, start=1)]
    fact_lines = [f"F{n} | {fact.mentioned_at:%d %B %Y} | {fact.text}" for n, fact in enumerate(facts, start=1)]
    prompt = load_prompt(PROMPTS, "opinions")
    ask = prompt.request(OpinionAssessments, opinions=quote(opinion_lines), facts=quote(fact_lines))
    return await llm.ask(ask, OpinionAssessments, lambda answer: _feedback(answer, len(opinions), len(facts)))


def _feedback(answer: OpinionAssessments, opinions: int, facts: int) -> str | None:
    """Return what the LLM must correct, or None."""
    assessed = [each.opinion for each in answer.assessments]
    expected = {f"O{n}" for n in range(1, opinions + 1)}
    if set(assessed) != expected or len(assessed) != len(expected):
        return f"assess exactly these opinions, once each: {', '.join(sorted(expected))}"
    unknown = {id for each in answer.assessments for id in each.evidence} - {f"F{n}" for n in range(1, facts + 1)}
    if unknown:
        return f"these facts do not exist: {', '.join(id[:8] for id in sorted(unknown)[:5])}"
    unsupported = [each.opinion for each in answer.assessments if each.stance != "neutral" and not each.evidence]
    return f"these name no evidence: {', '.join(unsupported)}" if unsupported else None


def _confidence_changes(
    answer: OpinionAssessments,
    opinions: Sequence[Fact],
    facts: Sequence[Fact],
    used: Mapping[FactId, set[FactId]],
) -> list[ConfidenceChange]:
    now = utc_now()
    by_number = {f"O{n}": opinion for n, opinion in enumerate(opinions, start=1)}
    fact_ids = {f"F{n}": fact.id for n, fact in enumerate(facts, start=1)}
    changes: list[ConfidenceChange] = []
    for each in answer.assessments:
        opinion = by_number[each.opinion]
        ids = dict.fromkeys(fact_ids[number] for number in each.evidence)
        evidence = tuple(id for id in ids if id not in used[opinion.id])
        if each.stance != "neutral" and evidence:
            changes.append(confidence_change(opinion, each.stance, evidence, each.reason, now))
    return changes


def confidence_change(
    opinion: Fact, stance: Stance, evidence: tuple[FactId, ...], reason: str, at: datetime
) -> ConfidenceChange:
    """Return the change that an assessment makes to an opinion's confidence."""
    before = opinion.confidence or 0.0
    return ConfidenceChange(
        opinion=opinion.id,
        stance=stance,
        before=before,
        after=changed_confidence(before, stance),
        evidence=evidence,
        reason=reason,
        at=at,
    )
