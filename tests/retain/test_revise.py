"""Pairs of facts that rules compare: few for each new one, so that the work grows with the batch."""

from __future__ import annotations

import asyncio
from collections import Counter

from vmemo.retain.neighbours import MAX_COMPARED_CLAIMS, Neighbours
from vmemo.retain.revise import MAX_COMPARED, claim_pairs, replaced_instructions
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import BANK, a_bank, a_fact, with_vector


def test_many_statements_of_one_attribute_are_each_compared_with_few() -> None:
    async def run() -> None:
        store = SqliteStore(None, busy_seconds=1.0)
        await store.open()
        await store.create_bank(a_bank())
        limit, number = MAX_COMPARED_CLAIMS, 2 * MAX_COMPARED
        homes = [with_vector(a_fact(f"Ana: I live in Town{n}.", messages=[f"m{n}"])) for n in range(number)]
        near = Neighbours(BANK, store, limit=limit, floor=0.3)
        pairs = await claim_pairs(homes, near)
        assert max(Counter(pair.new for pair in pairs).values()) == limit
        last = {pair.known.id for pair in pairs if pair.new == number - 1}
        assert last == {home.fact.id for home in homes[-1 - limit : -1]}

        orders = [a_fact(f"Ana: Always answer in French {n}.", messages=[f"m{n}"]) for n in range(number)]
        asked = [with_vector(order.model_copy(update={"instruction": True})) for order in orders]
        replaced, _ = await replaced_instructions(BANK, asked, store)
        assert max(Counter(pair.new for pair in replaced).values()) == MAX_COMPARED
        await store.close()

    asyncio.run(run())
