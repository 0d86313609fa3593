"""Revision of known facts by the revision model, for banks without a language model.

Each new statement is compared with the nearest earlier ones of its speaker. Only a correction in words closes the older
fact, or one of its claims. Any other change is stored as a link with its probability, by which recall ranks the newer
fact first and brings it in, and marks the claims of the older one that are probably outdated.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vmemo.models import Claim, Fact, FactId, Link, utc_now
from vmemo.models.changes import FactClosure, NewFact
from vmemo.models.search import LINKED, SUSPECT, ClaimPair, StatementPair
from vmemo.ports import Context, RevisionModel
from vmemo.retain import revise
from vmemo.text.corrections import is_correction
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.names.lexicon import is_foreign
from vmemo.text.own_words import foreign_spans
from vmemo.text.split import claim_spans
from vmemo.text.temporal.annotation import EDITED_BY_HAND
from vmemo.text.tokens import terms

# Chosen on conversations of our own.
CLOSE = 0.3
"""Least probability at which a correction in words closes the older fact, or a claim of it."""
CANDIDATES = 12
"""Nearest earlier statements that a new one is compared with."""
LEADING = 3
"""Place of the statement whose cosine the lead of the others is measured from."""


class Comparison(NamedTuple):
    """Two facts in the order they were stated, their numbers, and the probability that the newer outdates the older."""

    older: NewFact
    newer: NewFact
    pair: StatementPair
    rarity: Mapping[str, float]
    """The weights of the terms that the new statement shares with those that it is compared with."""
    probability: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Outdated:
    """A comparison of which the older fact is or may be outdated."""

    pair: Comparison
    closed: bool
    """The older fact is a single claim, which the newer one corrects."""
    corrected: bool = False
    """The newer fact corrects one of several claims of the older one."""


async def revise_by_model(done: revise.Revision, near: revise.Neighbours, context: Context) -> revise.Revision:
    """Add the closures and links that follow from the revision model to those that are decided."""
    model = context.revision_model
    if model is None:
        return done
    found = await _pairs(done, near)
    found = [each for each in found if revise.speaker_of(each.older.fact) == revise.speaker_of(each.newer.fact)]
    if not found:
        return done
    scores = await model.score([each.pair for each in found])
    judged = [each._replace(probability=score) for each, score in zip(found, scores, strict=True)]
    outdated = choose(judged)
    return with_claims(apply(done, outdated), await outdated_claims(outdated, model))


async def outdated_claims(outdated: Sequence[Outdated], model: RevisionModel) -> list[tuple[Fact, Claim]]:
    """Return the claims of older facts that a newer one certainly or probably ended, except those of closed facts.

    The only claim of a statement has the probability of the statement. A correction ends the most probable claim.
    """
    closed = {item.pair.older.fact.id for item in outdated if item.closed}
    left = [item for item in outdated if item.pair.older.fact.id not in closed]
    divided = [
        (item.pair, claims_in(revise.said_in(item.pair.older.fact)), claims_in(revise.said_in(item.pair.newer.fact)))
        for item in left
    ]
    several = [(pair, claims, later) for pair, claims, later in divided if len(claims) > 1 and later]
    asked: list[ClaimPair] = []
    for pair, claims, later in several:
        said, newer = revise.said_in(pair.older.fact), pair.newer.fact.text
        rows = claim_numbers(claims, later, pair.probability, pair.rarity).tolist()
        asked += [
            ClaimPair(said[c.start : c.end], newer, pair.probability, r) for c, r in zip(claims, rows, strict=True)
        ]
    scores = iter(await model.score_claims(asked))
    found: list[tuple[Fact, Claim]] = []
    for item, (pair, claims, later) in zip(left, divided, strict=True):
        judged = [next(scores) for _ in claims] if len(claims) > 1 and later else [pair.probability] * len(claims)
        found += [(pair.older.fact, claim) for claim in _marked(item, claims, judged)]
    return found


def _marked(item: Outdated, claims: Sequence[ClaimWords], scores: Sequence[float]) -> Iterator[Claim]:
    """Yield the claims of the older fact that are probably outdated; neighbours are one claim."""
    older, newer = item.pair.older.fact, item.pair.newer.fact
    said, offset = revise.said_in(older), len(older.text) - len(revise.said_in(older))
    spans = [(claim.start, claim.end) for claim, score in zip(claims, scores, strict=True) if score >= SUSPECT]
    for start, end in joined(said, spans):
        inside = [score for claim, score in zip(claims, scores, strict=True) if start <= claim.start < end]
        ended = item.corrected and max(inside) == max(scores) >= CLOSE
        yield Claim(
            text=said[start:end],
            start=offset + start,
            end=offset + end,
            valid_at=older.valid_at,
            invalid_at=newer.mentioned_at if ended else None,
            outdated=1.0 if ended else max(inside),
            replaced_by=newer.id,
        )


def with_claims(done: revise.Revision, outdated: Sequence[tuple[Fact, Claim]]) -> revise.Revision:
    """Return the revision with claims added to the facts that they are of, new or stored."""
    added: defaultdict[FactId, list[Claim]] = defaultdict(list)
    older = {fact.id: fact for fact, _ in outdated}
    for fact, claim in outdated:
        added[fact.id].append(claim)

    def all_claims(fact: Fact) -> tuple[Claim, ...]:
        new = added[fact.id]
        again = {claim.replaced_by for claim in new}
        kept = [claim for claim in fact.claims if claim.replaced_by not in again]
        return tuple(sorted((*kept, *new), key=lambda claim: (claim.start, claim.end, -claim.outdated)))

    facts = [
        replace(item, fact=item.fact.model_copy(update={"claims": all_claims(item.fact)}))
        if item.fact.id in added
        else item
        for item in done.facts
    ]
    stored = older.keys() - {item.fact.id for item in done.facts}
    return replace(done, facts=facts, claims={**done.claims, **{id: all_claims(older[id]) for id in sorted(stored)}})


def is_past_event(fact: Fact) -> bool:
    """Return True for a fact of what was over when it was mentioned: only a correction outdates it."""
    return fact.occurred_end is not None and fact.occurred_end <= fact.mentioned_at + timedelta(days=1)


class Statement(NamedTuple):
    """A statement with its speaker in front, and its time."""

    text: str
    at: datetime


def statement_pairs(new: Statement, known: Sequence[Statement], cosines: Sequence[float]) -> list[StatementPair]:
    """Return a statement with each of its nearest ones, nearest first; the one that was made first is the earlier."""
    said = _terms(new.text)
    shared = [_terms(each.text) & said for each in known]
    holders = Counter(term for terms_of_one in shared for term in terms_of_one)
    base = cosines[min(LEADING, len(cosines) - 1)] if cosines else 0.0
    pairs: list[StatementPair] = []
    for rank, (each, cosine, common) in enumerate(zip(known, cosines, shared, strict=True)):
        earlier, later = (new, each) if new.at < each.at else (each, new)
        pairs.append(
            StatementPair(
                earlier=earlier.text,
                later=later.text,
                days=(later.at - earlier.at) / timedelta(days=1),
                cosine=cosine,
                shared=len(common),
                rare=sum(1 / holders[term] for term in sorted(common)),
                earlier_terms=len(_terms(earlier.text)),
                later_terms=len(_terms(later.text)),
                rank=rank,
                lead=cosine - base,
            )
        )
    return pairs


def rarity_of(new: str, known: Sequence[str]) -> dict[str, float]:
    """Return the weight of each term that a statement shares with known ones: it is divided by those that have it."""
    said = _terms(new)
    return {term: 1 / count for term, count in Counter(t for text in known for t in _terms(text) & said).items()}


@lru_cache(maxsize=8192)
def _terms(text: str) -> frozenset[str]:
    """Return the terms of a statement without its speaker."""
    return frozenset(terms(text.partition(": ")[2] or text))


async def _pairs(done: revise.Revision, near: revise.Neighbours) -> list[Comparison]:
    """Return the pairs to compare: each new statement with the nearest current ones, stored or of the same batch."""
    said = [item for item in done.facts if is_statement(item.fact) and item.fact.id not in done.changed]
    # The model was trained on English.
    own = await asyncio.to_thread(revise.with_own_words, [item.fact for item in said])
    said = [item for item in said if item.fact.id in own and not is_foreign(item.fact.text)]
    if not said:
        return []
    stored = await near.near(said, limit=revise.MAX_SIMILAR, floor=revise.LEAST_COSINE, one_speaker=True)
    similar = list(
        map(revise.merge_similar, stored, revise.similar_in_batch(said, revise.LEAST_COSINE, revise.MAX_SIMILAR))
    )
    known = {item.fact.id: item for item in said}
    wanted = set[FactId]().union(*(each.ids for each in similar)) - known.keys() - done.changed.keys()
    known |= {
        id: NewFact(fact=fact, embedding=np.empty(0, np.float32))
        for id, fact in (await near.load(wanted)).items()
        if is_statement(fact)
    }
    return [each for item, others in zip(said, similar, strict=True) for each in _compare(item, others, known, own)]


def _compare(
    item: NewFact, similar: revise.Similar, known: Mapping[FactId, NewFact], own: AbstractSet[FactId]
) -> Iterator[Comparison]:
    """Yield the comparisons of a new fact with the nearest known ones that it can be compared with."""
    near = ((known[id], score) for id, score in zip(similar.ids, similar.scores, strict=True) if id in known)
    comparables = (pair for pair in near if comparable(item.fact, pair[0].fact))
    # Most of the nearest are of other speakers, so that only few are searched for their speaker's own words.
    stating = (pair for pair in comparables if pair[0].fact.id in own or revise.own_statement(pair[0].fact))
    chosen = list(islice(stating, CANDIDATES))
    said = Statement(revise.own_statement(item.fact), item.fact.mentioned_at)
    others = [Statement(revise.own_statement(other.fact), other.fact.mentioned_at) for other, _ in chosen]
    pairs = statement_pairs(said, others, [score for _, score in chosen])
    rarity = rarity_of(said.text, [each.text for each in others])
    for (other, _), pair in zip(chosen, pairs, strict=True):
        # News of an earlier time is the older one.
        late = item.fact.mentioned_at < other.fact.mentioned_at
        yield Comparison(*((item, other) if late else (other, item)), pair, rarity)


def is_statement(fact: Fact) -> bool:
    """Return True for a current fact that a person stated; the text of a document is nobody's statement."""
    return fact.network == "world" and revise.is_current(fact) and revise.speaker_of(fact) != "document"


