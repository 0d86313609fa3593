"""Stored facts near new ones, searched and loaded once for all that compares them with a batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from vmemo.models import BankId, Fact, FactId
from vmemo.models.changes import NewFact
from vmemo.models.search import Hits, Vector
from vmemo.models.select import FactSelect
from vmemo.ports import Context, Store
from vmemo.retain.link import LINK_COSINE

NEAREST = 10
"""Known facts that are compared with a new one at least."""
REPEAT_COSINE = 0.7
"""Cosine of repeats, at least: the date is embedded with the words."""
LEAST_COSINE = 0.3
"""Least cosine of a known fact that is compared by its claim or by the revision model."""
MAX_COMPARED_CLAIMS = 50
"""Known facts that are searched for a claim that contradicts that of a new one."""
MAX_SIMILAR = 256
"""Similar facts that the revision model counts."""


class Neighbours:
    """The stored facts near those of one batch. It lives no longer than the plan of one commit."""

    def __init__(self, bank: BankId, store: Store, *, limit: int, floor: float) -> None:
        """Search up to `limit` facts of a cosine of at least `floor`, the widest that `near` is asked for."""
        self._bank = bank
        self._store = store
        self._limit = limit
        self._floor = floor
        self._found: dict[FactId, tuple[Vector, Hits]] = {}
        self._facts: dict[FactId, Fact | None] = {}

    @staticmethod
    def of(bank: BankId, context: Context) -> Neighbours:
        """Return the neighbours for links, repeats, claims and the revision model."""
        limits = [NEAREST, context.settings.links_per_fact, MAX_COMPARED_CLAIMS]
        if context.revision_model is not None:
            limits.append(MAX_SIMILAR)
        return Neighbours(bank, context.store, limit=max(limits), floor=LEAST_COSINE)

    @staticmethod
    def for_links(bank: BankId, context: Context) -> Neighbours:
        """Return the neighbours for links alone."""
        return Neighbours(bank, context.store, limit=context.settings.links_per_fact + 1, floor=LINK_COSINE)

    async def near(self, new: Sequence[NewFact], *, limit: int, floor: float) -> list[Hits]:
        """Return for each new fact the nearest current ones, best first."""
        unknown = [item for item in new if not self._is_found(item)]
        if unknown:
            vectors = np.stack([item.embedding for item in unknown])
            nearest = await self._store.nearest(self._bank, vectors, limit=self._limit, floor=self._floor)
            for item, hits in zip(unknown, nearest, strict=True):
                self._found[item.fact.id] = item.embedding, Hits.of(hits)
        # The store has applied the floor of the search, in the precision of its vectors.
        least = floor if floor > self._floor else -math.inf
        return [self._found[item.fact.id][1].best(limit, least) for item in new]

    def _is_found(self, item: NewFact) -> bool:
        """Return True unless the fact is new here or was embedded again with another text."""
        return item.fact.id in self._found and self._found[item.fact.id][0] is item.embedding

    async def load(self, ids: Iterable[FactId]) -> Mapping[FactId, Fact]:
        """Return facts by id; a fact that does not exist is left out."""
        wanted = list(dict.fromkeys(ids))
        missing = [id for id in wanted if id not in self._facts]
        if missing:
            loaded = await self._store.facts(self._bank, FactSelect(ids=missing))
            self._facts |= dict.fromkeys(missing)
            self._facts |= {fact.id: fact for fact in loaded}
        return {id: fact for id in wanted if (fact := self._facts[id]) is not None}
