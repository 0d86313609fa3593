"""Time travel: what was true then, what was believed then, and both."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from vmemo.models.changes import FactClosure
from vmemo.models.search import Scope, SearchRequest
from vmemo.models.select import FactSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    a_batch,
    a_fact,
    day,
    matches,
    near,
    search,
    store_fact,
    store_messages,
)
from vmemo_conformance.suite import StoreSuite, on_store

MOMENT = timedelta(microseconds=1)
FAR = datetime(9000, 1, 1, tzinfo=UTC)


class TimeTravelConformance(StoreSuite):
    """The times of `Scope`."""

    @on_store
    async def test_only_current_facts_are_visible_by_default(self, store: Store) -> None:
        await store_fact(store, "tulips current")
        await store_fact(store, "tulips ending", invalid_at=FAR)
        await store_fact(store, "tulips planned", valid_at=FAR)
        await store_fact(store, "tulips over", invalid_at=day(5))
        await store_fact(store, "tulips retracted", expired_at=day(5))
        await store_fact(store, "tulips replaced", invalid_at=day(5), expired_at=day(5))
        assert await _seen(store, Scope(bank=BANK)) == {"current", "ending", "planned"}
        everything = {"current", "ending", "planned", "over", "retracted", "replaced"}
        assert await _seen(store, Scope(bank=BANK, include_expired=True)) == everything

    @on_store
    async def test_at_time_returns_what_was_true_then(self, store: Store) -> None:
        await _moves(store)
        table = (
            (day(1), {"always"}),
            (day(2) - MOMENT, {"always"}),
            (day(2), {"always", "rome"}),
            (day(10) - MOMENT, {"always", "rome"}),
            (day(10), {"always", "oslo"}),
            (FAR, {"always", "oslo"}),
        )
        for moment, expected in table:
            assert await _seen(store, Scope(bank=BANK, at_time=moment)) == expected, moment

    @on_store
    async def test_known_at_returns_what_was_believed_then(self, store: Store) -> None:
        await _moves(store)
        table = (
            (day(3) - MOMENT, {"always"}),
            (day(3), {"always", "rome"}),
            (day(12) - MOMENT, {"always", "rome"}),
            (day(12), {"always", "oslo"}),
            (FAR, {"always", "oslo"}),
        )
        for moment, expected in table:
            assert await _seen(store, Scope(bank=BANK, known_at=moment)) == expected, moment

    @on_store
    async def test_at_time_and_known_at_can_be_combined(self, store: Store) -> None:
        await _moves(store)
        table = (
            # On day 11 the move of day 10 was not known yet.
            (day(11), day(11), {"always", "rome"}),
            (day(11), day(12), {"always", "oslo"}),
            (day(5), day(2), {"always"}),
            (day(5), day(4), {"always", "rome"}),
            (day(1), day(4), {"always"}),
        )
        for at_time, known_at, expected in table:
            scope = Scope(bank=BANK, at_time=at_time, known_at=known_at)
            assert await _seen(store, scope) == expected, (at_time, known_at)

    @on_store
    async def test_a_corrected_mistake_was_believed_and_never_true(self, store: Store) -> None:
        """It is closed from the moment it began, so no time of the world shows it."""
        await store_fact(
            store, "tulips wrong", valid_at=day(2), recorded_at=day(3), invalid_at=day(2), expired_at=day(7)
        )
        await store_fact(store, "tulips right", valid_at=day(2), recorded_at=day(7))
        table = (
            (Scope(bank=BANK), {"right"}),
            (Scope(bank=BANK, at_time=day(2)), {"right"}),
            (Scope(bank=BANK, at_time=day(5)), {"right"}),
            (Scope(bank=BANK, known_at=day(5)), {"wrong"}),
            (Scope(bank=BANK, known_at=day(7)), {"right"}),
            (Scope(bank=BANK, at_time=day(4), known_at=day(5)), {"wrong"}),
            (Scope(bank=BANK, at_time=day(4), known_at=day(8)), {"right"}),
        )
        for scope, expected in table:
            assert await _seen(store, scope) == expected, scope

    @on_store
    async def test_a_retracted_fact_is_not_true_at_any_time(self, store: Store) -> None:
        """Current beliefs decide what was true at an earlier time."""
        await store_fact(store, "tulips retracted", valid_at=day(2), recorded_at=day(3), expired_at=day(7))
        assert await _seen(store, Scope(bank=BANK, at_time=day(4))) == set()
        assert await _seen(store, Scope(bank=BANK, known_at=day(4))) == {"retracted"}
        assert await _seen(store, Scope(bank=BANK, known_at=day(4), at_time=day(4))) == {"retracted"}
        assert await _seen(store, Scope(bank=BANK, known_at=day(4), at_time=day(1))) == set()

    @on_store
    async def test_an_end_known_from_the_start_applies_at_every_time(self, store: Store) -> None:
        await store_fact(store, "tulips holiday", valid_at=day(2), invalid_at=day(9), recorded_at=day(1))
        table = (
            (Scope(bank=BANK), set[str]()),
            (Scope(bank=BANK, at_time=day(8)), {"holiday"}),
            (Scope(bank=BANK, at_time=day(9)), set[str]()),
            (Scope(bank=BANK, at_time=day(8), known_at=day(1)), {"holiday"}),
            (Scope(bank=BANK, at_time=day(9), known_at=day(1)), set[str]()),
            (Scope(bank=BANK, known_at=day(20)), {"holiday"}),
        )
        for scope, expected in table:
            assert await _seen(store, scope) == expected, scope

    @on_store
    async def test_a_message_is_quoted_only_at_times_when_one_of_its_facts_is_visible(self, store: Store) -> None:
        [said] = await store_messages(store, "tulips grow here", timestamp=day(1), recorded_at=day(1))
        old = a_fact("flowers", messages=[said.id], valid_at=day(1), recorded_at=day(1))
        assert await store.commit(replace(await a_batch(store, [old]), pending=[said.id], becomes="extracted"))
        closing = FactClosure(fact=old.id, invalid_at=day(5), expired_at=day(7))
        assert await store.commit(replace(await a_batch(store), closures=[closing]))
        seen = {
            "now": Scope(bank=BANK),
            "everything": Scope(bank=BANK, include_expired=True),
            "true then": Scope(bank=BANK, at_time=day(3)),
            "over then": Scope(bank=BANK, at_time=day(6)),
            "believed then": Scope(bank=BANK, known_at=day(6)),
            "no longer believed": Scope(bank=BANK, known_at=day(8)),
            "believed to be true still": Scope(bank=BANK, at_time=day(6), known_at=day(6)),
        }
        quoted = {
            name: bool((await search(store, SearchRequest(scope=scope, verbatim="tulips", limit=5))).verbatim)
            for name, scope in seen.items()
        }
        assert [name for name, found in quoted.items() if found] == [
            "everything",
            "true then",
            "believed then",
            "believed to be true still",
        ]


async def _moves(store: Store) -> None:
    """Rome from day 2, told on day 3; Oslo from day 10, told on day 12."""
    await store_fact(store, "tulips always", recorded_at=day(1))
    rome = await store_fact(
        store, "tulips rome", valid_at=day(2), recorded_at=day(3), invalid_at=day(10), expired_at=day(12)
    )
    await store_fact(store, "tulips oslo", valid_at=day(10), recorded_at=day(12), supersedes=rome.id)


async def _seen(store: Store, scope: Scope) -> set[str]:
    """Last words of the facts a scope shows, which must be the same by words and by vector."""
    worded = await matches(store, "tulips", scope)
    assert set(worded) == set(await near(store, EMBEDDER.vector("tulips"), scope)), scope
    return {fact.text.split()[-1] for fact in await store.facts(BANK, FactSelect(ids=worded))}
