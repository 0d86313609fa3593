"""Forgetting: what is deleted, what is processed again, and what stays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from vmemo.errors import NotFound
from vmemo.lifecycle.forget import forget
from vmemo.models import EntityId, Fact, Message, MessageId
from vmemo.models.changes import Changes, ForgetTarget
from vmemo.models.results import Forgotten
from vmemo.models.search import Scope
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    an_episode,
    matches,
    mention_of,
    near,
    quotes,
    snapshot,
    store_fact,
    store_messages,
    store_story,
    with_vector,
)
from vmemo_conformance.suite import StoreSuite, on_store, refused


class ForgetConformance(StoreSuite):
    """`forget`."""

    @on_store
    async def test_a_forgotten_message_is_deleted_with_everything_derived_from_it(self, store: Store) -> None:
        story = await store_story(store)
        forgotten = await forget(store, BANK, ForgetTarget(messages=[story.messages[0].id]))
        assert forgotten == Forgotten(messages=1, facts=3, episodes=1, entities=1, requeued=1)
        assert await _ids(store) == {story.facts[2].id, story.facts[3].id}
        assert [m.id for m in await store.messages(BANK, MessageSelect())] == [m.id for m in story.messages[1:]]
        assert [e.name for e in await store.entities(BANK, EntitySelect())] == ["Caroline"]
        assert await store.links(BANK) == [story.links[1]]
        assert await matches(store, "piano oslo", Scope(bank=BANK, include_expired=True)) == []
        assert await quotes(store, "piano oslo") == []
        assert not {fact.id for fact in story.facts[:2]} & set(await near(store, EMBEDDER.vector("piano oslo")))

    @on_store
    async def test_the_rest_of_the_episode_is_processed_again(self, store: Store) -> None:
        story = await store_story(store)
        await forget(store, BANK, ForgetTarget(messages=[story.messages[0].id]))
        [waiting] = await store.messages(BANK, MessageSelect.oldest_pending(9))
        assert waiting == story.messages[1]
        assert await quotes(store, "crockery") == [waiting.id]
        again = story.facts[1].model_copy(update={"episodes": ()})
        assert await store.commit(replace(await a_batch(store, [again]), pending=[waiting.id]))
        assert await matches(store, "crockery") == [again.id]
        assert await quotes(store, "crockery") == []

    @on_store
    async def test_dissolving_an_episode_relinks_its_neighbours(self, store: Store) -> None:
        said = await store_messages(store, "one", "two", "three")
        first = an_episode("first", said[:1])
        second = an_episode("second", said[1:2], previous=first.id)
        third = an_episode("third", said[2:], previous=second.id)
        begun = replace(await a_batch(store), pending=[m.id for m in said], episodes=[first, second, third])
        assert await store.commit(begun)
        await forget(store, BANK, ForgetTarget(messages=[said[1].id]))
        assert {e.title: e.previous for e in await store.episodes(BANK, EpisodeSelect())} == {
            "first": None,
            "third": first.id,
        }

    @on_store
    async def test_several_messages_are_forgotten_at_once(self, store: Store) -> None:
        story = await store_story(store)
        ids = [m.id for m in story.messages[:2]]
        forgotten = await forget(store, BANK, ForgetTarget(messages=[*ids, ids[0]]))
        assert forgotten == Forgotten(messages=2, facts=3, episodes=1, entities=1, requeued=0)

    @on_store
    async def test_pending_and_raw_messages_are_forgotten(self, store: Store) -> None:
        [pending] = await store_messages(store, "tulips")
        raw, kept = await store_messages(store, "tulips", "tulips", state="raw")
        forgotten = await forget(store, BANK, ForgetTarget(messages=[pending.id, raw.id]))
        assert forgotten == Forgotten(messages=2)
        assert await quotes(store, "tulips") == [kept.id]

    @on_store
    async def test_forgetting_a_document_keeps_the_others(self, store: Store) -> None:
        story = await store_story(store)
        kept = await store_fact(store, "tulips in another document")
        forgotten = await forget(store, BANK, ForgetTarget(document="letters"))
        assert forgotten == Forgotten(messages=4, facts=5, episodes=2, entities=2)
        assert await _ids(store) == {kept.id}
        assert await store.messages(BANK, MessageSelect(ids=[m.id for m in story.messages])) == []

    @on_store
    async def test_a_forgotten_entity_is_deleted_with_the_messages_about_it(self, store: Store) -> None:
        story = await store_story(store)
        forgotten = await forget(store, BANK, ForgetTarget(entity=story.entities[1].id))
        assert forgotten == Forgotten(messages=1, facts=3, episodes=1, entities=1, requeued=1)
        assert await _ids(store) == {story.facts[2].id, story.facts[3].id}
        forgotten = await forget(store, BANK, ForgetTarget(entity=story.entities[0].id))
        assert (forgotten.messages, forgotten.entities, forgotten.requeued) == (2, 1, 1)
        assert await store.entities(BANK, EntitySelect()) == []

    @on_store
    async def test_a_forgotten_entity_is_deleted_with_facts_without_messages(self, store: Store) -> None:
        zoe = an_entity("Zoe")
        opinion = a_fact("I trust Zoe.", network="opinion", confidence=0.5, entities=[mention_of(zoe)])
        assert await store.commit(replace(await a_batch(store, [opinion]), entities=[zoe]))
        assert await forget(store, BANK, ForgetTarget(entity=zoe.id)) == Forgotten(facts=1, entities=1)
        assert await matches(store, "trust zoe", Scope(bank=BANK, include_expired=True)) == []

    @on_store
    async def test_a_forgotten_entity_is_deleted_with_what_it_said_and_what_names_it(self, store: Store) -> None:
        ana = an_entity("Ana Duarte", type="PERSON", aliases=["Ana"])
        other = an_entity("Ana Lopez", type="PERSON")
        hello, called, later = await store_messages(store, "Hello!", "ANA  DUARTE called.", "Is ana late?", state="raw")
        assert await store.commit(replace(await a_batch(store), entities=[ana, other]))
        [greeting] = await store_messages(store, "Hello!", speaker="ana duarte", state="raw")
        kept = await store_messages(store, "Ana Lopez called.", "Diana has a banana.", "Analysis", state="raw")
        named = a_fact("It was said that Ana likes tulips.")
        talk = an_episode("A talk with Ana", [hello])
        assert await store.commit(replace(await a_batch(store, [named]), episodes=[talk]))
        forgotten = await forget(store, BANK, ForgetTarget(entity=ana.id))
        assert forgotten == Forgotten(messages=3, facts=1, episodes=1, entities=1, requeued=1)
        left = {message.id for message in await store.messages(BANK, MessageSelect())}
        assert left == {hello.id, *(message.id for message in kept)}
        assert not left & {called.id, later.id, greeting.id}
        assert [entity.name for entity in await store.entities(BANK, EntitySelect())] == ["Ana Lopez"]

    @on_store
    async def test_texts_are_not_searched_for_a_name_that_is_shared_or_an_ordinary_word(self, store: Store) -> None:
        will = an_entity("Will", id="will", type="PERSON", aliases=["Dave"])
        dave = an_entity("dave", id="dave", type="PERSON")
        await store_messages(store, "I will call Dave.", "Will it rain?", state="raw")
        unclear, of_will, of_dave = await store_messages(store, "Hi.", "I sail.", "I knit.", speaker="Dave")
        await store_messages(store, "Bye.", speaker="Will", state="raw")
        facts = [
            a_fact("I sail.", messages=[of_will.id], entities=[mention_of(will)]),
            a_fact("I knit.", messages=[of_dave.id], entities=[mention_of(dave)]),
        ]
        said = [unclear.id, of_will.id, of_dave.id]
        assert await store.commit(replace(await a_batch(store, facts), entities=[will, dave], pending=said))
        assert (await forget(store, BANK, ForgetTarget(entity=will.id))).messages == 3
        left = await store.messages(BANK, MessageSelect())
        assert [message.content for message in left] == ["I will call Dave.", "Will it rain?", "I knit."]

    @on_store
    async def test_a_forgotten_bank_is_deleted_completely(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_story(store)
        loose = a_fact("told by nobody")
        batch = await a_batch(store, [loose])
        assert await store.commit(replace(batch, entities=[an_entity("Unseen")], episodes=[an_episode("empty", [])]))
        theirs = await store_story(store, OTHER)
        forgotten = await forget(store, BANK, ForgetTarget(bank=True))
        assert forgotten == Forgotten(messages=4, facts=6, episodes=3, entities=3)
        assert [bank.id for bank in await store.banks()] == [OTHER]
        assert len(await store.facts(OTHER, FactSelect())) == len(theirs.facts)

    @on_store
    async def test_a_recreated_bank_is_empty(self, store: Store) -> None:
        await store_story(store)
        await store_messages(store, "tulips pending")
        assert await matches(store, "tulips")
        await forget(store, BANK, ForgetTarget(bank=True))
        await store.create_bank(a_bank())
        assert await matches(store, "tulips") == await quotes(store, "tulips") == []
        fact = await store_fact(store, "tulips")
        assert await matches(store, "tulips") == await near(store, EMBEDDER.vector("tulips")) == [fact.id]

    @on_store
    async def test_facts_with_a_forgotten_context_are_processed_again(self, store: Store) -> None:
        asked, answered, after = await store_messages(store, "Where are the tulips?", "Behind the shed.", "Good.")
        answer = a_fact("Behind the shed.", context=asked.content, context_from=asked.id, messages=[answered.id])
        other = a_fact("Good.", context=answered.content, context_from=answered.id, messages=[after.id])
        assert await store.commit(replace(await a_batch(store, [answer, other]), pending=[answered.id, after.id]))
        forgotten = await forget(store, BANK, ForgetTarget(messages=[asked.id]))
        assert forgotten == Forgotten(messages=1, facts=1, requeued=1)
        assert await _ids(store) == {other.id}
        assert [m.id for m in await store.messages(BANK, MessageSelect.oldest_pending(9))] == [answered.id]
        assert await matches(store, "tulips") == []

    @on_store
    async def test_a_fact_of_two_sources_is_processed_again_from_the_other(self, store: Store) -> None:
        first, second, third = await store_messages(store, "tulips one", "tulips two", "tulips three")
        episodes = [an_episode("one", [first]), an_episode("two", [second, third])]
        both = a_fact("tulips both", messages=[first.id, second.id], episodes=[e.id for e in episodes])
        beside = a_fact("tulips beside", messages=[third.id], episodes=[episodes[1].id])
        begun = await a_batch(store, [both, beside])
        assert await store.commit(replace(begun, pending=[m.id for m in (first, second, third)], episodes=episodes))
        forgotten = await forget(store, BANK, ForgetTarget(messages=[first.id]))
        assert forgotten == Forgotten(messages=1, facts=2, episodes=2, requeued=2)
        assert {m.id for m in await store.messages(BANK, MessageSelect.oldest_pending(9))} == {second.id, third.id}
        assert set(await quotes(store, "tulips")) == {second.id, third.id}

    @on_store
    async def test_opinions_and_observations_are_deleted_with_their_basis(self, store: Store) -> None:
        basis_fact = await store_fact(store, "tulips bloomed")
        view = await store_fact(
            store, "I like tulips.", network="opinion", confidence=0.5, basis=[basis_fact.id], messages=[]
        )
        profile = await store_fact(store, "A lover of tulips.", network="observation", basis=[view.id], messages=[])
        other = await store_fact(store, "Unrelated.", network="observation", messages=[])
        forgotten = await forget(store, BANK, ForgetTarget(messages=basis_fact.messages))
        assert forgotten == Forgotten(messages=1, facts=3)
        assert await _ids(store) == {other.id}
        assert profile.id not in await _ids(store)

    @on_store
    async def test_names_that_only_forgotten_text_used_are_deleted(self, store: Store) -> None:
        known = an_entity("Rosalind", id="e1", aliases=["Roz", "Zaza"])
        said, secret = await store_messages(store, "Roz came by.", "Rosalind is called Zaza.")
        facts = [a_fact(m.content, messages=[m.id], entities=[mention_of(known)]) for m in (said, secret)]
        begun = replace(await a_batch(store, facts), entities=[known], pending=[said.id, secret.id])
        assert await store.commit(begun)
        await forget(store, BANK, ForgetTarget(messages=[secret.id]))
        [entity] = await store.entities(BANK, EntitySelect())
        assert (entity.id, entity.name, entity.aliases, entity.mentions) == ("e1", "Roz", (), 1)

    @on_store
    async def test_forgetting_a_missing_target_is_an_error(self, store: Store) -> None:
        story = await store_story(store)
        before, revision = await snapshot(store), await store.revision(BANK)
        for target in (
            ForgetTarget(messages=[story.messages[0].id, MessageId("missing")]),
            ForgetTarget(document="missing"),
            ForgetTarget(entity=EntityId("missing")),
        ):
            with refused(NotFound):
                await forget(store, BANK, target)
            assert await snapshot(store) == before
            assert await store.revision(BANK) == revision

    @on_store
    async def test_forgetting_outdates_batches_started_before(self, store: Store) -> None:
        first, second = await store_messages(store, "tulips one", "tulips two")
        batch = replace(await a_batch(store, [a_fact("tulips two")]), pending=[second.id])
        await forget(store, BANK, ForgetTarget(messages=[first.id]))
        assert await store.commit(batch) is False

    @on_store
    async def test_forgetting_updates_the_counts_of_the_status(self, store: Store) -> None:
        story = await store_story(store)
        await forget(store, BANK, ForgetTarget(messages=[story.messages[2].id]))
        status = await store.status(BANK)
        assert (status.messages, status.pending, status.episodes) == (3, 1, 1)
        assert (status.facts, status.entities, status.links) == (2, 2, 1)

    @on_store
    async def test_a_thousand_messages_are_forgotten_at_once(self, store: Store) -> None:
        said = await store_messages(store, *(f"tulips {n}" for n in range(1200)))
        await _read(store, said)
        kept = said.pop()
        forgotten = await forget(store, BANK, ForgetTarget(messages=[m.id for m in said]))
        assert forgotten == Forgotten(messages=1199, facts=1199)
        assert [m.id for m in await store.messages(BANK, MessageSelect())] == [kept.id]
        assert len(await matches(store, "tulips")) == 1

    @on_store
    async def test_forgetting_succeeds_beside_constant_writes(self, store: Store) -> None:
        fact = await store_fact(store, "tulips")
        done = asyncio.Event()

        async def write() -> None:
            while not done.is_set():
                assert await store.commit(Changes(bank=BANK, facts=[with_vector(a_fact("roses"))]))

        writer = asyncio.create_task(write())
        forgotten = await forget(store, BANK, ForgetTarget(messages=fact.messages))
        done.set()
        await writer
        # A writer may keep the scrub from ending; what is forgotten is not found all the same.
        assert forgotten.model_copy(update={"scrub_pending": False}) == Forgotten(messages=1, facts=1)
        assert await matches(store, "tulips") == []

    @on_store
    async def test_a_forget_that_finds_nothing_does_not_hold_the_bank(self, store: Store) -> None:
        with refused(NotFound):
            await forget(store, BANK, ForgetTarget(document="missing"))
        lease = await store.hold(BANK, "me", 60)
        assert lease is not None


async def _read(store: Store, said: Iterable[Message]) -> list[Fact]:
    facts = [a_fact(m.content, messages=[m.id]) for m in said]
    assert await store.commit(replace(await a_batch(store, facts), pending=[m.id for m in said]))
    return facts


async def _ids(store: Store) -> set[str]:
    return {fact.id for fact in await store.facts(BANK, FactSelect(limit=1000))}
