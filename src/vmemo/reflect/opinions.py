"""Opinions under new evidence: each touched one is assessed in one call for all, and moves by a fixed step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, ConfidenceChange, Fact, FactId, Stance, utc_now
from vmemo.models.changes import Changes, Lease
from vmemo.ports import Store
from vmemo.reflect.llm_schemas import Assessments

PROMPTS = Path(__file__).parent / "prompts"
STEP = 0.15
"""How far one assessment moves a confidence."""
TOUCHED = 0.6
"""Least cosine of a fact that bears on an opinion without sharing an entity."""
_STEPS: Mapping[Stance, float] = {"reinforce": STEP, "weaken": -STEP, "contradict": -2 * STEP, "neutral": 0.0}


def moved(confidence: float, stance: Stance) -> float:
    """The confidence after an assessment, inside 0 and 1."""
    return round(min(1.0, max(0.0, confidence + _STEPS[stance])), 6)


def counted(opinions: Sequence[Fact], moves: Sequence[ConfidenceChange]) -> dict[FactId, set[FactId]]:
    """For each opinion the facts that have counted for it or against it; none counts a second time."""
    known = {opinion.id: set(opinion.basis) for opinion in opinions}
    for move in moves:
        known.setdefault(move.opinion, set()).update(move.evidence)
    return known


def touched(opinions: Sequence[Fact], facts: Sequence[Fact], known: Mapping[FactId, set[FactId]]) -> list[Fact]:
    """Opinions that share an entity with one of the facts, or are near one in meaning, and don't know it yet."""
    return [
        opinion
        for opinion in opinions
        if any(fact.id not in known[opinion.id] and _bears(fact, opinion) for fact in facts)
    ]


def _bears(fact: Fact, opinion: Fact) -> bool:
    named = {mention.id for mention in opinion.entities}
    if not named.isdisjoint(mention.id for mention in fact.entities):
        return True
    if fact.embedding is None or opinion.embedding is None:
        return False
    return float(np.dot(fact.embedding, opinion.embedding)) >= TOUCHED


async def weigh(
    bank: BankId, new: Sequence[FactId], store: Store, desk: StructuredLLM, lease: Lease, *, space: str
) -> list[ConfidenceChange]:
    """Assess the opinions that new facts touch and write how they move; the job ends with it."""
    while True:
        revision = await store.revision(bank)
        facts = [fact for fact in await store.facts(bank, new, with_embeddings=True) if fact.expired_at is None]
        held = await store.believed(bank, "opinion")
        known = counted(held, await store.moves(bank))
        opinions = touched(held, facts, known)
        if not opinions:
            await store.commit(Changes(bank=bank, finished=[lease], spending=desk.spending))
            return []
        moves = _moves(await _assessed(opinions, facts, desk), opinions, facts, known)
        batch = Changes(
            bank=bank, confidence=moves, spending=desk.spending, finished=[lease], revision=revision, embedder=space
        )
        if await store.commit(batch):
            return moves
        if not await store.renew([lease], lease.seconds):
            return []


async def _assessed(opinions: Sequence[Fact], facts: Sequence[Fact], desk: StructuredLLM) -> Assessments:
    shown = [f"O{n} | {opinion.text}" for n, opinion in enumerate(opinions, start=1)]
    news = [f"F{n} | {fact.mentioned_at:%d %B %Y} | {fact.text}" for n, fact in enumerate(facts, start=1)]
    ask = load_prompt(PROMPTS, "opinions").request(Assessments, opinions=quote(shown), facts=quote(news))
    return await desk.ask(ask, Assessments, lambda answer: _complaint(answer, len(opinions), len(facts)))


def _complaint(answer: Assessments, opinions: int, facts: int) -> str | None:
    given = [each.opinion for each in answer.assessments]
    asked = {f"O{n}" for n in range(1, opinions + 1)}
    known = {f"F{n}" for n in range(1, facts + 1)}
    if set(given) != asked or len(given) != len(asked):
        return f"exactly these opinions are to be assessed, once each: {', '.join(sorted(asked))}"
    strange = {id for each in answer.assessments for id in each.evidence} - known
    if strange:
        return f"there are no facts {', '.join(id[:8] for id in sorted(strange)[:5])}"
    bare = [each.opinion for each in answer.assessments if each.stance != "neutral" and not each.evidence]
    return f"these name no evidence: {', '.join(bare)}" if bare else None


def _moves(
    answer: Assessments, opinions: Sequence[Fact], facts: Sequence[Fact], known: Mapping[FactId, set[FactId]]
) -> list[ConfidenceChange]:
    now = utc_now()
    held = {f"O{n}": opinion for n, opinion in enumerate(opinions, start=1)}
    news = {f"F{n}": fact.id for n, fact in enumerate(facts, start=1)}
    moves: list[ConfidenceChange] = []
    for each in answer.assessments:
        opinion = held[each.opinion]
        before = opinion.confidence or 0.0
        evidence = tuple(id for id in dict.fromkeys(news[f] for f in each.evidence) if id not in known[opinion.id])
        if each.stance != "neutral" and evidence:
            after = moved(before, each.stance)
            moves.append(
                ConfidenceChange(
                    opinion=opinion.id,
                    stance=each.stance,
                    before=before,
                    after=after,
                    evidence=evidence,
                    reason=each.reason,
                    at=now,
                )
            )
    return moves
