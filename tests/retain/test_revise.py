"""Pairs of facts that rules compare: few for each new one, so that the work grows with the batch."""

from __future__ import annotations

import asyncio
from collections import Counter

from vmemo.retain.revise import MAX_COMPARED, replaced_instructions
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import BANK, a_bank, a_fact, with_vector


def test_many_instructions_are_each_compared_with_few() -> None:
    async def run() -> None:
        store = SqliteStore(None, busy_seconds=1.0)
        await store.open()
        await store.create_bank(a_bank())
        number = 2 * MAX_COMPARED
        orders = [a_fact(f"Ana: Always answer in French {n}.", messages=[f"m{n}"]) for n in range(number)]
        asked = [with_vector(order.model_copy(update={"instruction": True})) for order in orders]
        replaced, _ = await replaced_instructions(BANK, asked, set(), store)
        assert max(Counter(pair.new for pair in replaced).values()) == 1
        await store.close()

    asyncio.run(run())
