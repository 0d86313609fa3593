"""Forgetting also cleans up names, merges, confidence changes and queued jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue

from vmemo.errors import NotFound
from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.lifecycle.forget import forget
from vmemo.models import ConfidenceChange, Entity, EntityId, Fact, FactId, Message
from vmemo.models.changes import Changes, FactClosure, ForgetTarget, JobFailure, Lease, MessageFailure, NewJob
from vmemo.models.results import Forgotten
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    an_episode,
    day,
    mention_of,
    quotes,
    store_entities,
    store_fact,
    store_messages,
)
from vmemo_conformance.suite import StoreSuite, on_store, refused

ANNA = an_entity("Anna", aliases=["Ann"])


class ForgetCleanupConformance(StoreSuite):
    """Cleanup by `forget` besides messages, facts, episodes and entities."""

    @on_store
    async def test_confidence_changes_of_a_forgotten_opinion_are_deleted(self, store: Store) -> None:
        basis_fact = await store_fact(store, "tulips bloomed")
        view = await store_fact(
            store, "I like tulips.", network="opinion", confidence=0.5, basis=[basis_fact.id], messages=[]
        )
        other = await store_fact(store, "I like roses.", network="opinion", confidence=0.5, messages=[])
        await _move(store, view.id, [basis_fact.id], "They bloomed.")
        kept = await _move(store, other.id, [], "Roses too.")
        await forget(store, BANK, ForgetTarget(messages=basis_fact.messages))
        assert await store.confidence_changes(BANK) == [kept]

    @on_store
    async def test_a_confidence_change_loses_the_reason_of_forgotten_evidence(self, store: Store) -> None:
        secret, told = await store_fact(store, "tulips wilted"), await store_fact(store, "tulips bloomed")
        view = await store_fact(store, "I like tulips.", network="opinion", confidence=0.5, messages=[])
        both = await _move(store, view.id, [secret.id, told.id], "They wilted, then bloomed.")
        one = await _move(store, view.id, [told.id], "They bloomed.")
        await forget(store, BANK, ForgetTarget(messages=secret.messages))
        assert await store.confidence_changes(BANK) == [
            both.model_copy(update={"evidence": (told.id,), "reason": ""}),
            one,
        ]

    @on_store
    async def test_merges_of_a_forgotten_entity_are_deleted(self, store: Store) -> None:
        said, _ = await _store_people(store)
        inner = await merge_entities(store, BANK, EntityId("bob"), ANNA.id, "inner")
        await merge_entities(store, BANK, EntityId("eve"), EntityId("bob"), "outer")
        assert inner.entity == "bob"
        await forget(store, BANK, ForgetTarget(entity=EntityId("eve")))
        assert await store.merges(BANK) == await store.entities(BANK, EntitySelect()) == []
        assert await store.messages(BANK, MessageSelect(ids=[m.id for m in said])) == []

    @on_store
    async def test_names_of_a_merge_that_no_remaining_fact_uses_are_forgotten(self, store: Store) -> None:
        said, facts = await _store_people(store)
        await merge_entities(store, BANK, EntityId("bob"), ANNA.id, "Ann told it")
        await forget(store, BANK, ForgetTarget(messages=[said[0].id]))
        [merge] = await store.merges(BANK)
        assert (merge.names, merge.reason) == (("Ann",), "")
        assert await undo_merge(store, BANK, merge.id) == ANNA.id
        [anna] = await store.entities(BANK, EntitySelect(ids=[ANNA.id]))
        assert (anna.name, anna.aliases, anna.mentions) == ("Ann", (), 1)
        [bob] = await store.entities(BANK, EntitySelect(ids=[EntityId("bob")]))
        assert (bob.name, bob.not_aliases) == ("Bob", ("Ann",))
        assert [
            [m.name_in_text for m in fact.entities] for fact in await store.facts(BANK, FactSelect(ids=[facts[1].id]))
        ] == [[""]]

    @on_store
    async def test_a_merge_without_names_is_deleted(self, store: Store) -> None:
        said, _ = await _store_people(store)
        merge = await merge_entities(store, BANK, EntityId("bob"), ANNA.id, "")
        await forget(store, BANK, ForgetTarget(messages=[said[0].id, said[1].id]))
        assert await store.merges(BANK) == []
        with refused(NotFound):
            await undo_merge(store, BANK, merge.id)
        [bob] = await store.entities(BANK, EntitySelect(ids=[EntityId("bob")]))
        assert bob.aliases == ()

    @on_store
    async def test_an_undone_merge_is_deleted_with_the_separated_entity(self, store: Store) -> None:
        await _store_people(store)
        merge = await merge_entities(store, BANK, EntityId("bob"), ANNA.id, "")
        await undo_merge(store, BANK, merge.id)
        await forget(store, BANK, ForgetTarget(entity=ANNA.id))
        assert await store.merges(BANK) == []
        assert {e.name: e.not_aliases for e in await store.entities(BANK, EntitySelect())} == {"Bob": (), "Eve": ()}

    @on_store
    async def test_a_not_alias_stays_while_an_entity_or_message_uses_the_name(self, store: Store) -> None:
        said, _ = await _store_people(store)
        await store_entities(store, an_entity("Eve", not_aliases=["Anna", "anemone", "Zaza"]))
        await store_messages(store, "Anemones bloom.")
        await forget(store, BANK, ForgetTarget(messages=[said[2].id]))
        assert (await store.entities(BANK, EntitySelect(ids=[EntityId("eve")])))[0].not_aliases == ("Anna", "anemone")
        await forget(store, BANK, ForgetTarget(entity=ANNA.id))
        assert (await store.entities(BANK, EntitySelect(ids=[EntityId("eve")])))[0].not_aliases == ("anemone",)

    @on_store
    async def test_a_name_that_only_forgotten_text_used_is_deleted(self, store: Store) -> None:
        said = await store_messages(store, "Anna is Zaza.", "She slept, said Ann.")
        named = ANNA.model_copy(update={"aliases": ("Ann", "Zaza")})
        facts = [
            a_fact(m.content, messages=[m.id], entities=[mention_of(named, "Zaza")], mentioned_at=day(n + 1))
            for n, m in enumerate(said)
        ]
        assert await store.commit(replace(await a_batch(store, facts), entities=[named], pending=[m.id for m in said]))
        await forget(store, BANK, ForgetTarget(messages=[said[0].id]))
        [fact] = await store.facts(BANK, FactSelect())
        assert fact.entities == (mention_of(named.model_copy(update={"name": "Ann"})),)

    @on_store
    async def test_grouped_messages_are_ungrouped_with_their_episode(self, store: Store) -> None:
        said = await store_messages(store, "tulips one", "tulips two", "tulips three")
        episode, other = an_episode("both", said[:2]), an_episode("alone", said[2:])
        assert await store.commit(
            replace(await a_batch(store), pending=[m.id for m in said], episodes=[episode, other], becomes="grouped")
        )
        assert await store.messages(BANK, MessageSelect.oldest_pending(9)) == []
        assert set(await quotes(store, "tulips")) == {m.id for m in said}
        for held in (episode, other):
            detail: dict[str, JsonValue] = {"episode": held.id, "messages": [*held.messages]}
            await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="extract", key=held.id, detail=detail)]))
        await store.commit(
            Changes(
                bank=BANK,
                failures=[MessageFailure(messages=[said[0].id, said[1].id], error="could not read: tulips one")],
            )
        )
        forgotten = await forget(store, BANK, ForgetTarget(messages=[said[0].id]))
        assert forgotten == Forgotten(messages=1, episodes=1, requeued=1)
        assert [(m.id, m.state, m.error) for m in await store.messages(BANK, MessageSelect())] == [
            (said[1].id, "pending", None),
            (said[2].id, "grouped", None),
        ]
        assert [job.key for job in await store.jobs(BANK, ["extract"])] == [other.id]
        assert set(await quotes(store, "tulips")) == {said[1].id, said[2].id}

    @on_store
    async def test_messages_to_process_again_are_queued(self, store: Store) -> None:
        said = await store_messages(store, "one", "two", "three")
        episodes = [an_episode("both", said[:2]), an_episode("alone", said[2:])]
        assert await store.commit(replace(await a_batch(store), pending=[m.id for m in said], episodes=episodes))
        await _finish_all(store)
        await forget(store, BANK, ForgetTarget(messages=[said[2].id]))
        assert await store.jobs(BANK) == []
        await forget(store, BANK, ForgetTarget(messages=[said[0].id]))
        assert [job.kind for job in await store.jobs(BANK)] == ["process"]
        assert [m.id for m in await store.messages(BANK, MessageSelect.oldest_pending(9))] == [said[1].id]

    @on_store
    async def test_an_error_that_may_quote_forgotten_text_is_deleted(self, store: Store) -> None:
        secret, beside, other = await store_messages(store, "one", "two", "three")
        await store.commit(
            Changes(bank=BANK, failures=[MessageFailure(messages=[secret.id, beside.id], error="no sense in: one")])
        )
        await store.commit(
            Changes(bank=BANK, failures=[MessageFailure(messages=[other.id], error="no sense in: three")])
        )
        [job] = await store.lease("me", 60)
        await store.commit(
            Changes(
                bank=BANK,
                failed=[
                    JobFailure(
                        lease=Lease(job=job.id, owner="me", requests=job.requests),
                        error="no sense in: one",
                        retry_at=day(1),
                    )
                ],
            )
        )
        await forget(store, BANK, ForgetTarget(messages=[secret.id]))
        assert [m.error for m in await store.messages(BANK, MessageSelect())] == [None, "no sense in: three"]
        assert [job.error for job in await store.jobs(BANK)] == [None]

    @on_store
    async def test_entities_with_a_deleted_or_outdated_observation_are_queued(self, store: Store) -> None:
        names = ("falls", "outdated", "closed", "plain", "untouched")
        who = {name: an_entity(name) for name in names}
        said = await store_messages(store, *(f"{name} here" for name in names), *(f"{name} again" for name in names))
        told = [a_fact(m.content, messages=[m.id], entities=[mention_of(who[m.content.split()[0]])]) for m in said]
        profiles = [
            _profile(who["falls"], told[0]),
            _profile(who["outdated"], told[6]),
            _profile(who["closed"], told[7]),
            _profile(who["untouched"], told[9]),
        ]
        batch = replace(await a_batch(store, [*told, *profiles]), pending=[m.id for m in said])
        ended = FactClosure(fact=profiles[2].id, expired_at=day(2))
        assert await store.commit(replace(batch, entities=list(who.values()), closures=[ended]))
        await _finish_all(store)
        await forget(store, BANK, ForgetTarget(messages=[m.id for m in said[:4]]))
        assert {(job.kind, job.key) for job in await store.jobs(BANK)} == {
            ("observe", "falls"),
            ("observe", "outdated"),
        }

    @on_store
    async def test_a_forgotten_entity_queues_no_observation(self, store: Store) -> None:
        await _store_people(store)
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key=key) for key in (ANNA.id, "eve")]))
        await forget(store, BANK, ForgetTarget(entity=ANNA.id))
        assert [job.key for job in await store.jobs(BANK, ["observe"])] == ["eve"]

    @on_store
    async def test_a_recreated_bank_has_no_jobs_confidence_changes_or_merges(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_messages(store, "theirs", bank=OTHER)
        await _store_people(store)
        await merge_entities(store, BANK, EntityId("bob"), ANNA.id, "")
        view = await store_fact(store, "I like tulips.", network="opinion", confidence=0.5, messages=[])
        await _move(store, view.id, [], "because")
        await store_messages(store, "pending")
        await forget(store, BANK, ForgetTarget(bank=True))
        await store.create_bank(a_bank())
        assert await store.jobs(BANK) == await store.confidence_changes(BANK) == await store.merges(BANK) == []
        assert [job.kind for job in await store.jobs(OTHER)] == ["process"]


async def _store_people(store: Store) -> tuple[list[Message], list[Fact]]:
    """Two messages about Anna, one about Bob, one about Eve, and a fact of each."""
    said = await store_messages(store, "Anna came.", "Ann left.", "Bob sang.", "Eve slept.", "Bob sat.")
    bob, eve = an_entity("Bob"), an_entity("Eve")
    who = (mention_of(ANNA), mention_of(ANNA, "Ann"), mention_of(bob), mention_of(eve), mention_of(bob))
    facts = [a_fact(m.content, messages=[m.id], entities=[who[n]]) for n, m in enumerate(said)]
    batch = replace(await a_batch(store, facts), entities=[ANNA, bob, eve], pending=[m.id for m in said])
    assert await store.commit(batch)
    return said, facts


def _profile(entity: Entity, basis_fact: Fact) -> Fact:
    return a_fact(f"About {entity.name}.", network="observation", basis=[basis_fact.id], entities=[mention_of(entity)])


async def _move(store: Store, opinion: FactId, evidence: Sequence[FactId], reason: str) -> ConfidenceChange:
    step = ConfidenceChange(
        opinion=opinion, stance="reinforce", before=0.5, after=0.6, evidence=tuple(evidence), reason=reason, at=day(2)
    )
    assert await store.commit(replace(await a_batch(store), confidence=[step]))
    return step


async def _finish_all(store: Store) -> None:
    for job in await store.lease("me", 60, bank=BANK, limit=99):
        assert await store.commit(Changes(bank=BANK, finished=[Lease(job=job.id, owner="me", requests=job.requests)]))
