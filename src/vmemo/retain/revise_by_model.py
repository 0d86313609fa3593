"""Revision of known facts by the revision model, for banks without a language model.

Each new statement is compared with the nearest earlier ones. A probable change closes the older fact; a possible one is
stored as a link, by which recall ranks the newer fact first. Of a fact with several statements those that still hold
are kept as a fact of their own.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

import numpy as np

from vmemo.models import BankId, Fact, FactId, Link, utc_now
from vmemo.models.changes import FactClosure, NewFact
from vmemo.models.search import SUSPECT, StatementPair, Vector
from vmemo.ports import Context, RevisionModel
from vmemo.retain.neighbours import LEAST_COSINE, MAX_SIMILAR, Neighbours, merge_similar, similar_in_batch
from vmemo.retain.revise import (
    FactPair,
    Revision,
    embed_facts,
    fact_id,
    is_current,
    own_statement,
    recorded_end,
    remaining_fact,
    speaker_of,
    start_of,
    with_own_words,
)
from vmemo.text.fact_text import EDITED_BY_HAND, embedded_text
from vmemo.text.names.lexicon import is_foreign
from vmemo.text.split import StatementSpan, join_statements, split_statements

# The probabilities were chosen on conversations of our own.
CLOSE = 0.32
"""Probability from which the older fact is closed."""
LEAST_EFFECTIVE = 0.03
"""Probability from which two facts are linked, so that the newer of two best candidates ranks above the older one."""
PART = 0.15
"""Probability from which one of several statements of a closed fact no longer holds."""
MAX_STATEMENTS = 8
"""Statements of a fact that is closed; one with more is only marked."""
CANDIDATES = 12
"""Nearest earlier statements that a new one is compared with."""
FEW_SIMILAR = 12
"""Number of similar statements up to which a probability counts in full; with more its odds fall in proportion."""
MAX_SUSPECTED = 6
"""Pairs of facts that a language model is asked about because the revision model suspects them."""


class Comparison(NamedTuple):
    """Two facts in the order they were stated, their cosine, and the probability that the newer outdates the older.

    `similar` is the number of facts that are similar to the new one, of which the other is one.
    """

    older: NewFact
    newer: NewFact
    cosine: float
    probability: float = 0.0
    similar: int = 1


@dataclass(frozen=True, kw_only=True)
class Outdated:
    """A comparison of which the older fact is closed, with the text of it that still holds, or only suspected."""

    pair: Comparison
    closed: bool
    kept: str = ""


async def revise_by_model(bank: BankId, done: Revision, near: Neighbours, context: Context) -> Revision:
    """Add the revision model's closures and links to those that rules have decided."""
    model = context.revision_model
    if model is None:
        return done
    found = await _pairs(done, near)
    pairs = [pair for pair in found if speaker_of(pair.older.fact) == speaker_of(pair.newer.fact)]
    if not pairs:
        return done
    scores = await model.score([_statements_of(pair, own_statement(pair.older.fact), pair.cosine) for pair in pairs])
    probabilities = (among(score, pair.similar) for pair, score in zip(pairs, scores, strict=True))
    judged = [
        pair._replace(probability=probability)
        for pair, probability in zip(pairs, probabilities, strict=True)
        if probability >= LEAST_EFFECTIVE
    ]
    outdated = await _divide(choose(judged), model, context)
    reissued = [reissue(bank, item, context) for item in outdated if item.kept]
    return apply(done, outdated, await embed_facts(reissued, context.embedder))


