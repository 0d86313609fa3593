"""Messages: stored once, in order, and pending until they are processed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from vmemo.models import Message, MessageId, utc_now
from vmemo.models.changes import Changes, MessageFailure
from vmemo.models.select import MessageSelect, first_of
from vmemo.ports import Store
from vmemo_conformance.samples import BANK, START, a_batch, a_message, day, store_messages
from vmemo_conformance.suite import StoreSuite, on_store


class MessageConformance(StoreSuite):
    """`append`, `messages`, and failures of messages."""

    @on_store
    async def test_an_appended_message_is_read_back_unchanged(self, store: Store) -> None:
        whole = Message(
            role="tool",
            content="Zwölf Boxkämpfer 🥊\n'quoted' \"twice\"",
            speaker="Мария",
            timestamp=START + timedelta(microseconds=1),
            document="diary 1",
            tags=("b", "a", "ü"),
            metadata={"n": 1, "f": 1.5, "t": True, "z": None, "s": "1", "o": {"deep": [1, {"er": "x"}]}},
            recorded_at=day(2),
            state="raw",
            key="line 1",
        )
        assert await store.append(BANK, [whole]) == {whole.id}
        assert await store.messages(BANK, MessageSelect(ids=[whole.id])) == [whole]

    @on_store
    async def test_a_message_id_is_stored_once(self, store: Store) -> None:
        [first] = await store_messages(store, "the first wording")
        again = first.model_copy(update={"content": "another wording"})
        fresh = a_message("something new")
        assert await store.append(BANK, [again, fresh, fresh]) == {fresh.id}
        assert [m.content for m in await store.messages(BANK, MessageSelect())] == [
            "the first wording",
            "something new",
        ]

    @on_store
    async def test_a_message_key_is_stored_once_per_document(self, store: Store) -> None:
        first = a_message("one", document="letters", key="1")
        same = a_message("one again", document="letters", key="1")
        other_bank = a_message("one elsewhere", document="diary", key="1")
        keyless = [a_message("no key", document="letters") for _ in range(2)]
        assert await store.append(BANK, [first]) == {first.id}
        assert await store.append(BANK, [same, other_bank, *keyless]) == {m.id for m in (other_bank, *keyless)}
        twice = [a_message("two", document="letters", key="2") for _ in range(2)]
        assert await store.append(BANK, twice) == {twice[0].id}

    @on_store
    async def test_appending_nothing_changes_nothing(self, store: Store) -> None:
        assert await store.append(BANK, []) == set()
        assert await store.messages(BANK, MessageSelect()) == []

    @on_store
    async def test_pending_messages_come_oldest_first(self, store: Store) -> None:
        late, early, tie = (a_message(c, timestamp=day(n)) for c, n in (("late", 3), ("early", 1), ("tie", 1)))
        await store.append(BANK, [late, early, tie])
        assert [m.content for m in await store.messages(BANK, MessageSelect.oldest_pending(10))] == [
            "early",
            "tie",
            "late",
        ]
        assert [m.content for m in await store.messages(BANK, MessageSelect.oldest_pending(2))] == ["early", "tie"]

    @on_store
    async def test_only_unprocessed_messages_are_pending(self, store: Store) -> None:
        await store.append(BANK, [a_message(state, state=state) for state in ("raw", "derived", "extracted")])
        read, unread = await store_messages(store, "read", "unread")
        assert await store.commit(replace(await a_batch(store), pending=[read.id]))
        assert [m.id for m in await store.messages(BANK, MessageSelect.oldest_pending(10))] == [unread.id]

    @on_store
    async def test_the_previous_message_is_of_the_same_document(self, store: Store) -> None:
        letters = [a_message(f"letter {n}", document="letters", timestamp=day(n)) for n in (1, 3, 3)]
        loose = [a_message(f"loose {n}", timestamp=day(n)) for n in (1, 2)]
        between = a_message("letter 2", document="letters", timestamp=day(2))
        await store.append(BANK, [*letters, *loose, between])
        expected = {
            letters[0].id: None,
            between.id: letters[0],
            letters[1].id: between,
            letters[2].id: letters[1],
            loose[0].id: None,
            loose[1].id: loose[0],
        }
        for message in (*letters, *loose, between):
            assert (
                first_of(await store.messages(BANK, MessageSelect(preceding=message, limit=1))) == expected[message.id]
            ), message.content

    @on_store
    async def test_messages_by_id_leave_missing_ones_out(self, store: Store) -> None:
        said = await store_messages(store, *(f"line {n}" for n in range(1200)))
        wanted = [*(m.id for m in said), MessageId("missing")]
        assert {m.id for m in await store.messages(BANK, MessageSelect(ids=wanted))} == {m.id for m in said}
        assert await store.messages(BANK, MessageSelect(ids=[])) == []

    @on_store
    async def test_pages_of_messages_are_complete_and_in_insertion_order(self, store: Store) -> None:
        said = await store_messages(store, *(f"line {n}" for n in range(11)), timestamp=day(5))
        pages = [await store.messages(BANK, MessageSelect(limit=4))]
        said += await store_messages(store, "an older line that came while paging", timestamp=day(1))
        while page := await store.messages(BANK, MessageSelect(after=pages[-1][-1].id, limit=4)):
            pages.append(page)
            assert len(pages) < 9, "paging must end"
        assert [len(page) for page in pages] == [4, 4, 4]
        assert [m.id for page in pages for m in page] == [m.id for m in said]
        last = await store.messages(BANK, MessageSelect(last_first=True, limit=5))
        rest = await store.messages(BANK, MessageSelect(last_first=True, after=last[-1].id))
        assert [m.id for m in (*last, *rest)] == [m.id for m in reversed(said)]

    @on_store
    async def test_pages_of_a_document_hold_only_its_lines(self, store: Store) -> None:
        letters = await store_messages(store, "a", "b", "c", document="letters")
        await store_messages(store, "d", document="diary")
        await store_messages(store, "e")
        page = await store.messages(BANK, MessageSelect(document="letters", limit=2))
        rest = await store.messages(BANK, MessageSelect(document="letters", after=page[-1].id, limit=2))
        assert [m.id for m in (*page, *rest)] == [m.id for m in letters]
        assert await store.messages(BANK, MessageSelect(document="nothing")) == []

    @on_store
    async def test_a_failure_is_recorded_on_its_messages_and_in_the_status(self, store: Store) -> None:
        one, two, three = await store_messages(store, "one", "two", "three")
        await store.commit(Changes(bank=BANK, failures=[MessageFailure(messages=[one.id, two.id], error="timed out")]))
        await store.commit(Changes(bank=BANK, failures=[MessageFailure(messages=[one.id], error="timed out")]))
        await store.commit(Changes(bank=BANK, failures=[MessageFailure(messages=[three.id], error="refused")]))
        problems = {t.error: t for t in (await store.status(BANK)).problems}
        assert {error: (t.messages, t.attempts) for error, t in problems.items()} == {
            "timed out": (2, 2),
            "refused": (1, 1),
        }
        assert all(t.since <= utc_now() for t in problems.values())
        assert [m.error for m in await store.messages(BANK, MessageSelect.oldest_pending(10))] == [
            "timed out",
            "timed out",
            "refused",
        ]

    @on_store
    async def test_processing_a_message_clears_its_failure(self, store: Store) -> None:
        one, two = await store_messages(store, "one", "two")
        await store.commit(Changes(bank=BANK, failures=[MessageFailure(messages=[one.id], error="timed out")]))
        assert await store.commit(replace(await a_batch(store), pending=[one.id, two.id]))
        await store.commit(Changes(bank=BANK, failures=[MessageFailure(messages=[two.id], error="too late to fail")]))
        assert (await store.status(BANK)).problems == ()
        assert [m.error for m in await store.messages(BANK, MessageSelect())] == [None, None]
