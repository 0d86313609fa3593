"""Hidden banks: filled page by page, in no list, and visible from the commit that renames them."""

from __future__ import annotations

from dataclasses import replace

from vmemo.errors import InvalidInput, NotFound, StoreBusy
from vmemo.lifecycle.entity_merges import merge_entities
from vmemo.models import Bank, BankId
from vmemo.models.changes import Changes, Rename, RestoreRecord
from vmemo.models.search import Scope
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import HIDDEN, Store
from vmemo.transfer.files import line_of, records
from vmemo.transfer.incoming import IncomingBank, activate, begin, find_incoming, hidden_name, incoming_banks, receive
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    a_message,
    an_entity,
    matches,
    near,
    snapshot,
    store_entities,
    store_messages,
    store_story,
)
from vmemo_conformance.suite import StoreSuite, on_store, on_two_stores, refused

SOURCE_STORE = Scope(bank=OTHER)


async def exported_story(store: Store) -> list[RestoreRecord]:
    """A bank with a story, a merge and a pending message, as exported."""
    story = await store_story(store)
    await store_entities(store, an_entity("Karoline"))
    await merge_entities(store, BANK, story.entities[0].id, an_entity("Karoline").id, "alike")
    await store_messages(store, "Not read yet.", document="letters")
    return [record async for record in records(store, BANK)]


async def load_story(store: Store) -> list[RestoreRecord]:
    """The same records in a hidden bank, loaded in three pages and not yet renamed."""
    found = await exported_story(store)
    incoming = await begin(store, a_bank(OTHER), digest="")
    for start, end in ((0, 2), (2, 9), (9, len(found))):
        incoming = await receive(store, incoming, found[start:end], digest=f"to {end}")
    return found


async def activate_hidden(store: Store, bank: BankId = OTHER) -> None:
    """Activate the hidden bank under its name."""
    incoming = await find_incoming(store, bank)
    await activate(store, incoming or IncomingBank(bank=bank, hidden=hidden_name(bank), records=0, digest=""))


async def lines(store: Store, bank: BankId) -> list[str]:
    """The lines of a bank's export but the first."""
    return [line_of(record) async for record in records(store, bank)]


async def visible(store: Store) -> list[str]:
    """Return the names of the visible banks."""
    return [bank.id for bank in await store.banks()]


