"""Arrivals: a bank comes in page by page, hidden, and gets its name in one step."""

from __future__ import annotations

from vmemo.errors import InvalidInput, NotFound
from vmemo.lifecycle.entity_merges import merge_entities
from vmemo.models import Bank, BankId
from vmemo.models.changes import RestoreRecord
from vmemo.models.search import Scope
from vmemo.ports import Store
from vmemo.testing.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    an_entity,
    hear,
    know,
    matches,
    near,
    snapshot,
    tell_story,
)
from vmemo.transfer.export_format import line_of, records
from vmemo_conformance.suite import StoreSuite, on_store, on_two_stores, refused

ELSEWHERE = Scope(bank=OTHER)


async def told(store: Store) -> list[RestoreRecord]:
    """A bank with a story, a merge and an unread message, as its export tells it."""
    story = await tell_story(store)
    await know(store, an_entity("Karoline"))
    await merge_entities(store, BANK, story.entities[0].id, an_entity("Karoline").id, "alike")
    await hear(store, "Not read yet.", document="letters")
    return [record async for record in records(store, BANK)]


async def arrived(store: Store) -> list[RestoreRecord]:
    """The same records under another name, come in three pages and not yet admitted."""
    found = await told(store)
    for start, end in ((0, 2), (2, 9), (9, len(found))):
        assert await store.receive(a_bank(OTHER), found[start:end], after=start, digest=f"to {end}")
    return found


async def lines(store: Store, bank: BankId) -> list[str]:
    """The lines of a bank's export but the first."""
    return [line_of(record) async for record in records(store, bank)]


async def visible(store: Store) -> list[str]:
    """Names of the banks that others see."""
    return [bank.id for bank in await store.banks()]


