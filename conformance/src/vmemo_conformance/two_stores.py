"""Two stores of the same memories: each sees at once what the other wrote, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from vmemo.errors import EmbedderMismatch, NotFound
from vmemo.lifecycle.forget import forget
from vmemo.models import Bank, FactId
from vmemo.models.changes import ForgetTarget
from vmemo.models.search import Encoding
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    EdgesOf,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_entity,
    day,
    find_edges,
    matches,
    mention_of,
    named_entities,
    near,
    quotes,
    re_embedded,
    snapshot,
    some_tokens,
    store_fact,
    store_messages,
    store_story,
    token_vectors,
    with_vector,
)
from vmemo_conformance.suite import StoreSuite, on_two_stores, refused


class TwoStoreConformance(StoreSuite):
    """Two stores that were made for one folder."""

    @on_two_stores
    async def test_written_data_is_read_after_reopening(self, one: Store, other: Store) -> None:
        await store_story(one)
        await store_messages(one, "tulips pending")
        before = await snapshot(one)
        await one.close()
        await other.close()
        await other.open()
        assert await snapshot(other) == before
        assert len(await matches(other, "tulips")) == 1
        assert len(await quotes(other, "tulips")) == 1

    @on_two_stores
    async def test_messages_of_one_store_are_pending_in_the_other(self, one: Store, other: Store) -> None:
        said = await store_messages(one, "tulips")
        assert await other.messages(BANK, MessageSelect.oldest_pending(9)) == said
        assert await quotes(other, "tulips") == [said[0].id]
        assert await other.append(BANK, said) == set()

    @on_two_stores
    async def test_facts_of_one_store_are_found_by_the_other(self, one: Store, other: Store) -> None:
        vector = EMBEDDER.vector("tulips")
        expected: list[str] = []
        for n, writer in enumerate((one, other, one, one, other)):
            expected.append((await store_fact(writer, f"tulips {n}")).id)
            for reader in (one, other):
                assert set(await matches(reader, "tulips")) == set(expected)
                assert set(await near(reader, vector)) == set(expected)

    @on_two_stores
    async def test_names_edges_and_token_vectors_of_one_store_are_found_by_the_other(
        self, one: Store, other: Store
    ) -> None:
        oslo = an_entity("Oslo")
        assert await named_entities(other, BANK, "Oslo") == []
        facts: list[FactId] = []
        for n, writer in enumerate((one, other, one)):
            fact = a_fact(f"tulips {n}", entities=[mention_of(oslo)])
            batch = await a_batch(writer, [with_vector(fact, tokens=some_tokens(n + 1))])
            assert await writer.commit(replace(batch, entities=[oslo]))
            facts.append(fact.id)
            for reader in (one, other):
                assert await named_entities(reader, BANK, "Oslo") == [mention_of(oslo)]
                query = EdgesOf(
                    scope=EVERYTHING, space=EMBEDDER.name, vector=EMBEDDER.vector("tulips"), entities=[oslo.id]
                )
                assert {edge.target for edge in await find_edges(reader, query)} == set(facts)
                counts = [len(v) for v in await token_vectors(reader, BANK, facts) if v is not None]
                assert counts == list(range(1, n + 2))

    @on_two_stores
    async def test_facts_forgotten_by_one_store_are_not_found_by_the_other(self, one: Store, other: Store) -> None:
        first, second = await store_fact(one, "tulips one"), await store_fact(one, "tulips two")
        assert set(await matches(other, "tulips")) == {first.id, second.id}
        await forget(one, BANK, ForgetTarget(messages=first.messages))
        third = await store_fact(one, "tulips three")
        assert set(await matches(other, "tulips")) == {second.id, third.id}
        assert set(await near(other, EMBEDDER.vector("tulips"))) == {second.id, third.id}

    @on_two_stores
    async def test_facts_reopened_by_one_store_are_current_in_the_other(self, one: Store, other: Store) -> None:
        rome = await store_fact(one, "tulips in Rome", invalid_at=day(5), expired_at=day(5))
        oslo = await store_fact(one, "tulips in Oslo", supersedes=rome.id)
        assert await matches(other, "tulips") == [oslo.id]
        await forget(one, BANK, ForgetTarget(messages=oslo.messages))
        assert await matches(other, "tulips") == [rome.id]

    @on_two_stores
    async def test_a_bank_deleted_by_one_store_is_missing_in_the_other(self, one: Store, other: Store) -> None:
        await store_fact(one, "tulips old")
        assert len(await matches(other, "tulips")) == 1
        await forget(one, BANK, ForgetTarget(bank=True))
        with refused(NotFound):
            await matches(other, "tulips")
        await one.create_bank(a_bank())
        new = await store_fact(one, "tulips new")
        assert await matches(other, "tulips") == [new.id]

    @on_two_stores
    async def test_an_embedder_switch_by_one_store_applies_to_the_other(self, one: Store, other: Store) -> None:
        fact = await store_fact(one, "tulips")
        assert await near(other, EMBEDDER.vector("tulips")) == [fact.id]
        assert await one.commit(re_embedded(BANK, "new", {fact.id: Encoding(EMBEDDER.vector("roses"))}, dimension=64))
        with refused(EmbedderMismatch):
            await near(other, EMBEDDER.vector("tulips"))

    @on_two_stores
    async def test_one_of_two_claims_of_a_message_commits(self, one: Store, other: Store) -> None:
        [said] = await store_messages(one, "tulips")
        batches = [replace(await a_batch(store, [a_fact("tulips")]), pending=[said.id]) for store in (one, other)]
        landed = await asyncio.gather(one.commit(batches[0]), other.commit(batches[1]))
        assert sorted(landed) == [False, True]
        assert len(await one.facts(BANK, FactSelect())) == 1

    @on_two_stores
    async def test_a_bank_created_by_both_stores_is_created_once(self, one: Store, other: Store) -> None:
        banks = [Bank(id="new", embedder=name, dimension=4) for name in ("left", "right")]
        made = await asyncio.gather(one.create_bank(banks[0]), other.create_bank(banks[1]))
        assert made[0] == made[1]
        assert made[0] in banks

    @on_two_stores
    async def test_concurrent_appends_of_both_stores_are_all_stored(self, one: Store, other: Store) -> None:
        said = [a_message(f"line {n}") for n in range(40)]
        parts = [(one if n % 2 else other).append(BANK, said[n : n + 2]) for n in range(40)]
        stored = await asyncio.gather(*parts)
        assert sum(len(part) for part in stored) == 40
        assert {m.id for m in await one.messages(BANK, MessageSelect())} == {m.id for m in said}