async def suspected_pairs(
    new: Sequence[NewFact], shown: AbstractSet[FactId], near: Neighbours, context: Context
) -> list[FactPair]:
    """Return new facts with known ones that they probably outdate, for a language model that was not shown those."""
    model = context.revision_model
    if model is None or not new:
        return []
    pairs = [
        pair
        for pair in await _pairs(Revision(facts=list(new)), near)
        if pair.older.fact.id not in shown and not is_past_event(pair.older.fact)
    ]
    scores = await model.score([_statements_of(pair, own_statement(pair.older.fact), pair.cosine) for pair in pairs])
    places = {item.fact.id: at for at, item in enumerate(new)}
    suspected = [
        (score, FactPair(places[pair.newer.fact.id], pair.older.fact))
        for pair, score in zip(pairs, scores, strict=True)
        if score >= SUSPECT and pair.newer.fact.id in places and pair.older.fact.id not in places
    ]
    best = sorted(suspected, key=lambda item: -item[0])[:MAX_SUSPECTED]
    return [pair for _, pair in best]


def is_past_event(fact: Fact) -> bool:
    """Return True for a fact about something that was over when it was mentioned: only a correction outdates it."""
    return fact.occurred_end is not None and fact.occurred_end <= fact.mentioned_at + timedelta(days=1)


def among(probability: float, similar: int) -> float:
    """Return a probability by the number of similar facts: a statement replaces about one, however many there are."""
    odds = probability / max(1 - probability, 1e-9) * min(1.0, FEW_SIMILAR / max(1, similar))
    return odds / (1 + odds)


def _statements_of(pair: Comparison, older: str, cosine: float) -> StatementPair:
    """Return what the model compares: own words of the newer fact with those of the older one, or a part of it."""
    days = pair.newer.fact.mentioned_at.toordinal() - pair.older.fact.mentioned_at.toordinal()
    return StatementPair(older, own_statement(pair.newer.fact), days, cosine)


async def _pairs(done: Revision, near: Neighbours) -> list[Comparison]:
    """Return the pairs to compare: each new statement with the nearest current ones, stored or of the same batch."""
    said = [item for item in done.facts if is_statement(item.fact) and item.fact.id not in done.changed]
    # The model was trained on English.
    own = await asyncio.to_thread(with_own_words, [item.fact for item in said])
    said = [item for item in said if item.fact.id in own and not is_foreign(item.fact.text)]
    if not said:
        return []
    stored = await near.near(said, limit=MAX_SIMILAR, floor=LEAST_COSINE)
    # Replies of the assistant are among the nearest and are not compared.
    most = 2 * CANDIDATES
    in_batch = similar_in_batch(said, LEAST_COSINE, most)
    similar = list(map(merge_similar, (hits[:most] for hits in stored), in_batch))
    known = {item.fact.id: item for item in said}
    compared: list[list[int]] = [[] for _ in said]
    for limit in (CANDIDATES, 2 * most):
        short = [at for at, found in enumerate(compared) if len(found) < CANDIDATES]
        wanted = set[FactId]().union(*(similar[at].ids[:limit] for at in short)) - known.keys() - done.changed.keys()
        known |= {
            id: _stored(fact)
            for id, fact in (await near.load(wanted)).items()
            if is_statement(fact) and own_statement(fact)
        }
        for at in short:
            compared[at] = _comparable(said[at].fact, similar[at].ids[:limit], known, CANDIDATES)
    return [
        in_order(item, known[each.ids[place]], each.scores[place], len(hits) + each.number)
        for item, hits, each, places in zip(said, stored, similar, compared, strict=True)
        for place in places
    ]


def _comparable(fact: Fact, ids: Sequence[FactId], known: Mapping[FactId, NewFact], limit: int) -> list[int]:
    """Return the places of the first ids that are known and whose facts can be compared with a new one."""
    places = (at for at, id in enumerate(ids) if id in known and comparable(fact, known[id].fact))
    return list(islice(places, limit))


def _stored(fact: Fact) -> NewFact:
    return NewFact(fact=fact, embedding=_NO_VECTOR)


_NO_VECTOR = np.empty(0, np.float32)


def is_statement(fact: Fact) -> bool:
    """Return True for a current fact that a person stated; the text of a document is nobody's statement."""
    return fact.network == "world" and is_current(fact) and speaker_of(fact) != "document"


