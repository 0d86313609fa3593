"""Profiles: one is current, and former ones stay in the history of the bank."""

from __future__ import annotations

import asyncio

from vmemo.errors import NotFound
from vmemo.lifecycle.forget import forget
from vmemo.lifecycle.reprocess import swap_in
from vmemo.models import BankId, Disposition, FormerProfile, Profile, utc_now
from vmemo.models.changes import Changes, ForgetTarget, ProfileChange
from vmemo.ports import Store
from vmemo.transfer.incoming import load_bank
from vmemo_conformance.reprocess import process_staging, staging_of
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    a_message,
    day,
    snapshot,
    store_messages,
    store_story,
)
from vmemo_conformance.suite import StoreSuite, on_store, on_two_stores, refused

POET = Profile(name="Гость", disposition=Disposition(skepticism=1, empathy=5), bias=0.25, background="I write 🖋 odes.")
PAINTER = Profile(name="Painter", background="I paint.")
COPY = BankId("copy")


async def profile_of(store: Store, bank: BankId = BANK) -> Profile:
    """Return the current profile."""
    stored = await store.bank(bank)
    assert stored is not None
    return stored.profile


class ProfileConformance(StoreSuite):
    """`commit` of profiles, and their history."""

    @on_store
    async def test_former_profiles_are_kept_in_order_with_time_and_reason(self, store: Store) -> None:
        assert await store.former_profiles(BANK) == []
        before = utc_now()
        assert await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET)))
        assert await store.commit(
            Changes(bank=BANK, profile=ProfileChange(profile=PAINTER, reason="You paint now.\nДа, 'you' do."))
        )
        assert await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET, reason="")))
        assert await profile_of(store) == POET
        history = await store.former_profiles(BANK)
        assert [each.profile for each in history] == [Profile(), POET, PAINTER]
        assert [each.reason for each in history] == ["", "You paint now.\nДа, 'you' do.", ""]
        times = [before, *(each.until for each in history), utc_now()]
        assert times == sorted(times)

    @on_store
    async def test_an_equal_profile_changes_nothing(self, store: Store) -> None:
        assert await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET)))
        history = await store.former_profiles(BANK)
        assert await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET.model_copy(), reason="again")))
        assert await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET, expected=POET)))
        assert await store.former_profiles(BANK) == history

    @on_store
    async def test_a_profile_is_replaced_only_if_it_is_the_expected_one(self, store: Store) -> None:
        assert await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET, expected=Profile())))
        before, history = await snapshot(store), await store.former_profiles(BANK)
        for new in (PAINTER, POET):
            assert not await store.commit(
                Changes(bank=BANK, profile=ProfileChange(profile=new, reason="late", expected=Profile()))
            )
        assert await snapshot(store) == before
        assert await store.former_profiles(BANK) == history
        assert await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=PAINTER, expected=POET)))
        assert await profile_of(store) == PAINTER

    @on_two_stores
    async def test_one_of_two_concurrent_profile_changes_succeeds(self, one: Store, other: Store) -> None:
        told = await asyncio.gather(
            one.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET, expected=Profile()))),
            other.commit(Changes(bank=BANK, profile=ProfileChange(profile=PAINTER, expected=Profile()))),
        )
        assert sorted(told) == [False, True]
        assert await profile_of(other) == (POET if told[0] else PAINTER)
        assert [each.profile for each in await one.former_profiles(BANK)] == [Profile()]

    @on_store
    async def test_profile_histories_of_two_banks_are_separate(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET)))
        assert await store.former_profiles(OTHER) == []
        await store.commit(Changes(bank=OTHER, profile=ProfileChange(profile=PAINTER, reason="theirs")))
        theirs = await store.former_profiles(OTHER)
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=PAINTER)))
        await forget(store, BANK, ForgetTarget(bank=True))
        assert await store.former_profiles(OTHER) == theirs

    @on_store
    async def test_a_missing_bank_has_no_profiles(self, store: Store) -> None:
        for call in (
            store.commit(
                Changes(bank=BankId("nobody"), profile=ProfileChange(profile=POET, reason="x", expected=POET))
            ),
            store.former_profiles(BankId("nobody")),
        ):
            with refused(NotFound):
                await call

    @on_store
    async def test_deleting_a_bank_deletes_its_profile_history(self, store: Store) -> None:
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET)))
        await forget(store, BANK, ForgetTarget(bank=True))
        with refused(NotFound):
            await store.former_profiles(BANK)
        await store.create_bank(a_bank())
        assert await store.former_profiles(BANK) == []

    @on_store
    async def test_forgetting_a_message_keeps_the_profile_history(self, store: Store) -> None:
        [said] = await store_messages(store, "tulips")
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET, reason="told")))
        history = await store.former_profiles(BANK)
        await forget(store, BANK, ForgetTarget(messages=[said.id]))
        assert await store.former_profiles(BANK) == history

    @on_store
    async def test_the_profile_history_is_restored(self, store: Store) -> None:
        history = [
            FormerProfile(profile=PAINTER, until=day(2), reason="first"),
            FormerProfile(profile=POET, until=day(1), reason="the clock was set back"),
        ]
        await load_bank(store, a_bank(COPY), iter([*history, a_message("tulips")]))
        assert await store.former_profiles(COPY) == history
        assert await store.former_profiles(BANK) == []
        await store.commit(Changes(bank=COPY, profile=ProfileChange(profile=POET)))
        assert [each.profile for each in await store.former_profiles(COPY)] == [PAINTER, POET, Profile()]

    @on_store
    async def test_reprocessing_keeps_the_profile_history(self, store: Store) -> None:
        await store_story(store)
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=POET, reason="before")))
        staging = await staging_of(store)
        assert await store.former_profiles(staging) == []
        await process_staging(store, staging)
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=PAINTER, reason="meanwhile")))
        history = await store.former_profiles(BANK)
        assert await swap_in(store, BANK, EMBEDDER)
        assert await profile_of(store) == PAINTER
        assert await store.former_profiles(BANK) == history
        assert [each.reason for each in history] == ["before", "meanwhile"]