class ArrivalConformance(StoreSuite):
    """`Arrivals`."""

    @on_store
    async def test_an_admitted_bank_holds_what_came_in_its_pages(self, store: Store) -> None:
        found = await arrived(store)
        await store.admit(OTHER)
        assert await lines(store, OTHER) == list(map(line_of, found))
        one, other = await snapshot(store, BANK), await snapshot(store, OTHER)
        assert (other.messages, other.episodes, other.entities) == (one.messages, one.episodes, one.entities)
        assert await matches(store, "piano", ELSEWHERE) == await matches(store, "piano")
        vector = EMBEDDER.vector("Caroline planted tulips behind the shed.")
        assert await near(store, vector, ELSEWHERE, limit=1) == await near(store, vector, limit=1)

    @on_store
    async def test_a_bank_that_arrives_is_in_no_list_and_in_nobody_s_hands(self, store: Store) -> None:
        found = await arrived(store)
        assert await visible(store) == [BANK]
        assert await store.bank(OTHER) is None
        [come] = await store.arrivals()
        assert (come.bank, come.records, come.digest) == (OTHER, len(found), f"to {len(found)}")
        assert await store.arrival(OTHER) == come
        assert {job.bank for job in await store.lease("worker", 60, limit=9)} == {BANK}
        hidden = await store.bank(come.hidden)
        assert hidden is not None
        assert hidden.model_copy(update={"id": OTHER}) == a_bank(OTHER)

    @on_store
    async def test_what_is_unread_is_queued_with_the_name(self, store: Store) -> None:
        await arrived(store)
        await store.admit(OTHER)
        assert await visible(store) == [BANK, OTHER]
        assert await store.arrivals() == []
        assert [job.kind for job in await store.jobs(OTHER)] == ["process"]

    @on_store
    async def test_a_page_that_does_not_follow_changes_nothing(self, store: Store) -> None:
        found = await told(store)
        assert await store.receive(a_bank(OTHER), found[:2], after=0, digest="two")
        assert not await store.receive(a_bank(OTHER), found[:2], after=0, digest="others")
        assert not await store.receive(a_bank(OTHER), found[5:7], after=5, digest="seven")
        come = await store.arrival(OTHER)
        assert come is not None
        assert (come.records, come.digest) == (2, "two")
        assert await lines(store, come.hidden) == list(map(line_of, found[:2]))

    @on_store
    async def test_a_page_that_is_there_is_not_added_again(self, store: Store) -> None:
        found = await told(store)
        for _ in range(2):
            assert await store.receive(a_bank(OTHER), found[:2], after=0, digest="two")
        come = await store.arrival(OTHER)
        assert come is not None
        assert await lines(store, come.hidden) == list(map(line_of, found[:2]))

    @on_store
    async def test_a_page_that_can_not_be_stored_changes_nothing(self, store: Store) -> None:
        found = await told(store)
        assert await store.receive(a_bank(OTHER), found[:2], after=0, digest="two")
        with refused(InvalidInput):
            await store.receive(a_bank(OTHER), found[6:], after=2, digest="a gap")
        come = await store.arrival(OTHER)
        assert come is not None
        assert (come.records, come.digest) == (2, "two")
        assert await lines(store, come.hidden) == list(map(line_of, found[:2]))

    @on_store
    async def test_an_empty_bank_arrives_too(self, store: Store) -> None:
        assert await store.receive(a_bank(OTHER), [], after=0, digest="head")
        await store.admit(OTHER)
        assert await store.bank(OTHER) == a_bank(OTHER)
        assert await store.jobs(OTHER) == []

    @on_store
    async def test_a_dismissed_bank_leaves_nothing_and_can_begin_anew(self, store: Store) -> None:
        found = await told(store)
        assert await store.receive(a_bank(OTHER), found, after=0, digest="all")
        come = await store.arrival(OTHER)
        assert come is not None
        for _ in range(2):
            await store.dismiss(OTHER)
        assert (await store.arrivals(), await store.bank(come.hidden)) == ([], None)
        assert await lines(store, BANK) == list(map(line_of, found))
        assert await store.receive(a_bank(OTHER), found, after=0, digest="all")
        await store.admit(OTHER)
        assert await matches(store, "piano", ELSEWHERE) == await matches(store, "piano")

    @on_store
    async def test_a_bank_is_not_admitted_over_one_that_holds_messages(self, store: Store) -> None:
        await arrived(store)
        await store.create_bank(a_bank(OTHER))
        said = await hear(store, "I was here first.", bank=OTHER)
        with refused(InvalidInput):
            await store.admit(OTHER)
        assert await store.messages(OTHER) == said
        assert await store.arrival(OTHER) is not None

    @on_store
    async def test_a_bank_is_admitted_in_place_of_an_empty_one(self, store: Store) -> None:
        found = await arrived(store)
        await store.create_bank(Bank(id=OTHER, embedder="another", dimension=3))
        await store.admit(OTHER)
        assert await store.bank(OTHER) == a_bank(OTHER)
        assert await lines(store, OTHER) == list(map(line_of, found))

    @on_store
    async def test_a_bank_that_has_not_begun_is_not_admitted(self, store: Store) -> None:
        assert await store.arrival(OTHER) is None
        with refused(NotFound):
            await store.admit(OTHER)
        long = BankId("n" * 512)
        assert await store.receive(a_bank(long), [], after=0, digest="head")
        await store.admit(long)
        assert await visible(store) == [BANK, long]

    @on_two_stores
    async def test_one_store_goes_on_where_another_was(self, one: Store, other: Store) -> None:
        found = await told(one)
        assert await one.receive(a_bank(OTHER), found[:5], after=0, digest="five")
        come = await other.arrival(OTHER)
        assert come is not None
        assert await other.receive(a_bank(OTHER), found[come.records :], after=come.records, digest="all")
        assert not await one.receive(a_bank(OTHER), found[5:], after=5, digest="late")
        await other.admit(OTHER)
        assert await lines(one, OTHER) == list(map(line_of, found))