def comparable(one: Fact, other: Fact) -> bool:
    """Return True for facts of different messages whose tags, which may separate users, are the same.

    A standing instruction is compared with another one only, and a person's statement with none of another person.
    """
    speakers = {speaker_of(one), speaker_of(other)} - {""}
    if one.instruction != other.instruction or len(speakers) > 1:
        return False
    same_tags = one.tags == other.tags or set(one.tags) == set(other.tags)
    return same_tags and set(one.messages).isdisjoint(other.messages)


def in_order(new: NewFact, known: NewFact, cosine: float, similar: int = 1) -> Comparison:
    """Return two facts by the time of their mention: news of an earlier time is the older one."""
    late = new.fact.mentioned_at < known.fact.mentioned_at
    older, newer = (new, known) if late else (known, new)
    return Comparison(older, newer, cosine, similar=similar)


def choose(judged: Sequence[Comparison]) -> list[Outdated]:
    """Return the pairs of which the older fact is or may be outdated, from the least probability that has an effect.

    A newer fact closes only the most probable of the older ones, and the first of several news closes an older one.
    """
    likely = [pair for pair in judged if pair.probability >= LEAST_EFFECTIVE]
    closing: dict[FactId, Comparison] = {}
    for pair in sorted(_most_probable(likely), key=lambda pair: pair.newer.fact.mentioned_at):
        if pair.probability >= CLOSE:
            closing.setdefault(pair.older.fact.id, pair)
    return [Outdated(pair=pair, closed=closing.get(pair.older.fact.id) is pair) for pair in likely]


def _most_probable(pairs: Iterable[Comparison]) -> Iterable[Comparison]:
    """Return for each newer fact the pair with the older one that it most probably outdates."""
    best: dict[FactId, Comparison] = {}
    for pair in pairs:
        known = best.get(pair.newer.fact.id)
        if known is None or pair.probability > known.probability:
            best[pair.newer.fact.id] = pair
    return best.values()


async def _divide(outdated: Sequence[Outdated], model: RevisionModel, context: Context) -> list[Outdated]:
    """Find the statements that still hold in facts that are closed."""
    parts = {n: _statements(item.pair.older.fact) for n, item in enumerate(outdated) if item.closed}
    several = {n: found for n, found in parts.items() if 1 < len(found) <= MAX_STATEMENTS}
    scores = await _score_parts([outdated[n].pair for n in several], list(several.values()), model, context)
    settled = dict(zip(several, scores, strict=True))
    return [
        item
        if not item.closed or len(parts[n]) <= 1
        else divide(item, parts[n], settled[n], PART)
        if n in settled
        else replace(item, closed=False)
        for n, item in enumerate(outdated)
    ]


def _voice(fact: Fact) -> tuple[str, str]:
    """Return the speaker that a fact's text begins with, as a prefix, and what was said."""
    speaker, colon, said = fact.text.partition(": ")
    return (f"{speaker}{colon}", said) if colon else ("", fact.text)


def _statements(fact: Fact) -> list[StatementSpan]:
    return split_statements(_voice(fact)[1])


async def _score_parts(
    pairs: Sequence[Comparison], parts: Sequence[Sequence[StatementSpan]], model: RevisionModel, context: Context
) -> list[list[float]]:
    """Return the probability that each statement of the older facts is outdated."""
    texts = [
        (pair, _voice(pair.older.fact)[0] + part.text)
        for pair, found in zip(pairs, parts, strict=True)
        for part in found
    ]
    if not texts:
        return []
    dated = [embedded_text(text, pair.older.fact.mentioned_at, pair.older.fact.engine) for pair, text in texts]
    vectors = await context.embedder.embed(dated, "document")
    compared = [
        _statements_of(pair, text, _cosine(vector, pair)) for (pair, text), vector in zip(texts, vectors, strict=True)
    ]
    scores = iter(await model.score(compared))
    return [[next(scores) for _ in found] for found in parts]


