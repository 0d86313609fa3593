"""Reprocessing: a bank is derived again in a staging bank, which takes its place in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vmemo.errors import InvalidInput, NotFound
from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.lifecycle.forget import forget
from vmemo.lifecycle.reprocess import staging_bank, swap_in
from vmemo.models import BankId, ConfidenceChange, Entity, Fact, Message, Profile
from vmemo.models.changes import Changes, ForgetTarget, Lease, MessageFailure, NewFact, NewJob, ProfileChange
from vmemo.models.results import Spending
from vmemo.models.search import SearchRequest
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo.text.temporal.annotation import embedded_text
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    OTHER,
    START,
    EdgesOf,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_entity,
    an_episode,
    day,
    find_edges,
    matches,
    mention_of,
    named_entities,
    near,
    quotes,
    search,
    snapshot,
    some_tokens,
    store_entities,
    store_fact,
    store_messages,
    store_story,
    token_vectors,
    with_vector,
)
from vmemo_conformance.suite import StoreSuite, on_store, on_two_stores, refused

WIDER = HashEmbedder("wider", 96)


async def staging_of(
    store: Store, engine: str = "new", bank: BankId = BANK, embedder: HashEmbedder = EMBEDDER
) -> BankId:
    """The staging bank of a bank, in the samples' space unless another is given."""
    return await staging_bank(store, bank, engine, embedder=embedder.name, dimension=embedder.dimension)


async def process_staging(store: Store, staging: BankId, entities: Sequence[Entity] = ()) -> list[Fact]:
    """Process the pending messages of a staging bank: a fact of each, which mentions the entities it names."""
    said = await store.messages(staging, MessageSelect.oldest_pending(1000))
    facts = [_fact_of(message, staging, entities) for message in said]
    batch = await a_batch(store, [with_vector(fact, tokens=some_tokens(2)) for fact in facts], bank=staging)
    assert await store.commit(replace(batch, pending=[message.id for message in said], entities=entities))
    await finish_all(store, staging)
    return facts


def _fact_of(message: Message, bank: BankId, entities: Sequence[Entity]) -> Fact:
    named = [mention_of(entity) for entity in entities if entity.name in message.content]
    return a_fact(f"{message.content} Anew.", bank=bank, messages=[message.id], entities=named)


async def finish_all(store: Store, bank: BankId) -> None:
    """Finish the extraction job of a bank."""
    for job in await store.lease("reader", 60, bank=bank, kinds=["process", "extract"], limit=100, due=False):
        assert await store.commit(
            Changes(bank=bank, finished=[Lease(job=job.id, owner="reader", requests=job.requests)])
        )


