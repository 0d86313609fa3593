"""Forgetting a fact reopens the fact that it superseded, unless another one supersedes it."""

from __future__ import annotations

from vmemo.lifecycle.forget import forget
from vmemo.models import Fact, FactId
from vmemo.models.changes import ForgetTarget
from vmemo.models.select import FactSelect
from vmemo.ports import Store
from vmemo_conformance.samples import BANK, day, matches, store_fact
from vmemo_conformance.suite import StoreSuite, on_store


class ForgetReopensConformance(StoreSuite):
    """`forget` of facts that supersede others."""

    @on_store
    async def test_a_fact_is_current_again_when_its_successor_is_forgotten(self, store: Store) -> None:
        rome = await _closed(store, "tulips in Rome")
        oslo = await store_fact(store, "tulips in Oslo", supersedes=rome.id)
        assert await matches(store, "tulips") == [oslo.id]
        await forget(store, BANK, ForgetTarget(messages=oslo.messages))
        assert await store.facts(BANK, FactSelect()) == [
            rome.model_copy(update={"invalid_at": None, "expired_at": None})
        ]
        assert await matches(store, "tulips") == [rome.id]

    @on_store
    async def test_a_successor_does_not_refer_to_a_forgotten_fact(self, store: Store) -> None:
        rome = await _closed(store, "tulips in Rome")
        oslo = await store_fact(store, "tulips in Oslo", supersedes=rome.id)
        await forget(store, BANK, ForgetTarget(messages=rome.messages))
        assert await store.facts(BANK, FactSelect()) == [oslo.model_copy(update={"supersedes": None})]

    @on_store
    async def test_a_broken_supersession_chain_is_rejoined(self, store: Store) -> None:
        rome = await _closed(store, "tulips in Rome")
        bern = await _closed(store, "tulips in Bern", supersedes=rome.id)
        bonn = await _closed(store, "tulips in Bonn", supersedes=bern.id)
        oslo = await store_fact(store, "tulips in Oslo", supersedes=bonn.id)
        await forget(store, BANK, ForgetTarget(messages=[*bonn.messages, *bern.messages]))
        assert await store.facts(BANK, FactSelect()) == [rome, oslo.model_copy(update={"supersedes": rome.id})]
        assert await store.facts(BANK, FactSelect(supersedes=[rome.id])) == [
            oslo.model_copy(update={"supersedes": rome.id})
        ]
        assert await matches(store, "tulips") == [oslo.id]

    @on_store
    async def test_a_fact_with_another_successor_stays_closed(self, store: Store) -> None:
        rome = await _closed(store, "tulips in Rome")
        bern = await store_fact(store, "tulips in Bern", supersedes=rome.id)
        oslo = await store_fact(store, "tulips in Oslo", supersedes=rome.id)
        await forget(store, BANK, ForgetTarget(messages=bern.messages))
        assert await store.facts(BANK, FactSelect()) == [rome, oslo]
        assert await matches(store, "tulips") == [oslo.id]


async def _closed(store: Store, text: str, *, supersedes: FactId | None = None) -> Fact:
    return await store_fact(store, text, invalid_at=day(5), expired_at=day(6), supersedes=supersedes)
