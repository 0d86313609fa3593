"""Opinions that reflection formed: they rest on facts, and on messages that were recalled in their own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from vmemo.lifecycle.forget import forget
from vmemo.lifecycle.reprocess import is_formed, swap_in
from vmemo.models import ConfidenceChange, Fact, Message
from vmemo.models.changes import ForgetTarget
from vmemo.models.results import Forgotten
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo_conformance.reprocess import process_staging, staging_of
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    START,
    a_batch,
    a_fact,
    a_message,
    day,
    mention_of,
    store_messages,
    store_story,
)
from vmemo_conformance.suite import StoreSuite, on_store


async def form(
    store: Store,
    text: str,
    messages: Sequence[Message],
    basis: Sequence[Fact] = (),
    *,
    closed: datetime | None = None,
    **more: object,
) -> Fact:
    """An opinion as reflection forms it, of no episode; `closed` is when it stopped being held."""
    behind = {"messages": [message.id for message in messages], "basis": [fact.id for fact in basis]}
    ended = {"invalid_at": closed, "expired_at": closed}
    opinion = a_fact(text, network="opinion", confidence=0.5, **behind, **ended, **more)
    assert await store.commit(await a_batch(store, [opinion]))
    return opinion


class FormedOpinionConformance(StoreSuite):
    """Reprocessing and forgetting with opinions that rest on messages."""

    @on_store
    async def test_stated_opinions_are_distinguished_from_formed_ones(self, store: Store) -> None:
        story = await store_story(store)
        told = a_fact(
            "I like tulips.",
            network="opinion",
            confidence=0.5,
            messages=[story.messages[2].id],
            episodes=[story.episodes[1].id],
        )
        assert await store.commit(await a_batch(store, [told]))
        alone = await form(store, "She gardens with care.", story.messages[2:3])
        both = await form(store, "She is thorough.", story.messages[2:], story.facts[:1])
        assert [fact.id for fact in await store.facts(BANK, FactSelect()) if is_formed(fact)] == [alone.id, both.id]

    @on_store
    async def test_reprocessing_keeps_the_messages_and_facts_of_a_formed_opinion(self, store: Store) -> None:
        story = await store_story(store)
        raw = a_message("Tulips want sun.", state="raw")
        await store.append(BANK, [raw])
        alone = await form(store, "Tulips are easy.", [raw])
        both = await form(store, "She is thorough.", [story.messages[2], raw], story.facts[:1])
        step = ConfidenceChange(
            opinion=both.id, stance="reinforce", before=0.5, after=0.65, evidence=(story.facts[2].id,), at=START
        )
        assert await store.commit(replace(await a_batch(store), confidence=[step]))
        for _ in range(2):
            anew = await process_staging(store, await staging_of(store))
            assert await swap_in(store, BANK, EMBEDDER)
            one, other = await store.facts(BANK, FactSelect(ids=[alone.id, both.id]))
            assert (one.messages, one.basis, one.episodes) == ((raw.id,), (), ())
            assert set(other.messages) == {story.messages[2].id, raw.id}
            assert other.basis == (anew[0].id,)
            assert [move.evidence for move in await store.confidence_changes(BANK)] == [(anew[2].id,)]
            assert [fact.id for fact in await store.facts(BANK, FactSelect()) if is_formed(fact)] == [alone.id, both.id]
        await forget(store, BANK, ForgetTarget(messages=[raw.id]))
        assert await store.facts(BANK, FactSelect(ids=[alone.id, both.id])) == []

    @on_store
    async def test_reprocessing_keeps_the_chain_of_a_replaced_formed_opinion(self, store: Store) -> None:
        story = await store_story(store)
        old = await form(store, "She is no gardener.", story.messages[:1], closed=day(2))
        middle = await form(store, "She may garden.", story.messages[1:2], [old], closed=day(2), supersedes=old.id)
        new = await form(store, "She gardens well.", story.messages[2:3], [middle], supersedes=middle.id)
        await process_staging(store, await staging_of(store))
        assert await swap_in(store, BANK, EMBEDDER)
        found = await store.facts(BANK, FactSelect(ids=[old.id, middle.id, new.id]))
        assert [fact.supersedes for fact in found] == [None, old.id, middle.id]
        assert [fact.expired_at for fact in found] == [day(2), day(2), None]
        assert [fact.messages for fact in found] == [(message.id,) for message in story.messages[:3]]
        assert [fact.basis for fact in found] == [(), (old.id,), (middle.id,)]

    @on_store
    async def test_forgetting_a_message_deletes_its_formed_opinion_and_reopens_the_replaced_one(
        self, store: Store
    ) -> None:
        one, other = await store_messages(store, "Tulips want sun.", "Tulips want rain.", state="raw")
        old = await form(store, "Tulips want sun.", [one], closed=day(2))
        new = await form(store, "Tulips want both.", [one, other], supersedes=old.id)
        assert await forget(store, BANK, ForgetTarget(messages=[other.id])) == Forgotten(messages=1, facts=1)
        [held] = await store.facts(BANK, FactSelect(ids=[old.id, new.id]))
        assert (held.id, held.expired_at, held.invalid_at) == (old.id, None, None)

    @on_store
    async def test_other_messages_of_a_deleted_formed_opinion_are_not_processed_again(self, store: Store) -> None:
        story = await store_story(store)
        [said] = await store_messages(store, "Tulips want sun.", state="raw")
        opinion = await form(store, "She gardens well.", [said, story.messages[2]])
        assert await forget(store, BANK, ForgetTarget(messages=[said.id])) == Forgotten(messages=1, facts=1)
        assert await store.facts(BANK, FactSelect(ids=[opinion.id])) == []
        assert await store.messages(BANK, MessageSelect.oldest_pending(9)) == []
        assert len(await store.episodes(BANK, EpisodeSelect())) == 2

    @on_store
    async def test_forgetting_an_entity_deletes_its_opinions_but_not_messages_that_do_not_name_it(
        self, store: Store
    ) -> None:
        story = await store_story(store)
        [said] = await store_messages(store, "Moving house is hard work.", state="raw")
        opinion = await form(store, "Oslo is worth it.", [said], entities=[mention_of(story.entities[1])])
        await forget(store, BANK, ForgetTarget(entity=story.entities[1].id))
        assert await store.facts(BANK, FactSelect(ids=[opinion.id])) == []
        assert await store.messages(BANK, MessageSelect(ids=[said.id])) == [said]