def comparable(one: Fact, other: Fact) -> bool:
    """Return True for facts of different messages whose tags, which may separate users, are the same.

    A standing instruction is compared with another one only, and a person's statement with none of another person.
    """
    speaker, other_speaker = revise.speaker_of(one), revise.speaker_of(other)
    if one.instruction != other.instruction or (speaker and other_speaker and speaker != other_speaker):
        return False
    same_tags = one.tags == other.tags or set(one.tags) == set(other.tags)
    return same_tags and set(one.messages).isdisjoint(other.messages)


def choose(judged: Sequence[Comparison]) -> list[Outdated]:
    """Return the pairs of which the older fact is or may be outdated, from the least probability that has an effect.

    A correction closes only the most probable of the older facts, or one claim of it: what stands beside it may still
    hold. The first of several corrections closes an older fact.
    """
    likely = [pair for pair in judged if pair.probability >= LINKED]
    closing: dict[FactId, Comparison] = {}
    for pair in sorted(_most_probable(likely), key=lambda pair: pair.newer.fact.mentioned_at):
        if corrects(pair):
            closing.setdefault(pair.older.fact.id, pair)
    found: list[Outdated] = []
    for pair in likely:
        corrected = closing.get(pair.older.fact.id) is pair
        single = corrected and len(claims_in(revise.said_in(pair.older.fact))) <= 1
        found.append(Outdated(pair=pair, closed=single, corrected=corrected and not single))
    return found