class IncomingBankConformance(StoreSuite):
    """`hidden_banks`, `drop_bank`, and the notes and names of hidden banks."""

    @on_store
    async def test_an_activated_bank_contains_its_pages(self, store: Store) -> None:
        found = await load_story(store)
        await activate_hidden(store)
        assert await lines(store, OTHER) == list(map(line_of, found))
        one, other = await snapshot(store, BANK), await snapshot(store, OTHER)
        assert (other.messages, other.episodes, other.entities) == (one.messages, one.episodes, one.entities)
        assert await matches(store, "piano", SOURCE_STORE) == await matches(store, "piano")
        vector = EMBEDDER.vector("Caroline planted tulips behind the shed.")
        assert await near(store, vector, SOURCE_STORE, limit=1) == await near(store, vector, limit=1)

    @on_store
    async def test_an_incoming_bank_is_hidden_and_its_jobs_are_not_leased(self, store: Store) -> None:
        found = await load_story(store)
        assert await visible(store) == [BANK]
        assert await store.bank(OTHER) is None
        [come] = await incoming_banks(store)
        assert (come.bank, come.records, come.digest) == (OTHER, len(found), f"to {len(found)}")
        assert await find_incoming(store, OTHER) == come
        assert {job.bank for job in await store.lease("worker", 60, limit=9)} == {BANK}
        hidden = await store.bank(come.hidden)
        assert hidden is not None
        assert hidden.model_copy(update={"id": OTHER}) == a_bank(OTHER)

    @on_store
    async def test_activation_queues_pending_messages(self, store: Store) -> None:
        await load_story(store)
        await activate_hidden(store)
        assert await visible(store) == [BANK, OTHER]
        assert await incoming_banks(store) == []
        assert [job.kind for job in await store.jobs(OTHER)] == ["process"]

    @on_store
    async def test_a_page_out_of_order_changes_nothing(self, store: Store) -> None:
        found = await exported_story(store)
        begun = await begin(store, a_bank(OTHER), digest="")
        two = await receive(store, begun, found[:2], digest="two")
        with refused(StoreBusy):
            await receive(store, begun, found[:2], digest="others")
        with refused(StoreBusy):
            await receive(store, replace(two, records=5), found[5:7], digest="seven")
        assert await find_incoming(store, OTHER) == two
        assert await lines(store, two.hidden) == list(map(line_of, found[:2]))

    @on_store
    async def test_a_stored_page_is_not_added_again(self, store: Store) -> None:
        found = await exported_story(store)
        begun = await begin(store, a_bank(OTHER), digest="")
        for _ in range(2):
            two = await receive(store, begun, found[:2], digest="two")
            assert await lines(store, two.hidden) == list(map(line_of, found[:2]))
            assert await begin(store, a_bank(OTHER), digest="") == two

    @on_store
    async def test_an_invalid_page_changes_nothing(self, store: Store) -> None:
        found = await exported_story(store)
        two = await receive(store, await begin(store, a_bank(OTHER), digest=""), found[:2], digest="two")
        with refused(InvalidInput):
            await receive(store, two, found[6:], digest="a gap")
        assert await find_incoming(store, OTHER) == two
        assert await lines(store, two.hidden) == list(map(line_of, found[:2]))

    @on_store
    async def test_an_empty_bank_can_be_received(self, store: Store) -> None:
        await begin(store, a_bank(OTHER), digest="head")
        await activate_hidden(store)
        assert await store.bank(OTHER) == a_bank(OTHER)
        assert await store.jobs(OTHER) == []

    @on_store
    async def test_a_discarded_bank_leaves_nothing_and_can_start_again(self, store: Store) -> None:
        found = await exported_story(store)
        await receive(store, await begin(store, a_bank(OTHER), digest=""), found, digest="all")
        come = await find_incoming(store, OTHER)
        assert come is not None
        for _ in range(2):
            await store.drop_bank(hidden_name(OTHER))
        assert (await incoming_banks(store), await store.bank(come.hidden)) == ([], None)
        assert await lines(store, BANK) == list(map(line_of, found))
        await receive(store, await begin(store, a_bank(OTHER), digest=""), found, digest="all")
        await activate_hidden(store)
        assert await matches(store, "piano", SOURCE_STORE) == await matches(store, "piano")

    @on_store
    async def test_activation_over_a_bank_with_messages_is_refused(self, store: Store) -> None:
        await load_story(store)
        await store.create_bank(a_bank(OTHER))
        said = await store_messages(store, "I was here first.", bank=OTHER)
        with refused(InvalidInput):
            await activate_hidden(store)
        assert await store.messages(OTHER, MessageSelect()) == said
        assert await find_incoming(store, OTHER) is not None

    @on_store
    async def test_activation_replaces_an_empty_bank(self, store: Store) -> None:
        found = await load_story(store)
        await store.create_bank(Bank(id=OTHER, embedder="another", dimension=3))
        await activate_hidden(store)
        assert await store.bank(OTHER) == a_bank(OTHER)
        assert await lines(store, OTHER) == list(map(line_of, found))

    @on_store
    async def test_a_bank_without_pages_is_not_activated(self, store: Store) -> None:
        assert await find_incoming(store, OTHER) is None
        with refused(NotFound):
            await activate_hidden(store)
        long = BankId("n" * 512)
        await begin(store, a_bank(long), digest="head")
        await activate_hidden(store, long)
        assert await visible(store) == [BANK, long]

    @on_store
    async def test_a_bank_that_another_import_began_anew_is_not_activated(self, store: Store) -> None:
        page = [a_message("tulips")]
        first = await receive(store, await begin(store, a_bank(OTHER), digest=""), page, digest="first")
        await store.drop_bank(first.hidden)
        second = await receive(store, await begin(store, a_bank(OTHER), digest=""), page, digest="second")
        with refused(StoreBusy):
            await activate(store, first)
        assert await visible(store) == [BANK]
        await activate(store, second)
        assert await visible(store) == [BANK, OTHER]

    @on_two_stores
    async def test_another_store_resumes_an_incoming_bank(self, one: Store, other: Store) -> None:
        found = await exported_story(one)
        five = await receive(one, await begin(one, a_bank(OTHER), digest=""), found[:5], digest="five")
        assert await find_incoming(other, OTHER) == five
        await receive(other, five, found[5:], digest="all")
        with refused(StoreBusy):
            await receive(one, five, found[5:], digest="late")
        await activate_hidden(other)
        assert await lines(one, OTHER) == list(map(line_of, found))

    @on_store
    async def test_replacing_a_bank_requires_its_expected_revision_and_messages(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        story = await store_story(store, OTHER)
        hidden = BankId(f"{HIDDEN}copy")
        await store.create_bank(a_bank(hidden), replaces=OTHER, note="engine")
        [found] = await store.hidden_banks()
        assert (found.bank.id, found.replaces, found.note) == (hidden, OTHER, "engine")
        revision = await store.revision(OTHER)
        switch = Changes(bank=hidden, messages=story.messages[:3], rename=Rename(to=OTHER, revision=revision))
        before = await snapshot(store, OTHER)
        assert not await store.commit(switch), "it lacks a message"
        assert not await store.commit(
            replace(
                switch,
                messages=story.messages,
                rename=Rename(to=OTHER, revision=revision._replace(number=revision.number - 1)),
            )
        )
        assert not await store.commit(replace(switch, rename=Rename(to=BankId("nobody"), revision=revision)))
        assert await snapshot(store, OTHER) == before
        assert await store.messages(hidden, MessageSelect()) == []
        assert await store.commit(replace(switch, messages=story.messages))
        assert [message.id for message in await store.messages(OTHER, MessageSelect())] == [
            message.id for message in story.messages
        ]
        assert (await store.facts(OTHER, FactSelect()), await store.hidden_banks()) == ([], [])

    @on_store
    async def test_dropping_a_bank_drops_hidden_banks_derived_from_it(self, store: Store) -> None:
        await store_story(store)
        await store.create_bank(a_bank(f"{HIDDEN}copy"), replaces=BANK)
        await store.create_bank(a_bank(f"{HIDDEN}other"))
        assert await store.drop_bank(BANK)
        assert not await store.drop_bank(BANK)
        assert [hidden.bank.id for hidden in await store.hidden_banks()] == [f"{HIDDEN}other"]
        assert await store.banks() == []
        assert await store.drop_bank(BankId(f"{HIDDEN}other"))
        await store.create_bank(a_bank())
        assert (await store.status(BANK)).messages == 0
