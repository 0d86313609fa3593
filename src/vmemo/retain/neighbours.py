"""Stored facts near new ones, searched and loaded once per batch, and the links to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

import numpy as np

from vmemo.models import BankId, Fact, FactId, Link, LinkKind
from vmemo.models.changes import FactDraft, NewFact
from vmemo.models.search import Scored, Vector
from vmemo.models.select import FactSelect
from vmemo.ports import Context, Store

NEAREST = 10
"""Known facts that are compared with a new one at least."""
REPEAT_COSINE = 0.7
"""Cosine of repeats, at least: the date is embedded with the words."""
LEAST_COSINE = 0.3
"""Least cosine of a known fact that the revision model compares."""
MAX_SIMILAR = 64
"""Nearest facts among which the revision model finds those that it compares."""


class Neighbours:
    """The stored facts near those of one batch. It lives no longer than the plan of one commit."""

    def __init__(self, bank: BankId, store: Store, *, limit: int, floor: float) -> None:
        """Search up to `limit` facts of a cosine of at least `floor`, the widest that `near` is asked for."""
        self._bank, self._store = bank, store
        self._limit, self._floor = limit, floor
        self._found: dict[FactId, tuple[Vector, Sequence[Scored]]] = {}
        self._facts: dict[FactId, Fact | None] = {}

    @staticmethod
    def of(bank: BankId, context: Context) -> Neighbours:
        limits = [NEAREST, context.settings.links_per_fact]
        if context.revision_model is not None:
            limits.append(MAX_SIMILAR)
        return Neighbours(bank, context.store, limit=max(limits), floor=LEAST_COSINE)

    @staticmethod
    def for_links(bank: BankId, context: Context) -> Neighbours:
        return Neighbours(bank, context.store, limit=context.settings.links_per_fact + 1, floor=LINK_COSINE)

    async def near(self, new: Sequence[NewFact], *, limit: int, floor: float) -> list[list[Scored]]:
        """Return for each new fact the nearest current ones, best first."""
        # A fact that was embedded again, with another text, is searched again.
        unknown = [item for item in new if self._found.get(item.fact.id, (None,))[0] is not item.embedding]
        if unknown:
            vectors = np.stack([item.embedding for item in unknown])
            nearest = await self._store.nearest(self._bank, vectors, limit=self._limit, floor=self._floor)
            for item, hits in zip(unknown, nearest, strict=True):
                self._found[item.fact.id] = item.embedding, hits
        # The store has applied the floor of the search, in the precision of its vectors.
        least = floor if floor > self._floor else -math.inf
        found = [self._found[item.fact.id][1][:limit] for item in new]
        return [[hit for hit in hits if hit.score >= least] for hits in found]

    async def load(self, ids: Iterable[FactId]) -> Mapping[FactId, Fact]:
        """Return facts by id; a fact that does not exist is left out."""
        wanted = list(dict.fromkeys(ids))
        missing = [id for id in wanted if id not in self._facts]
        if missing:
            loaded = await self._store.facts(self._bank, FactSelect(ids=missing))
            self._facts |= dict.fromkeys(missing)
            self._facts |= {fact.id: fact for fact in loaded}
        return {id: fact for id in wanted if (fact := self._facts[id]) is not None}


class Similar(NamedTuple):
    """Facts similar to a new one and their cosines, best first, and the number of all such facts of its batch."""

    ids: Sequence[FactId]
    scores: Sequence[float]
    number: int


def similar_in_batch(new: Sequence[NewFact], floor: float, limit: int) -> Iterator[Similar]:
    """Yield for each fact up to `limit` similar ones that come before it in the batch; of equal ones the earlier."""
    if not new:
        return
    ids = [item.fact.id for item in new]
    vectors = np.stack([item.embedding for item in new])
    for at, row in enumerate(vectors @ vectors.T):
        number = int(np.count_nonzero(row[:at] >= floor))
        nearest = np.argsort(-row[:at], kind="stable")[: min(limit, number)]
        yield Similar([ids[n] for n in nearest.tolist()], row[nearest].tolist(), number)


def merge_similar(stored: Sequence[Scored], in_batch: Similar) -> Similar:
    """Return the stored facts and those of the batch, best first; of equal ones the stored fact first."""
    ids = [*(hit.id for hit in stored), *in_batch.ids]
    scores = [*(hit.score for hit in stored), *in_batch.scores]
    order = sorted(range(len(ids)), key=scores.__getitem__, reverse=True)
    return Similar([ids[n] for n in order], [scores[n] for n in order], in_batch.number)


# Links.
DECAY_TIME = timedelta(hours=24)
"""Time over which the weight of a temporal link falls to 1/e; also the longest distance of a link."""
LEAST_TEMPORAL = 0.3
"""Least weight of a temporal link."""
LINK_COSINE = 0.7
"""Least cosine of a semantic link."""


def temporal_links(new: Sequence[Fact], earlier: Sequence[Fact], limit: int) -> Iterator[Link]:
    """Yield links from each new fact to the `limit` nearest earlier ones, new or stored."""
    line = sorted((*earlier, *new), key=event_time)
    times = [event_time(fact) for fact in line]
    fresh = {fact.id for fact in new}
    for i, (fact, time) in enumerate(zip(line, times, strict=True)):
        if fact.id not in fresh:
            continue
        for place in range(max(0, i - limit), i):
            apart = time - times[place]
            if apart <= DECAY_TIME:
                weight = max(LEAST_TEMPORAL, math.exp(-(apart / DECAY_TIME)))
                yield _link(fact.id, line[place].id, "temporal", weight)


def event_time(fact: Fact) -> datetime:
    """Return the time that orders a fact: its occurrence, or else its mention."""
    return fact.occurred_start or fact.mentioned_at


def semantic_links(fact: FactId, near: Similar, limit: int) -> Iterator[Link]:
    """Yield links from a fact to the `limit` most similar ones."""
    others = ((id, score) for id, score in zip(near.ids, near.scores, strict=True) if id != fact)
    for id, score in islice(others, limit):
        if score >= LINK_COSINE:
            yield _link(fact, id, "semantic", min(1.0, score))


def _link(source: FactId, target: FactId, kind: LinkKind, weight: float) -> Link:
    return Link.trusted({"source": source, "target": target, "kind": kind, "weight": weight})


def causal_links(
    drafts: Sequence[FactDraft], ids: Sequence[FactId], duplicate_of: Mapping[FactId, FactId]
) -> Iterator[Link]:
    """Yield the causal links of drafts; a duplicate is replaced by the known fact that it repeats."""
    by_key = {draft.key: duplicate_of.get(id, id) for draft, id in zip(drafts, ids, strict=True)}
    for draft, id in zip(drafts, ids, strict=True):
        source = duplicate_of.get(id, id)
        for cause in draft.causes:
            target = by_key.get(cause.target)
            if target is not None and target != source:
                yield Link(source=source, target=target, kind=cause.kind, weight=min(1.0, max(0.0, cause.strength)))