def corrects(pair: Comparison) -> bool:
    """Return True if the newer fact certainly replaces the older one, or a claim of it: it corrects it in words."""
    return pair.probability >= CLOSE and is_correction(revise.own_statement(pair.newer.fact).partition(": ")[2])


def _most_probable(pairs: Iterable[Comparison]) -> Iterable[Comparison]:
    """Return for each newer fact the pair with the older one that it most probably outdates."""
    best: dict[FactId, Comparison] = {}
    for pair in pairs:
        known = best.get(pair.newer.fact.id)
        if known is None or pair.probability > known.probability:
            best[pair.newer.fact.id] = pair
    return best.values()


def apply(done: revise.Revision, outdated: Sequence[Outdated]) -> revise.Revision:
    """Return the revision with the closures and links of what is outdated."""
    closed = [item.pair for item in outdated if item.closed]
    new = {item.fact.id for item in done.facts}
    # A newer fact supersedes the one that it most probably replaces; links lead to the others.
    successors = {pair.newer.fact.id: pair.older.fact.id for pair in _most_probable(closed)}
    facts = [
        replace(item, fact=item.fact.model_copy(update={"supersedes": successors[item.fact.id]}))
        if item.fact.supersedes is None and item.fact.id in successors
        else item
        for item in done.facts
    ]
    return replace(
        done,
        facts=facts,
        closings=[*done.closings, *(closure(pair, new) for pair in closed)],
        changed={**done.changed, **{pair.older.fact.id: pair.older.fact for pair in closed}},
        # Of a stored fact the store knows if it replaces another one already.
        successors={**{newer: old for newer, old in successors.items() if newer not in new}, **done.successors},
        links=[
            *done.links,
            *(
                Link(
                    source=item.pair.newer.fact.id,
                    target=item.pair.older.fact.id,
                    kind="replaces" if item.closed else "outdates",
                    weight=item.pair.probability,
                )
                for item in outdated
            ),
        ],
    )


