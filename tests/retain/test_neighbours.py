"""Neighbours of new facts: searched and loaded once, and again only for what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from vmemo.models import BankId, FactId
from vmemo.models.search import Scored, Vectors
from vmemo.ports import BankReader
from vmemo.retain.revise import Neighbours
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import BANK, a_bank, a_batch, a_fact, at_cosine, with_vector

T = TypeVar("T")


class CountingStore(SqliteStore):
    """A store that notes the vectors that it searches and how often facts are loaded."""

    searched = 0
    reads = 0

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        """Note the number of vectors."""
        self.searched += len(vectors)
        return await super().nearest(bank, vectors, limit=limit, floor=floor)

    async def read(self, bank: BankId, run: Callable[[BankReader], T]) -> T:
        """Note that facts are loaded."""
        self.reads += 1
        return await super().read(bank, run)


def test_a_batch_searches_and_loads_each_neighbour_once() -> None:
    async def run() -> None:
        store = CountingStore(None, busy_seconds=1.0)
        await store.open()
        await store.create_bank(a_bank())
        known = [with_vector(a_fact(name), at_cosine(cosine)) for name, cosine in (("a", 0.9), ("b", 0.5), ("c", 0.1))]
        await store.commit(await a_batch(store, known))
        near = Neighbours(BANK, store, limit=3, floor=0.3)
        new = with_vector(a_fact("new"), at_cosine(1.0))
        first, second, third = [item.fact.id for item in known]

        [hits] = await near.near([new], limit=3, floor=0.3)
        assert [hit.id for hit in hits] == [first, second]
        assert [[hit.id for hit in each] for each in await near.near([new], limit=1, floor=0.3)] == [[first]]
        assert [[hit.id for hit in each] for each in await near.near([new], limit=3, floor=0.8)] == [[first]]
        assert store.searched == 1
        reworded = with_vector(new.fact, at_cosine(0.1))
        [[best, *_]] = await near.near([reworded], limit=3, floor=0.3)
        assert (best.id, store.searched) == (third, 2)

        assert list(await near.load([first, second])) == [first, second]
        assert list(await near.load([second, first])) == [second, first]
        assert store.reads == 1
        assert list(await near.load([second, third, FactId("none")])) == [second, third]
        assert store.reads == 2
        await store.close()

    asyncio.run(run())
