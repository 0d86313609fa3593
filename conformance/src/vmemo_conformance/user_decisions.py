"""Pins, curated messages and expiries: what the user decided about single facts and messages."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from vmemo.models import utc_now
from vmemo.models.changes import Changes
from vmemo.models.records import FEEDBACK, Feedback, with_feedback
from vmemo.models.search import Scope
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EVERYTHING,
    a_batch,
    a_fact,
    at_cosine,
    day,
    matches,
    near,
    quotes,
    store_fact,
    store_messages,
    with_vector,
)
from vmemo_conformance.suite import StoreSuite, on_store

HOUR = timedelta(hours=1)


class UserDecisionConformance(StoreSuite):
    """The records of pins, edits by hand and expiries."""

    @on_store
    async def test_a_pinned_fact_is_selected(self, store: Store) -> None:
        tulips, roses = await store_fact(store, "tulips"), await store_fact(store, "roses")
        await store.commit(Changes(bank=BANK, pinned={tulips.id: True}))
        assert [fact.id for fact in await store.facts(BANK, FactSelect(pinned=True))] == [tulips.id]
        await store.commit(Changes(bank=BANK, pinned={tulips.id: False, roses.id: True}))
        [found] = await store.facts(BANK, FactSelect(pinned=True, current=True))
        assert (found.id, found.pinned) == (roses.id, True)

    @on_store
    async def test_a_fact_with_feedback_is_selected_and_found_by_its_other_metadata(self, store: Store) -> None:
        tulips = await store_fact(store, "tulips", metadata={"kind": "flower"})
        await store_fact(store, "roses", metadata={"feedback": FEEDBACK})
        judged = with_feedback(tulips.metadata, [Feedback(question='red "tulips"?', useful=False, at=day(1))])
        await store.commit(Changes(bank=BANK, metadata={tulips.id: judged}))
        [found] = await store.facts(BANK, FactSelect(feedback=True))
        assert (found.id, found.metadata) == (tulips.id, judged)
        assert await matches(store, "tulips", Scope(bank=BANK, metadata={"kind": "flower"})) == [tulips.id]
        await store.commit(Changes(bank=BANK, metadata={tulips.id: tulips.metadata}))
        assert await store.facts(BANK, FactSelect(feedback=True)) == []

    @on_store
    async def test_a_curated_message_is_neither_searched_nor_processed_again(self, store: Store) -> None:
        tulips, roses = await store_messages(store, "red tulips", "red roses")
        await store.commit(Changes(bank=BANK, curated=[tulips.id]))
        await store.commit(Changes(bank=BANK, curated=[tulips.id], requeued=[tulips.id, roses.id]))
        assert await quotes(store, "red") == [roses.id]
        assert [message.id for message in await store.messages(BANK, MessageSelect(state="curated"))] == [tulips.id]
        assert [message.id for message in await store.messages(BANK, MessageSelect.oldest_pending(9))] == [roses.id]

    @on_store
    async def test_what_expired_is_found_by_no_search(self, store: Store) -> None:
        past, future = utc_now() - HOUR, utc_now() + HOUR
        await store_fact(store, "red tulips", expires_at=past)
        roses = await store_fact(store, "red roses", expires_at=future)
        lilies = await store_fact(store, "red lilies")
        [gone] = await store_messages(store, "red carp", expires_at=past)
        [kept] = await store_messages(store, "red cod")
        now = Scope(bank=BANK)
        for scope in (now, EVERYTHING, now.replace(known_at=future), now.replace(at_time=future)):
            assert set(await matches(store, "red", scope)) == {roses.id, lilies.id}
            assert await quotes(store, "red", scope) == [kept.id]
        assert len(await matches(store, "red", EVERYTHING.replace(past_expiry=True))) == 3
        vector = at_cosine(1.0)
        assert set(await near(store, vector)) == {roses.id, lilies.id}
        [neighbours] = await store.nearest(BANK, np.stack([vector]), limit=9, floor=-1.0)
        assert {hit.id for hit in neighbours} == {roses.id, lilies.id}
        assert {fact.id for fact in await store.facts(BANK, FactSelect(current=True))} == {roses.id, lilies.id}
        expired = await store.messages(BANK, MessageSelect(expiring_until=utc_now()))
        assert [message.id for message in expired] == [gone.id]

    @on_store
    async def test_the_expiry_of_a_stored_fact_changes(self, store: Store) -> None:
        tulips = await store_fact(store, "red tulips", expires_at=utc_now() - HOUR)
        assert await matches(store, "red") == []
        await store.commit(Changes(bank=BANK, expiries={tulips.id: None}))
        assert await matches(store, "red") == [tulips.id]
        await store.commit(Changes(bank=BANK, expiries={tulips.id: utc_now() - HOUR}))
        assert await matches(store, "red") == []

    @on_store
    async def test_a_fact_loses_its_context_and_stays_searchable_by_its_own_words(self, store: Store) -> None:
        [before] = await store_messages(store, "red tulips")
        fact = a_fact("blue roses", context="red tulips", context_from=before.id, mentioned_at=day(1))
        item = with_vector(fact)
        assert await store.commit(await a_batch(store, [item]))
        assert await matches(store, "tulips") == [fact.id]
        assert await store.commit(Changes(bank=BANK, without_context=[item]))
        assert await matches(store, "tulips") == []
        assert await matches(store, "roses") == [fact.id]
        [stored] = await store.facts(BANK, FactSelect(ids=[fact.id], with_embeddings=True))
        assert (stored.context, stored.context_from) == ("", None)
        assert stored.embedding is not None
