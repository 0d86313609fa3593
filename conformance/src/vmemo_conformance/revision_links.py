"""Links by which newer facts replace older ones or may have outdated them, and facts that were true before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vmemo.lifecycle.forget import forget
from vmemo.models import Fact, FactId, Interval, Link, RevisionKind
from vmemo.models.changes import FactClosure, ForgetTarget
from vmemo.models.search import RevisionEdge, Scope
from vmemo.models.select import FactSelect
from vmemo.ports import Store, fact_revisions
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EdgesOf,
    a_batch,
    a_fact,
    at_cosine,
    day,
    find_edges,
    matches,
    numbers_of,
    store_fact,
)
from vmemo_conformance.suite import StoreSuite, on_store

CURRENT = Scope(bank=BANK)
ALL = Scope(bank=BANK, include_expired=True)


class RevisionLinkConformance(StoreSuite):
    """The revisions of `expand`, and the scope of former facts."""

    @on_store
    async def test_revisions_are_found_from_either_end(self, store: Store) -> None:
        rome = await store_fact(store, "tulips in Rome", tokens=7)
        oslo = await store_fact(store, "tulips in Oslo", tokens=9, mentioned_at=day(3))
        await store_fact(store, "tulips in Bern")
        await _link(store, oslo, rome, "outdates", 0.5)
        new, old = await store.read(BANK, lambda reader: numbers_of(reader, [oslo.id, rome.id]))
        expected = [RevisionEdge(new, old, "outdates", 0.5, 9, 7, day(3))]
        for facts in ([rome.id], [oslo.id], [oslo.id, rome.id], [FactId("missing"), rome.id]):
            assert await _revisions(store, facts) == expected
        assert await _revisions(store, []) == []
        assert (await store.links(BANK, [oslo.id]))[0].kind == "outdates"

    @on_store
    async def test_both_ends_of_a_revision_are_in_the_scope(self, store: Store) -> None:
        rome = await store_fact(store, "tulips in Rome", valid_at=day(1), recorded_at=day(1))
        oslo = await store_fact(store, "tulips in Oslo", valid_at=day(5), recorded_at=day(5), tags=["travel"])
        await _link(store, oslo, rome, "replaces", 0.75)
        assert len(await _revisions(store, [rome.id], CURRENT)) == 1
        for scope in (
            CURRENT.replace(at_time=day(3)),
            CURRENT.replace(known_at=day(3)),
            CURRENT.replace(tags=("travel",)),
        ):
            assert await _revisions(store, [rome.id, oslo.id], scope) == []
        ends = FactClosure(fact=rome.id, invalid_at=day(5), expired_at=day(5))
        assert await store.commit(replace(await a_batch(store), closures=[ends]))
        assert await _revisions(store, [oslo.id], CURRENT) == []
        links = await store.read(BANK, lambda reader: fact_revisions(reader, ALL, [oslo.id]))
        assert [link.older for link in links] == [rome.id]

    @on_store
    async def test_the_graph_does_not_follow_revisions(self, store: Store) -> None:
        rome = await store_fact(store, "tulips in Rome")
        oslo = await store_fact(store, "tulips in Oslo")
        await _link(store, oslo, rome, "replaces", 1.0)
        query = EdgesOf(scope=CURRENT, space=EMBEDDER.name, vector=at_cosine(1.0), facts=[rome.id, oslo.id])
        assert await find_edges(store, query) == []

    @on_store
    async def test_former_facts_are_found_if_they_were_true_at_some_time_of_the_interval(self, store: Store) -> None:
        await _closed(store, "tulips rome", day(1), day(5))
        await _closed(store, "tulips bern", day(5), day(9))
        await _closed(store, "tulips never", day(5), day(5))
        await store_fact(store, "tulips faded", expired_at=day(6))
        await store_fact(store, "tulips oslo", valid_at=day(9))
        table = (
            (None, {"oslo"}),
            (Interval(), {"rome", "bern", "oslo"}),
            (Interval(end=day(5)), {"rome", "oslo"}),
            (Interval(start=day(5)), {"bern", "oslo"}),
            (Interval(start=day(2), end=day(3)), {"rome", "oslo"}),
            (Interval(start=day(4), end=day(6)), {"rome", "bern", "oslo"}),
            (Interval(start=day(20), end=day(22)), {"oslo"}),
        )
        for during, expected in table:
            found = await matches(store, "tulips", CURRENT.replace(former=during))
            facts = await store.facts(BANK, FactSelect(ids=found))
            assert {fact.text.split()[1] for fact in facts} == expected, during

    @on_store
    async def test_forgetting_a_fact_reopens_all_that_it_replaced(self, store: Store) -> None:
        rome = await _closed(store, "tulips in Rome", day(1), day(5))
        bern = await _closed(store, "tulips in Bern", day(1), day(5))
        bonn = await _closed(store, "tulips in Bonn", day(1), day(5))
        kiel = await store_fact(store, "tulips in Kiel")
        oslo = await store_fact(store, "tulips in Oslo", supersedes=rome.id)
        other = await store_fact(store, "tulips in Graz")
        for old in (rome, bern, bonn):
            await _link(store, oslo, old, "replaces", 0.97)
        await _link(store, other, bonn, "replaces", 0.96)
        await _link(store, oslo, kiel, "outdates", 0.5)
        await forget(store, BANK, ForgetTarget(messages=oslo.messages))
        left = {fact.text.split()[-1]: fact.invalid_at for fact in await store.facts(BANK, FactSelect())}
        assert left == {"Rome": None, "Bern": None, "Bonn": day(5), "Kiel": None, "Graz": None}
        assert [(link.source, link.target) for link in await store.links(BANK)] == [(other.id, bonn.id)]

    @on_store
    async def test_forgetting_a_fact_processes_the_messages_again_whose_rest_was_kept_for_it(
        self, store: Store
    ) -> None:
        whole = await _closed(store, "tulips in Rome. I like tea.", day(1), day(5))
        oslo = await store_fact(store, "tulips in Oslo", supersedes=whole.id)
        rest = a_fact("I like tea.", messages=whole.messages, supersedes=whole.id, basis=[oslo.id])
        assert await store.commit(await a_batch(store, [rest]))
        forgotten = await forget(store, BANK, ForgetTarget(messages=oslo.messages))
        assert forgotten.requeued == 1
        assert await store.facts(BANK, FactSelect()) == []


async def _closed(store: Store, text: str, start: object, end: object) -> Fact:
    return await store_fact(store, text, valid_at=start, invalid_at=end, expired_at=end)


async def _link(store: Store, newer: Fact, older: Fact, kind: RevisionKind, probability: float) -> None:
    link = Link(source=newer.id, target=older.id, kind=kind, weight=probability)
    assert await store.commit(replace(await a_batch(store), links=[link]))


async def _revisions(store: Store, facts: Sequence[FactId], scope: Scope = ALL) -> list[RevisionEdge]:
    return list(await store.read(BANK, lambda reader: reader.revisions(scope, numbers_of(reader, facts))))