def closure(pair: Comparison, new: set[FactId]) -> FactClosure:
    """Return the end of the older fact: when the newer one was stated, or the start of one that was edited by hand.

    News of an earlier time was never believed to last longer, and a fact that ends in the future is believed until
    then, so that neither has an end of belief.
    """
    older, newer = pair.older.fact, pair.newer.fact
    late = older.id in new and newer.id not in new
    expired_at = None if late or newer.mentioned_at > utc_now() else revise.recorded_end(newer, older)
    edited = newer.engine == EDITED_BY_HAND
    end = max(revise.start_of(older), revise.start_of(newer)) if edited else newer.mentioned_at
    return FactClosure(fact=older.id, invalid_at=end, expired_at=expired_at)


# Claims: parts of a statement. The revision model judges whole statements. Most hold several claims, of which a later
# statement concerns one or two, so a second, smaller model of the same file says which.
_NUMBER = LazyPattern(r"\d[\d.,:/]*+")
_TENSES = tuple(
    LazyPattern(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:i|we|my|our|me|i['’]m|i['’]ve)\b",
        r"\b(?:was|were|had|did|went|got|said|told|came|took|made|\w{3,30}ed)\b",
        r"\b(?:will|going to|gonna|plan\w{0,6}|next|tomorrow|by|until|till|due|booked|from)\b|['’]ll\b",
        r"\b(?:is|are|am|has|have|does|do|lives?|works?)\b|['’](?:s|m|re|ve)\b",
    )
)
"""Words of a speaker about himself, and of the past, the future and the present."""


class ClaimWords(NamedTuple):
    """A claim, its place in what was said, and what is compared of it."""

    start: int
    end: int
    terms: frozenset[str]
    numbers: frozenset[str]
    tense: tuple[float, ...]


@lru_cache(maxsize=4096)
def claims_in(said: str) -> tuple[ClaimWords, ...]:
    """Return the claims of a speaker's words, without those that are quoted or have no terms."""
    quoted = foreign_spans(said)
    found: list[ClaimWords] = []
    for start, end in claim_spans(said):
        inside = sum(max(0, min(end, last) - max(start, first)) for first, last in quoted)
        words = said[start:end]
        if 2 * inside < end - start and (own := frozenset(terms(words))):
            numbers = frozenset(_NUMBER.findall(words))
            tense = tuple(float(pattern.search(words) is not None) for pattern in _TENSES)
            found.append(ClaimWords(start, end, own, numbers, tense))
    return tuple(found)


def claim_numbers(
    claims: Sequence[ClaimWords], later: Sequence[ClaimWords], probability: float, rarity: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return the inputs of the model, one row for each claim.

    `probability` is that of the two statements, and `rarity` the weight of the terms that the later one shares with
    the statements it was compared with.
    """
    said = frozenset[str]().union(*(claim.terms for claim in later))
    holders = Counter(term for claim in claims for term in claim.terms & said)
    distinct = [sum(rarity.get(term, 1.0) / holders[term] for term in sorted(claim.terms & said)) for claim in claims]
    order = sorted(range(len(claims)), key=lambda at: -distinct[at])
    first, second = distinct[order[0]], distinct[order[1]] if len(order) > 1 else 0.0
    logit = math.log(max(probability, 1e-6) / max(1 - probability, 1e-6))
    rows: list[list[float]] = []
    for at, (claim, value) in enumerate(zip(claims, distinct, strict=True)):
        shared = claim.terms & said
        best = max(later, key=lambda other: sum(rarity.get(t, 1.0) for t in sorted(claim.terms & other.terms)))
        near = claim.terms & best.terms
        row = [
            math.log1p(len(shared)),
            len(shared) / len(claim.terms),
            math.log1p(sum(rarity.get(term, 1.0) for term in sorted(shared))),
            math.log1p(value),
            len(near) / len(claim.terms),
            len(near) / len(best.terms),
            math.log1p(len(claim.terms)),
            float(bool(claim.numbers)),
            float(bool(claim.numbers & best.numbers)),
            float(bool(claim.numbers) and bool(best.numbers - claim.numbers)),
            *claim.tense,
            *(best.tense if near else (0.0,) * len(best.tense)),
            value - (second if at == order[0] else first),
            value / (first + 1e-6),
            float(at == order[0]),
            value / (sum(distinct) + 1e-6),
            math.log1p(len(claims)),
        ]
        rows.append([*row, logit, *(number * logit for number in row), logit * logit])
    return np.array(rows, np.float64)


def joined(said: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in their order, with those joined that have no words between them."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and len(said[found[-1][1] : start].split()) <= 1 and "\n" not in said[found[-1][1] : start]:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found
