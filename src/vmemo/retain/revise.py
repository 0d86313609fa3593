"""Revision: new facts beside what is known. The known is closed, told again or joined, and never overwritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

import numpy as np

from vmemo.models import BankId, Fact, FactId, utc_now
from vmemo.models.changes import AddedSource, FactClosure, NewFact
from vmemo.models.drafts import ExtractionResult, FactDraft, Judgement
from vmemo.ports import Library, Search
from vmemo.text.claims import compare_claims, parse_claim

NEAR = 8
"""Known facts that a new one is compared with."""
FLOOR = 0.8
"""Least cosine of a fact that shares an entity; what is further away was shown to the reader, or is about another
matter."""
ALIKE = 0.85
"""Least cosine of a fact that shares none."""
MANY, FAR = 50, 0.3
"""How many facts, and how unlike, are looked through for one that claims something else of the same."""


class Shelf(Search, Library, Protocol):
    """What revision reads."""


@dataclass(frozen=True)
class Pair:
    """A new fact and a known one near it."""

    new: int
    known: Fact


@dataclass
class Revision:
    """What becomes of the new facts and of the known ones. `stands_for` leads from a new fact to what tells it."""

    facts: list[NewFact] = field(default_factory=list[NewFact])
    closings: list[FactClosure] = field(default_factory=list[FactClosure])
    sourced: list[AddedSource] = field(default_factory=list[AddedSource])
    successors: dict[FactId, FactId] = field(default_factory=dict[FactId, FactId])
    changed: dict[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    stands_for: dict[FactId, FactId] = field(default_factory=dict[FactId, FactId])
    merged: set[FactId] = field(default_factory=set[FactId])


async def near(bank: BankId, new: Sequence[NewFact], drafts: Sequence[FactDraft], shelf: Shelf) -> list[Pair]:
    """Known facts that each new one is compared with: those it names or shares an entity with, or nearly repeats."""
    named = {judged.fact for draft in drafts for judged in draft.judgements}
    scores, known = await _neighbours(bank, new, named, shelf, limit=NEAR, floor=FLOOR)
    return [
        Pair(at, known[id])
        for at, (item, draft) in enumerate(zip(new, drafts, strict=True))
        for id in dict.fromkeys((*scores[at], *(judged.fact for judged in draft.judgements)))
        if id in known and id != item.fact.id
        if scores[at].get(id, 0.0) >= ALIKE or _share_entity(item.fact, known[id])
    ]


async def rivals(bank: BankId, new: Sequence[NewFact], shelf: Shelf) -> list[Pair]:
    """Known facts, and earlier ones of the batch, that make a claim beside new ones that make one too."""
    claims = {at: claim for at, item in enumerate(new) if (claim := parse_claim(item.fact.text)) is not None}
    claiming = [new[at] for at in claims]
    scores, known = await _neighbours(bank, claiming, set(), shelf, limit=MANY, floor=FAR)
    stored = [
        Pair(at, known[id])
        for at, found in zip(claims, scores, strict=True)
        for id in found
        if id in known and id != new[at].fact.id
    ]
    inside = [
        Pair(at, new[other].fact)
        for at, claim in claims.items()
        for other, earlier in claims.items()
        if other < at and (claim.subject, claim.attribute) == (earlier.subject, earlier.attribute)
    ]
    return [*stored, *inside]


async def _neighbours(
    bank: BankId, new: Sequence[NewFact], named: set[FactId], shelf: Shelf, *, limit: int, floor: float
) -> tuple[list[dict[FactId, float]], dict[FactId, Fact]]:
    """For each new fact the cosines of those near it, and these facts themselves with those that are named."""
    if not new:
        return [], {}
    hits = await shelf.nearest(bank, np.stack([item.embedding for item in new]), limit=limit, floor=floor)
    wanted = list(named | {hit.id for found in hits for hit in found})
    known = {fact.id: fact for fact in await shelf.facts(bank, wanted) if _is_evidence(fact)}
    return [{hit.id: hit.score for hit in found} for found in hits], known


def _is_evidence(fact: Fact) -> bool:
    return fact.network in ("world", "experience") and fact.expired_at is None and fact.invalid_at is None


def _share_entity(one: Fact, other: Fact) -> bool:
    return not {mention.id for mention in one.entities}.isdisjoint(mention.id for mention in other.entities)


def proven(pairs: Sequence[Pair], new: Sequence[NewFact], *, duplicates: bool) -> dict[int, list[Judgement]]:
    """What follows from the words alone. `duplicates=False` lets a repeated claim be, as its words may differ."""
    found: dict[int, list[Judgement]] = {}
    for pair in pairs:
        claim, known = parse_claim(new[pair.new].fact.text), parse_claim(pair.known.text)
        verdict = compare_claims(claim, known) if claim is not None and known is not None else None
        if verdict is not None and claim is not None and (duplicates or verdict == "supersede"):
            judged = Judgement(verdict=verdict, fact=pair.known.id, mistaken=claim.mistaken)
            found.setdefault(pair.new, []).append(judged)
    return found


def open_questions(
    pairs: Sequence[Pair], drafts: Sequence[FactDraft], reading: ExtractionResult, settled: Mapping[int, object]
) -> list[Pair]:
    """Pairs that nobody has judged: the engine was not shown the known fact, and nothing is proven."""
    said = {(at, judged.fact) for at, draft in enumerate(drafts) for judged in draft.judgements}
    return [
        pair
        for pair in pairs
        if pair.new not in settled and pair.known.id not in reading.known and (pair.new, pair.known.id) not in said
    ]


def plausible(drafts: Sequence[FactDraft], pairs: Sequence[Pair]) -> dict[int, list[Judgement]]:
    """What the engine said itself, as far as the facts are near each other: nobody replaces what is far away."""
    reach = {(pair.new, pair.known.id) for pair in pairs}
    found = {at: [each for each in d.judgements if (at, each.fact) in reach] for at, d in enumerate(drafts)}
    return {at: judged for at, judged in found.items() if judged}


def apply(new: Sequence[NewFact], judged: Mapping[int, Sequence[Judgement]], pairs: Sequence[Pair]) -> Revision:
    """Carry verdicts out. Merged texts have the vectors of the old ones still; `merged` tells whose must be made."""
    known = {pair.known.id: pair.known for pair in pairs}
    done = Revision()
    for at, item in enumerate(new):
        verdicts = [each for each in judged.get(at, ()) if each.fact in known and each.fact not in done.changed]
        _settle(item, verdicts, known, done)
    return done


def _settle(item: NewFact, verdicts: Sequence[Judgement], known: Mapping[FactId, Fact], done: Revision) -> None:
    same = next((each for each in verdicts if each.verdict == "duplicate"), None)
    if same is not None:
        old = known[same.fact]
        done.sourced.append(AddedSource(fact=old.id, messages=item.fact.messages, episodes=item.fact.episodes))
        done.stands_for[item.fact.id] = old.id
        return
    joined = next((each for each in verdicts if each.verdict == "merge" and each.text.strip()), None)
    fact = item.fact if joined is None else _merge(item.fact, known[joined.fact], joined.text.strip(), done)
    replaced = [(known[each.fact], each.mistaken) for each in verdicts if each.verdict == "supersede"]
    done.facts.append(replace(item, fact=_supersede(fact, replaced, done)))


def _merge(new: Fact, old: Fact, text: str, done: Revision) -> Fact:
    """One fact in place of two: true as long as either was, told by all who told either."""
    _close(old, done, FactClosure(fact=old.id, expired_at=_learned(new, old)))
    done.merged.add(new.id)
    moments = [moment for moment in (new.valid_at, old.valid_at) if moment is not None]
    return new.model_copy(
        update={
            "text": text,
            "supersedes": old.id,
            "valid_at": min(moments, default=None),
            "messages": tuple(dict.fromkeys((*old.messages, *new.messages))),
            "episodes": tuple(dict.fromkeys((*old.episodes, *new.episodes))),
            "entities": tuple({mention.id: mention for mention in (*old.entities, *new.entities)}.values()),
            "occurred_start": new.occurred_start or old.occurred_start,
            "occurred_end": new.occurred_end or old.occurred_end,
            "importance": max(new.importance, old.importance),
        }
    )


def _supersede(new: Fact, replaced: Sequence[tuple[Fact, bool]], done: Revision) -> Fact:
    """The new fact in its place: after those it replaces, or, if it is late news of an earlier time, before them."""
    for old, mistaken in sorted(replaced, key=lambda pair: _began(pair[0]), reverse=True):
        if mistaken:
            # Closed at its own beginning it was never true, and what is true now has been so from there on.
            new = new.model_copy(update={"valid_at": old.valid_at})
            _close(old, done, FactClosure(fact=old.id, invalid_at=_began(old), expired_at=_learned(new, old)))
        elif _began(new) < _began(old):
            new = new.model_copy(update={"invalid_at": min(_began(old), new.invalid_at or _began(old))})
            if old.supersedes is None:
                done.successors.setdefault(old.id, new.id)
            done.changed[old.id] = old
            continue
        else:
            # What ends only in time to come is still believed until then.
            learned = None if _began(new) > utc_now() else _learned(new, old)
            _close(old, done, FactClosure(fact=old.id, invalid_at=_began(new), expired_at=learned))
        if new.supersedes is None:
            new = new.model_copy(update={"supersedes": old.id})
        else:
            done.successors.setdefault(new.supersedes, old.id)
    return new


def _began(fact: Fact) -> datetime:
    return fact.valid_at or fact.mentioned_at


def _learned(new: Fact, old: Fact) -> datetime:
    """When the old fact stopped being believed: when the new one was recorded."""
    return max(new.recorded_at, old.recorded_at)


def _close(old: Fact, done: Revision, closing: FactClosure) -> None:
    done.changed[old.id] = old
    done.closings.append(closing)