def _cosine(part: Vector, pair: Comparison) -> float:
    """Return the cosine of a part and the newer fact; a stored one has no vector here, so that of the whole applies."""
    newer = pair.newer.embedding
    return float(part @ newer) if len(newer) else pair.cosine


def divide(item: Outdated, parts: Sequence[StatementSpan], scores: Sequence[float], least: float) -> Outdated:
    """Return the closure with the statements that still hold, those with a lower probability than `least`.

    A fact whose statements all hold is not closed.
    """
    dropped = [part for part, score in zip(parts, scores, strict=True) if score >= least]
    kept = [part for part, score in zip(parts, scores, strict=True) if score < least]
    if not dropped:
        return replace(item, closed=False)
    speaker, said = _voice(item.pair.older.fact)
    return replace(item, kept=speaker + join_statements(said, kept, dropped) if kept else "")


def reissue(bank: BankId, item: Outdated, context: Context) -> Fact:
    """Return the fact of what still holds of the older one."""
    older, newer = item.pair.older.fact, item.pair.newer.fact
    id = fact_id(bank, context.engine, f"{older.id}/{newer.id}")
    rest = remaining_fact(older, newer, item.kept, id)
    return rest.model_copy(update={"tokens": context.counter(item.kept)})


def apply(done: Revision, outdated: Sequence[Outdated], reissued: Sequence[NewFact]) -> Revision:
    """Return the revision with the closures, links and reissued facts of what is outdated."""
    closed = [item.pair for item in outdated if item.closed]
    new = {item.fact.id for item in done.facts}
    successors = _successors(closed)
    facts = [_supersede(item, successors) for item in done.facts]
    return replace(
        done,
        facts=[*facts, *reissued],
        closings=[*done.closings, *(closure(pair, new) for pair in closed)],
        changed={**done.changed, **{pair.older.fact.id: pair.older.fact for pair in closed}},
        # Of a stored fact the store knows if it replaces another one already.
        successors={**{newer: old for newer, old in successors.items() if newer not in new}, **done.successors},
        links=[*done.links, *map(_link, outdated)],
    )


def closure(pair: Comparison, new: set[FactId]) -> FactClosure:
    """Return the end of the older fact: when the newer one was stated, or the start of one that was edited by hand.

    News of an earlier time was never believed to last longer, and a fact that ends in the future is believed until
    then, so that neither has an end of belief.
    """
    older, newer = pair.older.fact, pair.newer.fact
    late = older.id in new and newer.id not in new
    expired_at = None if late or newer.mentioned_at > utc_now() else recorded_end(newer, older)
    edited = newer.engine == EDITED_BY_HAND
    end = max(start_of(older), start_of(newer)) if edited else newer.mentioned_at
    return FactClosure(fact=older.id, invalid_at=end, expired_at=expired_at)


def _successors(closed: Sequence[Comparison]) -> dict[FactId, FactId]:
    """Return for each newer fact the one that it most probably replaces; links lead to the others."""
    found: dict[FactId, list[Comparison]] = defaultdict(list)
    for pair in closed:
        found[pair.newer.fact.id].append(pair)
    return {newer: max(pairs, key=lambda pair: pair.probability).older.fact.id for newer, pairs in found.items()}


def _supersede(item: NewFact, successors: Mapping[FactId, FactId]) -> NewFact:
    if item.fact.supersedes is not None or item.fact.id not in successors:
        return item
    return replace(item, fact=item.fact.model_copy(update={"supersedes": successors[item.fact.id]}))


def _link(item: Outdated) -> Link:
    older, newer, probability = item.pair.older, item.pair.newer, item.pair.probability
    kind = "replaces" if item.closed else "outdates"
    return Link(source=newer.fact.id, target=older.fact.id, kind=kind, weight=probability)