class ReprocessConformance(StoreSuite):
    """Reprocessing on the hidden banks of a store."""

    @on_store
    async def test_a_staging_bank_leaves_its_bank_unchanged(self, store: Store) -> None:
        story = await store_story(store)
        await store_messages(store, "tulips unread")
        before = await snapshot(store)
        staging = await staging_of(store)
        await process_staging(store, staging)
        assert await snapshot(store) == before
        assert [bank.id for bank in await store.banks()] == [BANK]
        assert await matches(store, "tulips") == [story.facts[2].id]
        assert len(await quotes(store, "tulips")) == 1

    @on_store
    async def test_a_staging_bank_has_all_messages_pending_and_unchanged(self, store: Store) -> None:
        await store_story(store)
        whole = a_message("tulips raw", state="raw", role="tool", speaker="Мария", document="diary", key="1")
        await store.append(BANK, [whole.model_copy(update={"tags": ("ü",), "metadata": {"n": [1, None]}})])
        [failed] = await store_messages(store, "tulips broken", timestamp=day(3), recorded_at=day(4))
        await store.commit(Changes(bank=BANK, failures=[MessageFailure(messages=[failed.id], error="timed out")]))
        staging = await staging_of(store)
        copies = await store.messages(staging, MessageSelect())
        expected = [
            message.model_copy(update={"state": "raw" if message.state == "raw" else "pending", "error": None})
            for message in await store.messages(BANK, MessageSelect())
        ]
        assert copies == expected
        assert [job.kind for job in await store.jobs(staging)] == ["process"]
        assert len(await quotes(store, "tulips", EVERYTHING.replace(bank=staging))) == 3

    @on_store
    async def test_a_started_staging_bank_resumes_with_newer_messages(self, store: Store) -> None:
        [first] = await store_messages(store, "tulips one")
        staging = await staging_of(store)
        [fact] = await process_staging(store, staging)
        second, third = await store_messages(store, "tulips two", "tulips three")
        assert not await swap_in(store, BANK, EMBEDDER)
        assert await staging_of(store) == staging
        assert [f.id for f in await store.facts(staging, FactSelect())] == [fact.id]
        assert [m.id for m in await store.messages(staging, MessageSelect.oldest_pending(9))] == [second.id, third.id]
        assert [m.id for m in await store.messages(staging, MessageSelect())] == [first.id, second.id, third.id]
        assert [job.kind for job in await store.jobs(staging)] == ["process"]

    @on_store
    async def test_a_staging_bank_of_another_engine_or_embedder_restarts(self, store: Store) -> None:
        await store_messages(store, "tulips")
        await process_staging(store, await staging_of(store))
        other = await staging_of(store, "newer")
        assert await store.facts(other, FactSelect()) == []
        assert len(await store.messages(other, MessageSelect.oldest_pending(9))) == 1
        await process_staging(store, other)
        wider = await staging_of(store, "newer", embedder=WIDER)
        assert await store.facts(wider, FactSelect()) == []
        assert (await store.status(wider)).dimension == 96
        assert len(await quotes(store, "tulips", EVERYTHING.replace(bank=wider))) == 1

    @on_store
    async def test_thousands_of_messages_are_copied_in_their_order(self, store: Store) -> None:
        said = await store_messages(store, *(f"line {n}" for n in range(4100)))
        staging = await staging_of(store)
        assert [m.id for m in await store.messages(staging, MessageSelect(limit=5000))] == [m.id for m in said]
        assert len(await quotes(store, "line", EVERYTHING.replace(bank=staging), limit=5000)) == 4100
        assert len(await quotes(store, "line", limit=5000)) == 4100

    @on_store
    async def test_a_staging_bank_with_pending_work_is_not_swapped_in(self, store: Store) -> None:
        assert not await swap_in(store, BANK, EMBEDDER)
        await store_story(store)
        before = await snapshot(store)
        staging = await staging_of(store)
        assert not await swap_in(store, BANK, EMBEDDER)
        unread = await store.messages(staging, MessageSelect.oldest_pending(9))
        for message in unread[:-1]:
            fact = a_fact(message.content, bank=staging, messages=[message.id])
            assert await store.commit(replace(await a_batch(store, [fact], bank=staging), pending=[message.id]))
        await finish_all(store, staging)
        assert not await swap_in(store, BANK, EMBEDDER)
        await process_staging(store, staging)
        await store.commit(Changes(bank=staging, jobs=[NewJob(kind="extract", key="an episode")]))
        assert not await swap_in(store, BANK, EMBEDDER)
        assert await snapshot(store) == before
        await finish_all(store, staging)
        assert await swap_in(store, BANK, EMBEDDER)

    @on_store
    async def test_a_grouped_message_is_pending(self, store: Store) -> None:
        await store_messages(store, "tulips")
        staging = await staging_of(store)
        said = await store.messages(staging, MessageSelect.oldest_pending(9))
        batch = await a_batch(store, bank=staging)
        grouped = replace(batch, pending=[said[0].id], episodes=[an_episode("tulips", said)], becomes="grouped")
        assert await store.commit(grouped)
        await finish_all(store, staging)
        assert not await swap_in(store, BANK, EMBEDDER)

    @on_store
    async def test_after_the_swap_all_searches_use_the_new_derivation(self, store: Store) -> None:
        story = await store_story(store)
        raw = a_message("tulips raw", state="raw")
        await store.append(BANK, [raw])
        said = await store.messages(BANK, MessageSelect())
        staging = await staging_of(store)
        caroline = an_entity("Caroline", id="new-caroline")
        facts = await process_staging(store, staging, [caroline])
        assert await swap_in(store, BANK, EMBEDDER)
        found = await store.facts(BANK, FactSelect())
        assert [fact.id for fact in found] == [fact.id for fact in facts]
        assert {fact.bank for fact in found} == {BANK}
        assert await matches(store, "tulips") == [facts[2].id]
        assert set(await near(store, EMBEDDER.vector("tulips"))) == {fact.id for fact in facts}
        assert await quotes(store, "tulips") == [raw.id]
        assert await named_entities(store, BANK, "Caroline in Oslo") == [mention_of(caroline)]
        assert [entity.id for entity in await store.entities(BANK, EntitySelect())] == [caroline.id]
        query = EdgesOf(scope=EVERYTHING, space=EMBEDDER.name, vector=EMBEDDER.vector("x"), facts=[facts[0].id])
        assert {edge.target for edge in await find_edges(store, query)} == {facts[1].id, facts[2].id}
        assert await store.links(BANK) == []
        assert await store.episodes(BANK, EpisodeSelect()) == []
        assert [tokens is not None for tokens in await token_vectors(store, BANK, [f.id for f in facts])] == [True] * 4
        assert await store.facts(BANK, FactSelect(ids=[fact.id for fact in story.facts])) == []
        assert [m.id for m in await store.messages(BANK, MessageSelect())] == [m.id for m in said]
        status = await store.status(BANK)
        assert (status.messages, status.facts, status.entities, status.pending) == (5, 4, 1, 0)
        assert status.scrub_pending is False
        with refused(NotFound):
            await store.messages(staging, MessageSelect())

    @on_two_stores
    async def test_another_store_uses_the_old_derivation_until_the_swap(self, one: Store, other: Store) -> None:
        story = await store_story(one)
        vector = EMBEDDER.vector("tulips")
        assert await matches(other, "tulips") == [story.facts[2].id]
        facts = await process_staging(one, await staging_of(one))
        assert await matches(other, "tulips") == [story.facts[2].id]
        assert await near(other, vector, limit=1) == [story.facts[2].id]
        assert await swap_in(one, BANK, EMBEDDER)
        assert await matches(other, "tulips") == [facts[2].id]
        assert set(await near(other, vector)) == {fact.id for fact in facts}
        assert not await swap_in(other, BANK, EMBEDDER)
        later = await store_fact(other, "tulips later")
        assert set(await matches(one, "tulips")) == {facts[2].id, later.id}

    @on_store
    async def test_the_swap_keeps_name_profile_creation_time_and_costs(self, store: Store) -> None:
        await store_story(store)
        await store.commit(Changes(bank=BANK, spending=[Spending(step="read", model="m", calls=2, cost=0.5)]))
        staging = await staging_of(store)
        await process_staging(store, staging)
        spent = [Spending(step="read", model="m", calls=1, cost=0.25), Spending(step="see", model="m", calls=1)]
        await store.commit(Changes(bank=staging, spending=spent))
        profile = Profile(name="somebody else")
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=profile)))
        revision = await store.revision(BANK)
        assert await swap_in(store, BANK, EMBEDDER)
        assert await store.bank(BANK) == a_bank().model_copy(update={"profile": profile})
        assert await store.revision(BANK) != revision
        costs = {item.step: (item.calls, item.cost) for item in (await store.status(BANK)).spending}
        assert costs == {"read": (3, 0.75), "see": (1, 0.0)}

    @on_store
    async def test_a_batch_started_before_the_swap_is_refused_after_it(self, store: Store) -> None:
        [said] = await store_messages(store, "tulips")
        staging = await staging_of(store)
        old, new = [await a_batch(store, [a_fact("late", bank=bank)], bank=bank) for bank in (BANK, staging)]
        await process_staging(store, staging)
        assert await swap_in(store, BANK, EMBEDDER)
        assert not await store.commit(replace(old, pending=[said.id]))
        assert not await store.commit(old)
        with refused(NotFound):
            await store.commit(new)
        assert len(await store.facts(BANK, FactSelect())) == 1

    @on_store
    async def test_jobs_of_the_staging_bank_belong_to_the_bank_after_the_swap(self, store: Store) -> None:
        await store_story(store)
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key="oslo")]))
        staging = await staging_of(store)
        await process_staging(store, staging)
        await store.commit(
            Changes(bank=staging, jobs=[NewJob(kind="observe", key="new"), NewJob(kind="opinions", key="1")])
        )
        assert await swap_in(store, BANK, EMBEDDER)
        assert {(job.kind, job.key, job.bank) for job in await store.jobs(BANK)} == {
            ("observe", "new", BANK),
            ("opinions", "1", BANK),
        }
        assert len(await store.lease("anyone", 60, limit=9)) == 2

    @on_store
    async def test_formed_opinions_survive_the_swap_with_their_basis(self, store: Store) -> None:
        story = await store_story(store)
        caroline = story.entities[0]
        held = await _believe(store, story.facts, caroline)
        await store_fact(store, "Tulips are fine.", network="opinion", confidence=0.5, episodes=[story.episodes[0].id])
        staging = await staging_of(store)
        facts = await process_staging(store, staging, [an_entity("Caroline", id="new-caroline")])
        assert await swap_in(store, BANK, EMBEDDER)
        old, new = await store.facts(BANK, FactSelect(ids=[fact.id for fact in held], with_embeddings=True))
        assert old.basis == (facts[0].id,)
        assert set(new.basis) == {facts[0].id, facts[2].id, old.id}
        assert [mention.id for mention in new.entities] == ["new-caroline"]
        assert (old.supersedes, new.supersedes) == (None, old.id)
        assert new.confidence == 0.75
        assert (await store.confidence_changes(BANK))[0].evidence == (facts[2].id,)
        assert [move.opinion for move in await store.confidence_changes(BANK)] == [new.id]
        assert new.id in await near(store, EMBEDDER.vector(new.text), limit=1)
        assert [f.id for f in await store.facts(BANK, FactSelect()) if f.network == "opinion"] == [old.id, new.id]
        await forget(store, BANK, ForgetTarget(messages=facts[2].messages))
        assert await store.facts(BANK, FactSelect(ids=[new.id])) == []

    @on_store
    async def test_kept_opinions_need_vectors_of_the_new_embedder(self, store: Store) -> None:
        story = await store_story(store)
        held = await _believe(store, story.facts, story.entities[0])
        staging = await staging_of(store, embedder=WIDER)
        said = await store.messages(staging, MessageSelect.oldest_pending(9))
        anew = [a_fact(message.content, bank=staging, messages=[message.id]) for message in said]
        vectors = [NewFact(fact=fact, embedding=WIDER.vector(fact.text)) for fact in anew]
        batch = replace(await a_batch(store, bank=staging), facts=vectors, embedder="wider")
        assert await store.commit(replace(batch, pending=[message.id for message in said]))
        await finish_all(store, staging)
        before = await snapshot(store)
        with refused(InvalidInput):
            await swap_in(store, BANK, EMBEDDER)
        assert await snapshot(store) == before
        assert await swap_in(store, BANK, WIDER)
        query = SearchRequest(scope=EVERYTHING, space="wider", semantic=[WIDER.vector(held[1].text)], limit=1)
        assert [hit.id for hit in (await search(store, query)).semantic[0]] == [held[1].id]
        assert held[1].id in await matches(store, "gardener")
        stored = await store.bank(BANK)
        assert stored is not None
        assert (stored.embedder, stored.dimension) == ("wider", 96)
        [opinion] = await store.facts(BANK, FactSelect(ids=[held[1].id], with_embeddings=True))
        assert np.allclose(
            opinion.embedding or (), WIDER.vector(embedded_text(opinion.text, opinion.mentioned_at)), atol=1e-3
        )

    @on_store
    async def test_an_undone_merge_is_kept_by_the_new_derivation(self, store: Store) -> None:
        await store_story(store)
        await store_entities(store, an_entity("Carol"), an_entity("Nobody", not_aliases=["Someone"]))
        merge = await merge_entities(store, BANK, an_entity("Caroline").id, an_entity("Carol").id, "alike")
        await undo_merge(store, BANK, merge.id)
        staging = await staging_of(store)
        known = {entity.name: entity for entity in await store.entities(staging, EntitySelect())}
        assert known["Caroline"].not_aliases == ("Carol",)
        assert known["Carol"].not_aliases == ("Caroline",)
        await process_staging(store, staging, [known["Caroline"]])
        assert await swap_in(store, BANK, EMBEDDER)
        [caroline] = await store.entities(BANK, EntitySelect())
        assert (caroline.name, caroline.not_aliases) == ("Caroline", ("Carol",))
        assert await named_entities(store, BANK, "Nobody") == []

    @on_store
    async def test_a_merge_is_kept_by_repeated_derivations(self, store: Store) -> None:
        await store_story(store)
        await store_entities(store, an_entity("Carol"))
        made = await merge_entities(store, BANK, an_entity("Caroline").id, an_entity("Carol").id, "alike")
        for _ in range(2):
            staging = await staging_of(store)
            known = {entity.name: entity for entity in await store.entities(staging, EntitySelect())}
            assert known["Caroline"].aliases == ("Carol",)
            await process_staging(store, staging, [known["Caroline"]])
            assert await swap_in(store, BANK, EMBEDDER)
            assert [merge.id for merge in await store.merges(BANK)] == [made.id]
        await undo_merge(store, BANK, made.id)
        assert {entity.name for entity in await store.entities(BANK, EntitySelect())} >= {"Caroline", "Carol"}

    @on_store
    async def test_staging_banks_of_two_banks_are_separate(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_story(store)
        await store_story(store, OTHER)
        before = await snapshot(store, OTHER)
        shadows = [await staging_of(store, bank=bank) for bank in (BANK, OTHER)]
        assert len(set(shadows)) == 2
        await process_staging(store, shadows[0])
        assert await swap_in(store, BANK, EMBEDDER)
        assert not await swap_in(store, OTHER, EMBEDDER)
        assert await snapshot(store, OTHER) == before
        assert len(await store.messages(shadows[1], MessageSelect.oldest_pending(9))) == 4

    @on_store
    async def test_forgetting_applies_to_the_staging_bank(self, store: Store) -> None:
        story = await store_story(store)
        staging = await staging_of(store)
        await process_staging(store, staging)
        await forget(store, BANK, ForgetTarget(messages=[story.messages[2].id]))
        with refused(NotFound):
            await store.messages(staging, MessageSelect())
        assert not await swap_in(store, BANK, EMBEDDER)
        again = await staging_of(store)
        assert story.messages[2].id not in {message.id for message in await store.messages(again, MessageSelect())}
        await forget(store, BANK, ForgetTarget(bank=True))
        with refused(NotFound):
            await store.messages(again, MessageSelect())
        assert await store.banks() == []

    @on_store
    async def test_repeated_reprocessing_duplicates_nothing(self, store: Store) -> None:
        story = await store_story(store)
        held = await _believe(store, story.facts, story.entities[0])
        for _ in range(3):
            await process_staging(store, await staging_of(store), [an_entity("Caroline", id="new-caroline")])
            assert await swap_in(store, BANK, EMBEDDER)
            status = await store.status(BANK)
            assert (status.messages, status.facts, status.entities) == (4, 6, 1)
            assert len(await store.confidence_changes(BANK)) == 1
            [new] = await store.facts(BANK, FactSelect(ids=[held[1].id]))
            assert len(new.basis) == 3


async def _believe(store: Store, facts: Sequence[Fact], about: Entity) -> list[Fact]:
    """Store two formed opinions: the second superseded the first, is also based on it, and changed its confidence."""
    old = a_fact(
        "Caroline is no gardener.",
        network="opinion",
        confidence=0.25,
        basis=[facts[0].id],
        expired_at=day(2),
        invalid_at=day(2),
    )
    new = a_fact(
        "Caroline is a good gardener.",
        network="opinion",
        confidence=0.5,
        basis=[facts[4].id, old.id],
        entities=[mention_of(about)],
        supersedes=old.id,
    )
    assert await store.commit(await a_batch(store, [old]))
    assert await store.commit(await a_batch(store, [new]))
    moved = ConfidenceChange(
        opinion=new.id, stance="reinforce", before=0.5, after=0.75, evidence=(facts[2].id,), at=START
    )
    assert await store.commit(replace(await a_batch(store), confidence=[moved]))
    return [old, new]
