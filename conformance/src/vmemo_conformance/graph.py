"""Edges: from facts along links in both directions, and to facts that share an entity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypedDict, Unpack

from vmemo.lifecycle.forget import forget
from vmemo.models import BankId, Entity, EntityId, Fact, FactId, Interval, Link, LinkKind
from vmemo.models.changes import ForgetTarget, NewFact
from vmemo.models.search import Scope, Vector
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    OTHER,
    EdgesOf,
    FoundEdge,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    at_cosine,
    day,
    find_edges,
    mention_of,
    store_entities,
    store_story,
    with_vector,
)
from vmemo_conformance.suite import StoreSuite, on_store

ALIKE = at_cosine(1.0)
OSLO = an_entity("Oslo", id="e1", type="LOCATION")


class Asked(TypedDict, total=False):
    """Options of an edge query besides its sources."""

    scope: Scope
    vector: Vector
    kinds: frozenset[LinkKind]
    fan: int
    common: int
    floor: float


class GraphConformance(StoreSuite):
    """The edges of `expand`."""

    @on_store
    async def test_links_are_followed_both_ways(self, store: Store) -> None:
        one, two, three = (a_fact(text, tokens=n) for n, text in enumerate(("one", "two", "three"), start=5))
        await _write(store, one, two, three, links=[_link(one, two, "temporal", 0.5)])
        assert await _edges(store, two, three) == [_edge(two, one, "temporal", 0.5)]
        await _write(store, links=[_link(two, three, "semantic", 1)])
        assert await _edges(store, one) == [_edge(one, two, "temporal", 0.5)]
        assert set(await _edges(store, two)) == {_edge(two, one, "temporal", 0.5), _edge(two, three, "semantic", 1.0)}
        assert len(await _edges(store, one, two, three)) == 4
        assert await _edges(store, three, three) == [_edge(three, two, "semantic", 1.0)]

    @on_store
    async def test_a_cause_is_reported_as_caused_by_from_the_other_side(self, store: Store) -> None:
        there_and_back: tuple[tuple[LinkKind, LinkKind], ...] = (
            ("causes", "caused_by"),
            ("caused_by", "causes"),
            ("temporal", "temporal"),
            ("semantic", "semantic"),
        )
        for there, back in there_and_back:
            one, two = a_fact("one"), a_fact("two")
            await _write(store, one, two, links=[_link(one, two, there)])
            assert [edge.kind for edge in await _edges(store, one)] == [there]
            assert [edge.kind for edge in await _edges(store, two)] == [back]
            assert len(await _edges(store, two, kinds=frozenset({back}))) == 1
            if there != back:
                assert await _edges(store, two, kinds=frozenset({there})) == []

    @on_store
    async def test_only_edges_of_the_requested_kinds_are_returned(self, store: Store) -> None:
        one, two = a_fact("one", entities=[mention_of(OSLO)]), a_fact("two", entities=[mention_of(OSLO)])
        kinds: tuple[LinkKind, ...] = ("temporal", "semantic", "causes", "enables", "prevents")
        await _write(store, one, two, links=[_link(one, two, kind) for kind in kinds], entities=[OSLO])
        every = {*kinds, "entity"}
        assert {edge.kind for edge in await _edges(store, one)} == every
        for wanted in ({"temporal"}, {"entity"}, {"entity", "causes"}, {"caused_by"}):
            asked = frozenset[LinkKind](kind for kind in (*kinds, "entity", "caused_by") if kind in wanted)
            assert {edge.kind for edge in await _edges(store, one, kinds=asked)} == wanted & every, wanted
        assert await find_edges(store, _query(entities=[OSLO.id], kinds=frozenset({"temporal"}))) == []

    @on_store
    async def test_facts_of_one_entity_are_connected_through_it(self, store: Store) -> None:
        one, two, other = (
            a_fact(text, tokens=5 + n, entities=[mention_of(entity)])
            for n, (text, entity) in enumerate((("one", OSLO), ("two", OSLO), ("other", an_entity("Bern"))))
        )
        await _write(store, one, two, other, entities=[OSLO, an_entity("Bern")])
        [there], [back] = await _edges(store, one), await _edges(store, two)
        assert there == _edge(one, two, "entity", there.weight, "Oslo")
        assert back == _edge(two, one, "entity", there.weight, "Oslo")
        assert 0 < there.weight <= 1
        assert await _edges(store, other) == []

    @on_store
    async def test_an_entity_itself_leads_to_its_facts(self, store: Store) -> None:
        one, two = (a_fact(text, entities=[mention_of(OSLO)]) for text in ("one", "two"))
        await _write(store, one, two, a_fact("other"), entities=[OSLO, an_entity("Bern")])
        found = await find_edges(store, _query(entities=[OSLO.id, EntityId("bern")]))
        assert {(e.source, e.target, e.kind, e.via) for e in found} == {
            (OSLO.id, fact.id, "entity", "Oslo") for fact in (one, two)
        }

    @on_store
    async def test_an_entity_edge_weighs_less_the_more_facts_share_it(self, store: Store) -> None:
        weights: list[float] = []
        for count in (2, 3, 8, 40):
            entity = an_entity(f"Shared by {count}")
            facts = [a_fact(f"{count} {n}", entities=[mention_of(entity)]) for n in range(count)]
            await _write(store, *facts, entities=[entity])
            found = {edge.weight for edge in await _edges(store, facts[0], fan=50)}
            assert len(found) == 1
            weights += found
        assert all(more < fewer for fewer, more in pairwise(weights))
        assert weights[-1] > 0

    @on_store
    async def test_a_common_entity_weighs_no_less_than_one_with_the_common_number_of_facts(self, store: Store) -> None:
        facts = [a_fact(f"{n}", entities=[mention_of(OSLO)]) for n in range(120)]
        await _write(store, *facts, entities=[OSLO])
        found = await find_edges(store, _query(entities=[OSLO.id], common=16))
        assert [round(edge.weight, 6) for edge in found] == [0.25] * len(found)
        assert len(found) == 8

    @on_store
    async def test_edges_to_facts_below_the_floor_are_left_out(self, store: Store) -> None:
        start, near, far = (a_fact(text, entities=[mention_of(OSLO)]) for text in ("start", "near", "far"))
        items = [with_vector(start, ALIKE), with_vector(near, at_cosine(0.6)), with_vector(far, at_cosine(0.3))]
        links = [_link(start, near, "temporal"), _link(start, far, "temporal")]
        await _write(store, *items, links=links, entities=[OSLO])
        assert {edge.target for edge in await _edges(store, start)} == {near.id, far.id}
        found = await _edges(store, start, floor=0.4)
        assert {(edge.target, edge.kind) for edge in found} == {(near.id, "temporal"), (near.id, "entity")}

    @on_store
    async def test_an_entity_with_many_facts_leads_to_the_most_similar_ones(self, store: Store) -> None:
        cosines = (0.1, 0.9, -0.5, 0.7, 0.3, 0.8)
        facts = {c: a_fact(f"cosine {c}", entities=[mention_of(OSLO)]) for c in cosines}
        start = a_fact("start", entities=[mention_of(OSLO)])
        items = [with_vector(fact, at_cosine(c)) for c, fact in facts.items()]
        await _write(store, *items, with_vector(start, at_cosine(-1.0)), entities=[OSLO])
        for vector, nearest in ((ALIKE, (0.9, 0.8, 0.7)), (at_cosine(-0.5), (-0.5, 0.1, 0.3))):
            expected = {facts[c].id for c in nearest}
            led = await _edges(store, start, fan=3, vector=vector)
            named = await find_edges(store, replace(_query(entities=[OSLO.id], fan=3), vector=vector))
            assert {edge.target for edge in led} == expected
            assert {edge.target for edge in named} - {start.id} <= expected
        assert len(await _edges(store, start, fan=6)) == 6

    @on_store
    async def test_the_fan_counts_facts_in_scope(self, store: Store) -> None:
        facts = [a_fact(f"{n}", entities=[mention_of(OSLO)], tags=["rare"] if n == 17 else []) for n in range(30)]
        items = [with_vector(fact, at_cosine(1 - n / 50)) for n, fact in enumerate(facts)]
        await _write(store, *items, entities=[OSLO])
        scope = Scope(bank=BANK, tags=("rare",))
        assert [edge.target for edge in await _edges(store, facts[0], scope=scope, fan=2)] == [facts[17].id]

    @on_store
    async def test_reached_facts_respect_the_scope(self, store: Store) -> None:
        plain = a_fact("plain")
        cases = {
            "closed": {"invalid_at": day(5), "expired_at": day(6)},
            "opinion": {"network": "opinion"},
            "tagged": {"tags": ["a"]},
            "marked": {"metadata": {"n": 1}},
            "happened": {"occurred_start": day(10), "occurred_end": day(12)},
        }
        facts = {name: a_fact(name, entities=[mention_of(OSLO)], **fields) for name, fields in cases.items()}
        links = [_link(plain, fact, "semantic") for fact in facts.values()]
        bern = an_entity("Bern")
        source = a_fact("source", entities=[mention_of(OSLO), mention_of(bern)])
        await _write(store, plain, source, *facts.values(), links=links, entities=[OSLO, bern])
        current = facts.keys() - {"closed"}
        table: tuple[tuple[Scope, set[str]], ...] = (
            (EVERYTHING, current),
            (Scope(bank=BANK, include_expired=True), {*facts}),
            (Scope(bank=BANK, at_time=day(4)), {*facts}),
            (Scope(bank=BANK, known_at=day(7)), current),
            (Scope(bank=BANK, networks=("opinion",)), {"opinion"}),
            (Scope(bank=BANK, tags=("a",)), {"tagged"}),
            (Scope(bank=BANK, metadata={"n": 1}), {"marked"}),
            (Scope(bank=BANK, entities=("Oslo",)), current),
            (Scope(bank=BANK, entities=("Bern",)), set[str]()),
            (Scope(bank=BANK, occurred=Interval(start=day(11), end=day(20))), {"happened"}),
        )
        names = {fact.id: name for name, fact in facts.items()}
        for scope, expected in table:
            by_link = {names[edge.target] for edge in await _edges(store, plain, scope=scope)}
            by_entity = {names[edge.target] for edge in await _edges(store, source, scope=scope)}
            found = await find_edges(store, _query(entities=[OSLO.id], scope=scope))
            by_name = {names[edge.target] for edge in found if edge.target != source.id}
            assert by_link == by_entity == by_name == expected, scope
        assert [edge.target for edge in await _edges(store, facts["closed"], kinds=frozenset({"semantic"}))] == [
            plain.id
        ]

    @on_store
    async def test_edges_stay_in_their_bank(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        mine, theirs = await store_story(store), await store_story(store, OTHER)
        ids, entities = [fact.id for fact in theirs.facts], [entity.id for entity in theirs.entities]
        assert await find_edges(store, _query(facts=ids)) == []
        own = {fact.id for fact in mine.facts}
        assert {edge.target for edge in await find_edges(store, _query(facts=ids, entities=entities))} <= own
        leads = await find_edges(store, _query(facts=list(own), entities=entities))
        assert leads
        assert {edge.target for edge in leads} <= own
        await store_entities(store, an_entity("Bern"), bank=OTHER)
        assert await find_edges(store, _query(entities=[EntityId("bern")])) == []

    @on_store
    async def test_a_fact_never_leads_to_itself(self, store: Store) -> None:
        bern = an_entity("Bern")
        fact = a_fact("fact", entities=[mention_of(OSLO), mention_of(bern)])
        other = a_fact("other", entities=[mention_of(OSLO), mention_of(bern)])
        await _write(store, fact, other, links=[_link(fact, fact, "semantic")], entities=[OSLO, bern])
        found = await _edges(store, fact)
        assert {(edge.target, edge.via) for edge in found} == {(other.id, "Oslo"), (other.id, "Bern")}

    @on_store
    async def test_missing_facts_and_entities_have_no_edges(self, store: Store) -> None:
        assert await find_edges(store, _query()) == []
        story = await store_story(store)
        assert await find_edges(store, _query()) == []
        assert await find_edges(store, _query(facts=[FactId("missing")], entities=[EntityId("missing")])) == []
        known = await find_edges(store, _query(facts=[story.facts[1].id]))
        assert sorted(await find_edges(store, _query(facts=[FactId("missing"), story.facts[1].id]))) == sorted(known)

    @on_store
    async def test_edges_follow_what_is_written_renamed_and_forgotten(self, store: Store) -> None:
        story = await store_story(store)
        moved, unpacked, planted, pruned, _ = story.facts
        assert {edge.target for edge in await _edges(store, unpacked)} == {moved.id, planted.id}
        await store_entities(store, an_entity("Carol", id="caroline"))
        later = a_fact("later", entities=[mention_of(story.entities[0])])
        await _write(store, later, links=[_link(later, pruned, "semantic")])
        assert {(e.target, e.via) for e in await _edges(store, unpacked, kinds=frozenset({"entity"}))} == {
            (fact.id, "Carol") for fact in (moved, planted, later)
        }
        assert {edge.target for edge in await _edges(store, pruned)} == {planted.id, later.id}
        await forget(store, BANK, ForgetTarget(messages=planted.messages))
        assert await _edges(store, planted) == []
        found = await find_edges(
            store, _query(facts=[f.id for f in (*story.facts, later)], entities=[story.entities[0].id])
        )
        assert planted.id not in {edge.target for edge in found}


async def _write(
    store: Store,
    *facts: Fact | NewFact,
    links: Sequence[Link] = (),
    entities: Sequence[Entity] = (),
    bank: BankId = BANK,
) -> None:
    batch = await a_batch(store, facts, bank=bank)
    assert await store.commit(replace(batch, links=links, entities=entities))


def _link(source: Fact, target: Fact, kind: LinkKind, weight: float = 1.0) -> Link:
    return Link(source=source.id, target=target.id, kind=kind, weight=weight)


def _edge(source: Fact, target: Fact, kind: LinkKind, weight: float, via: str = "") -> FoundEdge:
    return FoundEdge(source=source.id, target=target.id, kind=kind, weight=weight, tokens=target.tokens, via=via)


def _query(facts: Sequence[FactId] = (), entities: Sequence[EntityId] = (), **asked: Unpack[Asked]) -> EdgesOf:
    return replace(
        EdgesOf(scope=EVERYTHING, space=EMBEDDER.name, vector=ALIKE, facts=facts, entities=entities), **asked
    )


async def _edges(store: Store, *facts: Fact, **asked: Unpack[Asked]) -> list[FoundEdge]:
    """Edges of facts; a store may keep their weights in single precision."""
    found = await find_edges(store, _query([fact.id for fact in facts], **asked))
    return [edge._replace(weight=round(edge.weight, 6)) for edge in found]
