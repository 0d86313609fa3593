"""Entity merges: merging two entities or a name, and undoing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vmemo.errors import InvalidInput, NotFound
from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.lifecycle.forget import forget
from vmemo.models import Entity, EntityId, Fact, Merge, new_id
from vmemo.models.changes import ForgetTarget
from vmemo.models.select import EntitySelect, FactSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    OTHER,
    EdgesOf,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    day,
    find_edges,
    mention_of,
    named_entities,
    snapshot,
    store_entities,
    store_fact,
)
from vmemo_conformance.suite import StoreSuite, on_store, on_two_stores, refused

ROBERT = an_entity("Robert", aliases=["Rob"], first_seen=day(3), last_seen=day(5))
BOB = an_entity("Bob", type="PERSON", aliases=["ROB", "Bobby"], first_seen=day(2), last_seen=day(4))
EVE = an_entity("Eve", type="PERSON")


class EntityMergeConformance(StoreSuite):
    """`merges`, and the rules that merge entities and undo it."""

    @on_store
    async def test_merged_entities_become_one_with_all_names(self, store: Store) -> None:
        facts = await _store_people(store)
        merge = await merge_entities(store, BANK, ROBERT.id, BOB.id, "the same man")
        assert (merge.entity, merge.absorbed, merge.names) == (ROBERT.id, BOB.id, ("Bob", "ROB", "Bobby"))
        assert (merge.reason, merge.undone_at) == ("the same man", None)
        assert await store.merges(BANK) == [merge]
        [robert, eve] = await store.entities(BANK, EntitySelect())
        assert robert == ROBERT.model_copy(
            update={"type": "PERSON", "aliases": ("Rob", "Bob", "Bobby"), "first_seen": day(2), "mentions": 4}
        )
        assert eve.id == EVE.id
        said = [
            {m.name_in_text for m in fact.entities if m.id == ROBERT.id}
            for fact in await store.facts(BANK, FactSelect())
        ]
        assert said == [{""}, {"Bob"}, {"Bobby"}, {""}, set()]
        for text in ("Robert", "bob", "Rob and Bobby"):
            assert [mention.id for mention in await named_entities(store, BANK, text)] == [ROBERT.id], text
        assert {fact.id for fact in await store.facts(BANK, FactSelect.about(ROBERT.id, limit=100))} == {
            fact.id for fact in facts[:4]
        }
        assert await store.facts(BANK, FactSelect.about(BOB.id, limit=100)) == []

    @on_store
    async def test_an_undone_merge_restores_everything_and_separates_the_names(self, store: Store) -> None:
        await _store_people(store)
        before = await snapshot(store)
        merge = await merge_entities(store, BANK, ROBERT.id, BOB.id, "the same man")
        assert await undo_merge(store, BANK, merge.id) == BOB.id
        after = await snapshot(store)
        assert _without_unrelated_names(after.entities) == _by_id(before.entities)
        assert after.facts == before.facts
        assert {e.id: e.not_aliases for e in after.entities} == {
            ROBERT.id: ("Bob", "Bobby"),
            BOB.id: ("Robert",),
            EVE.id: (),
        }
        [undone] = await store.merges(BANK)
        assert undone == merge.model_copy(update={"undone_at": undone.undone_at})
        assert undone.undone_at is not None
        assert [mention.id for mention in await named_entities(store, BANK, "Bob")] == [BOB.id]
        assert {mention.id for mention in await named_entities(store, BANK, "Rob")} == {ROBERT.id, BOB.id}

    @on_store
    async def test_edges_follow_a_merge_and_its_undoing(self, store: Store) -> None:
        facts = await _store_people(store)
        mine = {facts[0].id, facts[3].id}
        assert await _reached(store, ROBERT.id) == mine
        merge = await merge_entities(store, BANK, ROBERT.id, BOB.id, "")
        assert await _reached(store, ROBERT.id) == {fact.id for fact in facts[:4]}
        assert await _reached(store, BOB.id) == set()
        await undo_merge(store, BANK, merge.id)
        assert await _reached(store, ROBERT.id) == mine
        assert await _reached(store, BOB.id) == {facts[1].id, facts[2].id, facts[3].id}

    @on_two_stores
    async def test_a_merge_is_visible_to_another_store(self, one: Store, other: Store) -> None:
        facts = await _store_people(one)
        assert len(await _reached(other, ROBERT.id)) == 2
        merge = await merge_entities(one, BANK, ROBERT.id, BOB.id, "")
        assert await _reached(other, ROBERT.id) == {fact.id for fact in facts[:4]}
        await undo_merge(other, BANK, merge.id)
        assert len(await _reached(one, ROBERT.id)) == 2

    @on_store
    async def test_a_merge_outdates_batches_that_were_begun_before(self, store: Store) -> None:
        await _store_people(store)
        begun = await a_batch(store, [a_fact("tulips")])
        merge = await merge_entities(store, BANK, ROBERT.id, BOB.id, "")
        assert await store.commit(begun) is False
        begun = await a_batch(store, [a_fact("tulips")])
        await undo_merge(store, BANK, merge.id)
        assert await store.commit(begun) is False

    @on_store
    async def test_facts_added_after_a_merge_follow_the_name_they_use(self, store: Store) -> None:
        await _store_people(store)
        merge = await merge_entities(store, BANK, ROBERT.id, BOB.id, "")
        kept = (await store.entities(BANK, EntitySelect(ids=[ROBERT.id])))[0]
        new = [
            a_fact("Bobby sang.", entities=[mention_of(kept, "bobby")], mentioned_at=day(20)),
            a_fact("Rob sang.", entities=[mention_of(kept, "Rob")]),
            a_fact("Robert sang.", entities=[mention_of(kept)]),
        ]
        assert await store.commit(await a_batch(store, new))
        await undo_merge(store, BANK, merge.id)
        found = await store.facts(BANK, FactSelect(ids=[fact.id for fact in new]))
        assert [[m.id for m in fact.entities] for fact in found] == [[BOB.id], [ROBERT.id], [ROBERT.id]]
        [bob] = await store.entities(BANK, EntitySelect(ids=[BOB.id]))
        assert (bob.first_seen, bob.last_seen, bob.mentions) == (day(2), day(20), 4)

    @on_store
    async def test_merges_into_one_entity_are_undone_in_any_order(self, store: Store) -> None:
        third = an_entity("Bobby", id="third", aliases=["Bob"])
        facts = await _store_people(store)
        both = a_fact("Bob met Bobby.", entities=[mention_of(BOB), mention_of(third)])
        alone = a_fact("Bobby left.", entities=[mention_of(third)])
        assert await store.commit(replace(await a_batch(store, [both, alone]), entities=[third]))
        before = await snapshot(store)
        for order in ((0, 1), (1, 0)):
            made = [await merge_entities(store, BANK, ROBERT.id, id, "") for id in (BOB.id, third.id)]
            assert await undo_merge(store, BANK, made[order[0]].id) == (BOB.id, third.id)[order[0]]
            [robert] = await store.entities(BANK, EntitySelect(ids=[ROBERT.id]))
            assert {name for name in ("Bob", "Bobby") if name in robert.aliases} == {"Bob", "Bobby"}
            assert both.id in await _reached(store, ROBERT.id)
            assert facts[0].id in await _reached(store, ROBERT.id)
            await undo_merge(store, BANK, made[order[1]].id)
            after = await snapshot(store)
            assert after.facts == before.facts
            names = {e.id: (e.name, e.aliases, e.mentions) for e in after.entities}
            assert names == {e.id: (e.name, e.aliases, e.mentions) for e in before.entities}

    @on_store
    async def test_a_chained_merge_is_undone_in_order(self, store: Store) -> None:
        await _store_people(store)
        before = await snapshot(store)
        inner = await merge_entities(store, BANK, ROBERT.id, BOB.id, "inner")
        outer = await merge_entities(store, BANK, EVE.id, ROBERT.id, "outer")
        assert [merge.entity for merge in await store.merges(BANK)] == [ROBERT.id, EVE.id]
        between = await snapshot(store)
        assert outer.id in await _refusal(store, inner.id)
        assert await snapshot(store) == between
        assert await undo_merge(store, BANK, outer.id) == ROBERT.id
        assert await undo_merge(store, BANK, inner.id) == BOB.id
        after = await snapshot(store)
        assert _without_unrelated_names(after.entities) == _by_id(before.entities)
        assert after.facts == before.facts

    @on_store
    async def test_separated_entities_can_be_merged_again(self, store: Store) -> None:
        await _store_people(store)
        first = await merge_entities(store, BANK, ROBERT.id, BOB.id, "")
        await undo_merge(store, BANK, first.id)
        again = await merge_entities(store, BANK, BOB.id, ROBERT.id, "after all")
        [bob] = await store.entities(BANK, EntitySelect(ids=[BOB.id]))
        assert (bob.aliases, bob.not_aliases) == (("ROB", "Bobby", "Robert"), ())
        assert [merge.id for merge in await store.merges(BANK)] == [first.id, again.id]
        await undo_merge(store, BANK, again.id)
        assert {e.name for e in await store.entities(BANK, EntitySelect())} == {"Robert", "Bob", "Eve"}

    @on_store
    async def test_separating_an_alias_moves_the_facts_that_use_it(self, store: Store) -> None:
        robert = ROBERT.model_copy(update={"aliases": ("Rob", "Bob", "Bobby")})
        facts = [
            a_fact("Robert came.", entities=[mention_of(robert)]),
            a_fact("Bob left.", entities=[mention_of(robert, "BOB")], mentioned_at=day(7)),
            a_fact("Bobby sang.", entities=[mention_of(robert, "Bobby")], mentioned_at=day(9)),
            a_fact("Rob sat.", entities=[mention_of(robert, "Rob")]),
        ]
        merge = _adopted(robert, "Bob", "Bobby")
        assert await store.commit(replace(await a_batch(store, facts), entities=[robert], merges=[merge]))
        assert [made.public() for made in await store.merges(BANK)] == [merge]
        parted = await undo_merge(store, BANK, merge.id)
        assert parted not in {robert.id, merge.id}
        [kept, bob] = await store.entities(BANK, EntitySelect())
        assert kept == ROBERT.model_copy(update={"not_aliases": ("Bob", "Bobby"), "mentions": 2})
        assert (bob.id, bob.name, bob.aliases, bob.mentions) == (parted, "Bob", ("Bobby",), 2)
        assert bob.not_aliases == ("Robert", "Rob")
        assert (bob.first_seen, bob.last_seen) == (day(7), day(9))
        found = [[(m.id, m.name_in_text) for m in fact.entities] for fact in await store.facts(BANK, FactSelect())]
        assert found == [[(robert.id, "")], [(parted, "BOB")], [(parted, "Bobby")], [(robert.id, "Rob")]]
        assert [m.id for m in await named_entities(store, BANK, "Bob")] == [parted]

    @on_store
    async def test_an_unused_alias_can_be_separated(self, store: Store) -> None:
        robert = ROBERT.model_copy(update={"aliases": ("Bob",)})
        merge = _adopted(robert, "Bob")
        assert await store.commit(replace(await a_batch(store), entities=[robert], merges=[merge]))
        parted = await undo_merge(store, BANK, merge.id)
        [kept, bob] = await store.entities(BANK, EntitySelect())
        assert (kept.aliases, kept.not_aliases) == ((), ("Bob",))
        assert (bob.id, bob.first_seen, bob.last_seen, bob.not_aliases) == (parted, day(3), day(5), ("Robert",))

    @on_store
    async def test_the_only_name_of_an_entity_cannot_be_separated(self, store: Store) -> None:
        merge = _adopted(BOB, "Bob", "Bobby", "ROB")
        assert await store.commit(replace(await a_batch(store), entities=[BOB], merges=[merge]))
        before = await snapshot(store)
        with refused(InvalidInput):
            await undo_merge(store, BANK, merge.id)
        assert await snapshot(store) == before

    @on_store
    async def test_invalid_merges_and_undos_are_refused(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await _store_people(store)
        merge = await merge_entities(store, BANK, ROBERT.id, BOB.id, "")
        await undo_merge(store, BANK, merge.id)
        before, revision = await snapshot(store), await store.revision(BANK)
        missing = EntityId("missing")
        for keep, absorb in ((ROBERT.id, missing), (missing, ROBERT.id)):
            with refused(NotFound):
                await merge_entities(store, BANK, keep, absorb, "")
        with refused(InvalidInput):
            await merge_entities(store, BANK, ROBERT.id, ROBERT.id, "")
        with refused(InvalidInput):
            await undo_merge(store, BANK, merge.id)
        with refused(NotFound):
            await undo_merge(store, BANK, "missing")
        with refused(NotFound):
            await merge_entities(store, OTHER, ROBERT.id, BOB.id, "")
        with refused(NotFound):
            await undo_merge(store, OTHER, merge.id)
        for wrong in (_adopted(an_entity("Nobody"), "X"), _adopted(ROBERT)):
            with refused(InvalidInput):
                await store.commit(replace(await a_batch(store), merges=[wrong]))
        assert await snapshot(store) == before
        assert await store.revision(BANK) == revision
        assert await store.merges(OTHER) == []

    @on_store
    async def test_undoing_a_merge_does_not_overwrite_an_entity_with_the_same_id(self, store: Store) -> None:
        await _store_people(store)
        merge = await merge_entities(store, BANK, ROBERT.id, BOB.id, "")
        await store_entities(store, BOB)
        before = await snapshot(store)
        assert BOB.id in await _refusal(store, merge.id)
        assert await snapshot(store) == before

    @on_store
    async def test_names_that_are_not_aliases_are_stored(self, store: Store) -> None:
        robert = ROBERT.model_copy(update={"not_aliases": ("Bob", "Ünal")})
        await store_entities(store, robert)
        assert await store.entities(BANK, EntitySelect()) == [robert]

    @on_store
    async def test_undoing_a_merge_does_not_restore_forgotten_facts(self, store: Store) -> None:
        facts = [
            await store_fact(store, "Robert came."),
            *[await store_fact(store, text) for text in ("Bob left.", "Bob sang.")],
        ]
        said = (mention_of(ROBERT), mention_of(BOB), mention_of(BOB))
        new = [
            a_fact(fact.text, messages=fact.messages, entities=[mention])
            for fact, mention in zip(facts, said, strict=True)
        ]
        assert await store.commit(replace(await a_batch(store, new), entities=[ROBERT, BOB]))
        merge = await merge_entities(store, BANK, ROBERT.id, BOB.id, "")
        await forget(store, BANK, ForgetTarget(messages=facts[1].messages))
        await undo_merge(store, BANK, merge.id)
        assert [fact.id for fact in await store.facts(BANK, FactSelect.about(BOB.id, limit=100))] == [new[2].id]
        assert [fact.id for fact in await store.facts(BANK, FactSelect.about(ROBERT.id, limit=100))] == [new[0].id]


async def _store_people(store: Store) -> list[Fact]:
    """Facts about Robert, about Bob twice, about both, and about Eve."""
    facts = [
        a_fact("Robert came.", entities=[mention_of(ROBERT)]),
        a_fact("Bob left.", entities=[mention_of(BOB)]),
        a_fact("Bobby sang.", entities=[mention_of(BOB, "Bobby")]),
        a_fact("Robert met Bob.", entities=[mention_of(ROBERT), mention_of(BOB)]),
        a_fact("Eve slept.", entities=[mention_of(EVE)]),
    ]
    assert await store.commit(replace(await a_batch(store, facts), entities=[ROBERT, BOB, EVE]))
    return facts


async def _refusal(store: Store, merge: str) -> str:
    try:
        await undo_merge(store, BANK, merge)
    except InvalidInput as error:
        return str(error)
    raise AssertionError("the merge was undone")


def _adopted(entity: Entity, *names: str) -> Merge:
    return Merge(id=new_id(), entity=entity.id, names=names, reason="it sounds alike", at=day(9))


def _by_id(entities: Sequence[Entity]) -> list[Entity]:
    return sorted(entities, key=lambda entity: entity.id)


def _without_unrelated_names(entities: Sequence[Entity]) -> list[Entity]:
    return _by_id([entity.model_copy(update={"not_aliases": ()}) for entity in entities])


async def _reached(store: Store, entity: EntityId) -> set[str]:
    query = EdgesOf(scope=EVERYTHING, space=EMBEDDER.name, vector=EMBEDDER.vector("x"), entities=[entity])
    return {edge.target for edge in await find_edges(store, query)}
