"""Batches: committed whole, only against the current revision, and read back unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np

from vmemo.errors import EmbedderMismatch, NotFound, VmemoError
from vmemo.models import BankId, EntityId, EpisodeId, FactId, Link, Mention, MessageId, new_id
from vmemo.models.changes import Changes
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
    at_cosine,
    day,
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

Outcome = Callable[[Store, Changes], Awaitable[None]]


class BatchConformance(StoreSuite):
    """`commit` of a batch, and `revision`."""

    @on_store
    async def test_a_written_fact_is_read_back_unchanged(self, store: Store) -> None:
        before, said = await store_messages(store, "What is new?", "I believe Oslo is cold.")
        oslo, me = an_entity("Oslo", type="LOCATION"), an_entity("Ann", type="PERSON")
        episode = an_episode("weather", [said])
        basis_fact = a_fact("Oslo has snow.", messages=[said.id])
        whole = a_fact(
            "I believe Oslo is cold. ❄️",
            network="opinion",
            tokens=7,
            context="What is new?",
            context_from=before.id,
            occurred_start=day(1),
            occurred_end=day(2),
            mentioned_at=day(3),
            valid_at=day(4),
            invalid_at=day(9),
            recorded_at=day(5),
            expired_at=day(10),
            confidence=0.25,
            importance=0.75,
            access_count=3,
            entities=[mention_of(oslo), mention_of(me)],
            messages=[said.id],
            episodes=[episode.id],
            basis=[basis_fact.id],
            supersedes=basis_fact.id,
            tags=["weather", "a"],
            metadata={"n": 1, "deep": {"list": [None, True, "x"]}},
            engine="some-engine",
        )
        begun = await a_batch(store, [basis_fact, whole])
        assert await store.commit(replace(begun, pending=[said.id], episodes=[episode], entities=[oslo, me]))
        assert await store.facts(BANK, FactSelect(ids=[whole.id, basis_fact.id])) == [whole, basis_fact]

    @on_store
    async def test_embeddings_are_returned_on_request(self, store: Store) -> None:
        vector = EMBEDDER.vector("nine different words make for uneven numbers in here")
        fact = await store_fact(store, "words", vector=vector)
        [plain] = await store.facts(BANK, FactSelect(ids=[fact.id]))
        [full] = await store.facts(BANK, FactSelect(ids=[fact.id], with_embeddings=True))
        [paged] = await store.facts(BANK, FactSelect(with_embeddings=True))
        assert plain.embedding is None
        assert full == paged
        assert full.embedding is not None
        assert np.allclose(full.embedding, vector, atol=1e-3)

    @on_store
    async def test_claimed_messages_are_processed(self, store: Store) -> None:
        kept, extracted, unread = await store_messages(store, "one", "two", "three")
        assert await store.commit(replace(await a_batch(store), pending=[kept.id]))
        assert await store.commit(replace(await a_batch(store), pending=[extracted.id], becomes="extracted"))
        states = {m.id: m.state for m in await store.messages(BANK, MessageSelect())}
        assert states == {kept.id: "derived", extracted.id: "extracted", unread.id: "pending"}

    @on_store
    async def test_claimed_messages_without_facts_stay_searchable(self, store: Store) -> None:
        kept, bare = await store_messages(store, "tulips one", "tulips two")
        claimed = replace(await a_batch(store), pending=[kept.id, bare.id], unrepeated=[bare.id])
        assert await store.commit(claimed)
        states = {m.id: m.state for m in await store.messages(BANK, MessageSelect())}
        assert states == {kept.id: "derived", bare.id: "extracted"}
        assert await quotes(store, "tulips") == [bare.id]

    @on_store
    async def test_a_batch_of_many_facts_is_committed(self, store: Store) -> None:
        said = await store_messages(store, *(f"number{n}" for n in range(1200)))
        facts = [a_fact(m.content, messages=[m.id]) for m in said]
        assert await store.commit(replace(await a_batch(store, facts), pending=[m.id for m in said]))
        found = await store.facts(BANK, FactSelect(ids=[fact.id for fact in reversed(facts)]))
        assert [fact.id for fact in found] == [fact.id for fact in reversed(facts)]
        assert await matches(store, "number777") == [facts[777].id]

    @on_store
    async def test_an_episode_that_exists_is_replaced(self, store: Store) -> None:
        one, two, three = await store_messages(store, "one", "two", "three")
        old = an_episode("old title", [one, two])
        new = an_episode("new title", [one, two, three], id=old.id, narrative="More.", ended_at=day(2))
        assert await store.commit(replace(await a_batch(store), pending=[one.id, two.id], episodes=[old]))
        assert await store.commit(replace(await a_batch(store), pending=[three.id], episodes=[new]))
        assert await store.episodes(BANK, EpisodeSelect()) == [new]

    @on_store
    async def test_an_entity_that_exists_is_updated(self, store: Store) -> None:
        old = an_entity("Bob")
        new = an_entity("Robert Smith", id=old.id, type="PERSON", aliases=["Bob", "Bobby"], last_seen=day(9))
        assert await store.commit(replace(await a_batch(store), entities=[old]))
        assert await store.commit(replace(await a_batch(store), entities=[new]))
        assert await store.entities(BANK, EntitySelect()) == [new]

    @on_store
    async def test_the_revision_grows_with_every_batch(self, store: Store) -> None:
        before = await store.revision(BANK)
        await store_fact(store, "one")
        middle = await store.revision(BANK)
        await store_fact(store, "two")
        assert before < middle < await store.revision(BANK)

    @on_store
    async def test_new_messages_and_access_counts_do_not_outdate_a_batch(self, store: Store) -> None:
        known = await store_fact(store, "one")
        batch = await a_batch(store, [a_fact("two")])
        await store_messages(store, "a message that came meanwhile")
        await store.commit(Changes(bank=BANK, accesses={known.id: 1}))
        assert await store.commit(batch)

    @on_store
    async def test_a_batch_with_a_stale_claim_is_refused(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_story(store)
        fresh, read = await store_messages(store, "tulips again", "already read")
        [foreign] = await store_messages(store, "of another bank", bank=OTHER)
        assert await store.commit(replace(await a_batch(store), pending=[read.id]))
        for stale in (read.id, MessageId("missing"), foreign.id):
            batch = replace(await _everything(store), pending=[fresh.id, stale])
            await _changes_nothing(store, batch, _returns_false)
        assert [m.id for m in await store.messages(BANK, MessageSelect.oldest_pending(9))] == [fresh.id]
        assert await quotes(store, "tulips") == [fresh.id]

    @on_store
    async def test_a_batch_of_an_outdated_revision_is_refused(self, store: Store) -> None:
        [fresh] = await store_messages(store, "tulips again")
        batch = replace(await _everything(store), pending=[fresh.id])
        await store_story(store)
        await _changes_nothing(store, batch, _returns_false)
        assert await store.commit(replace(batch, revision=await store.revision(BANK)))

    @on_store
    async def test_a_batch_of_another_embedder_is_refused(self, store: Store) -> None:
        [fresh] = await store_messages(store, "tulips again")
        batch = replace(await _everything(store), pending=[fresh.id], embedder="another embedder")
        await _changes_nothing(store, batch, _raises(EmbedderMismatch))

    @on_store
    async def test_a_batch_for_a_missing_bank_is_refused(self, store: Store) -> None:
        with refused(NotFound):
            await store.commit(replace(await a_batch(store), bank=BankId("nobody")))

    @on_store
    async def test_an_invalid_batch_writes_nothing(self, store: Store) -> None:
        story = await store_story(store)
        [fresh] = await store_messages(store, "tulips again")
        nowhere = Mention(id=EntityId("nowhere"), name="Nowhere")
        broken = {
            "an id twice": [a_fact("crocus"), a_fact("crocus", id=story.facts[0].id)],
            "an unknown message": [a_fact("crocus", messages=[MessageId("missing")])],
            "an unknown context": [a_fact("crocus", context_from=MessageId("missing"))],
            "an unknown episode": [a_fact("crocus", episodes=[EpisodeId("missing")])],
            "an unknown fact behind it": [a_fact("crocus", basis=[FactId("missing")])],
            "an unknown entity": [a_fact("crocus", entities=[nowhere])],
            "a vector of another length": [with_vector(a_fact("crocus"), at_cosine(1.0, dimension=8))],
            "a vector without numbers": [
                with_vector(a_fact("crocus"), np.full(EMBEDDER.dimension, np.nan, np.float32))
            ],
        }
        for case, facts in broken.items():
            good = await _everything(store)
            batch = replace(good, pending=[fresh.id], facts=[*good.facts, *(await a_batch(store, facts)).facts])
            await _changes_nothing(store, batch, _raises(VmemoError), case)
        assert await matches(store, "crocus") == []
        assert await near(store, EMBEDDER.vector(story.facts[0].text), limit=1) == [story.facts[0].id]

    @on_store
    async def test_one_of_several_concurrent_batches_commits(self, store: Store) -> None:
        said = await store_messages(store, *(f"line {n}" for n in range(6)))
        batches = [replace(await a_batch(store, [a_fact(m.content)]), pending=[m.id]) for m in said]
        landed = await asyncio.gather(*(store.commit(batch) for batch in batches))
        assert landed.count(True) == 1
        assert len(await store.facts(BANK, FactSelect())) == 1
        assert len(await store.messages(BANK, MessageSelect.oldest_pending(10))) == 5


async def _everything(store: Store) -> Changes:
    """A valid batch with one new record of each kind."""
    zoe = an_entity("Zoe")
    fact, other = a_fact("Zoe likes daffodils.", entities=[mention_of(zoe)]), a_fact("Zoe is here.")
    link = Link(source=fact.id, target=other.id, kind="semantic", weight=0.9)
    episode = an_episode("daffodils", [], id=EpisodeId(new_id()))
    return replace(await a_batch(store, [fact, other]), entities=[zoe], episodes=[episode], links=[link])


async def _returns_false(store: Store, batch: Changes) -> None:
    """The store says that the batch is out of date."""
    assert await store.commit(batch) is False


def _raises(error: type[Exception]) -> Outcome:
    """The store refuses the batch."""

    async def check(store: Store, batch: Changes) -> None:
        with refused(error):
            await store.commit(batch)

    return check


async def _changes_nothing(store: Store, batch: Changes, outcome: Outcome, case: str = "") -> None:
    before, revision = await snapshot(store), await store.revision(BANK)
    await outcome(store, batch)
    assert await snapshot(store) == before, case
    assert await store.revision(BANK) == revision, case
    assert await matches(store, "daffodils") == [], case
