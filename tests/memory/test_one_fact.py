"""The verbs of one fact: get, update, history and pin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders import NOON, WordEmbedder

from vmemo import Fact, InvalidInput, Memory, Message, NotFound, Settings

STORES = ("sqlite",)

ROME, MILAN, OSLO = "I live in Rome.", "Ana lives in Milan.", "Ana lives in Oslo."


def said(content: str, day: int = 0, **fields: object) -> Message:
    return Message.of({"content": content, "speaker": "Ana", "timestamp": NOON + timedelta(days=day), **fields})


def memory_with(*messages: Message, url: str = ":memory:") -> Memory:
    fading = Settings(maintenance_fade_below=1.0, maintenance_half_life=0.0001)
    memory = Memory(url, embedder=WordEmbedder(), settings=fading)
    memory.retain_sync([*messages])
    return memory


def fact_of(memory: Memory, text: str) -> Fact:
    [found] = [fact for fact in memory.facts_sync() if text in fact.text]
    return found


def recalled(memory: Memory, query: str, **options: object) -> dict[str, str]:
    found = memory.recall_sync(query, **options)  # pyright: ignore[reportArgumentType]
    return {hit.text: hit.status for hit in found.hits}


def test_get_returns_a_fact_by_its_id_or_short_id_and_a_message_in_its_own_words() -> None:
    with memory_with(said(ROME)) as memory:
        fact = fact_of(memory, "Rome")
        assert memory.get_sync(fact.id) == memory.get_sync(fact.short_id) == fact
        stored = memory.add_messages_sync("The kettle is red.", infer=False).stored[0]
        assert memory.get_sync(stored).text == "User: The kettle is red."
        with pytest.raises(NotFound, match="There is no fact or message 'missing' in bank 'default'"):
            memory.get_sync("missing")


def test_an_update_closes_the_old_version_and_recall_returns_the_new_one() -> None:
    with memory_with(said(ROME, tags=("home",)), said("Tux is my cat.", 1)) as memory:
        old = fact_of(memory, "Rome")
        new = memory.update_sync(old.short_id, MILAN, reason="She moved.")
        assert (new.text, new.supersedes, new.messages, new.tags) == (MILAN, old.id, old.messages, ("home",))
        assert {mention.name for mention in new.entities} == {"Ana", "Milan"}
        assert recalled(memory, "Where does Ana live? Rome Milan")[MILAN] == "current"
        assert not any("Rome" in text for text in recalled(memory, "Where does Ana live? Rome Milan"))
        assert recalled(memory, "Where does Ana live? Rome", include_expired=True)[f"Ana: {ROME}"] == "former"
        closed = memory.get_sync(old.id)
        assert closed.invalid_at == closed.expired_at == new.recorded_at
        assert [fact.reason for fact in memory.why_sync(old.id).superseded_by] == ["She moved."]


def test_every_version_shows_the_whole_history_of_updates_by_hand() -> None:
    with memory_with(said(ROME)) as memory:
        first = fact_of(memory, "Rome")
        second = memory.update_sync(first.id, "Ana: I live in Milan.")
        third = memory.update_sync(second.id, "Ana lives in Bergen.")
        versions = [first.text, second.text, third.text]
        for id in (first.id, second.id, third.id):
            assert [fact.text for fact in memory.history_sync(id)] == versions


def test_only_a_current_statement_can_be_updated() -> None:
    with memory_with(said(ROME)) as memory:
        old = fact_of(memory, "Rome")
        new = memory.update_sync(old.id, MILAN)
        with pytest.raises(InvalidInput, match=f"was replaced by {new.id}"):
            memory.update_sync(old.id, OSLO)
        assert memory.update_sync(new.id, MILAN) == new
        assert len(memory.facts_sync()) == 2
        memory.add_message_sync("The kettle is red.")
        [*_, waiting] = memory.messages_sync()
        with pytest.raises(InvalidInput, match="waits to be processed"):
            memory.update_sync(waiting.id, OSLO)


def test_a_message_that_was_recalled_by_its_words_can_be_updated() -> None:
    with memory_with(said("Tux is my cat.")) as memory:
        stored = memory.add_messages_sync("The kettle is red.", infer=False).stored[0]
        new = memory.update_sync(stored, "The kettle is blue.")
        assert [fact.id for fact in memory.history_sync(stored)] == [stored, new.id]
        assert recalled(memory, "kettle red blue") == {new.text: "current"} | {
            text: "current" for text in recalled(memory, "kettle red blue") if "Tux" in text
        }


def test_a_pinned_fact_never_fades_and_its_successors_are_pinned(tmp_path: Path) -> None:
    with memory_with(said(ROME), said("Tux is my cat."), url=str(tmp_path / "memory.db")) as memory:
        pinned = memory.pin_sync(fact_of(memory, "Rome").id)
        assert [fact.id for fact in memory.facts_sync(pinned=True)] == [pinned.id]
        assert memory.maintain_sync().pruned == 1
        assert [fact.text for fact in memory.facts_sync() if fact.expired_at is None] == [pinned.text]
        new = memory.update_sync(pinned.id, MILAN)
        assert [fact.id for fact in memory.facts_sync(pinned=True)] == [pinned.id, new.id]
        assert not memory.unpin_sync(new.id).pinned
        memory.export_sync(tmp_path / "bank.jsonl")
        memory.bank("copy").import_bank_sync(tmp_path / "bank.jsonl")
        assert [fact.id for fact in memory.bank("copy").facts_sync(pinned=True)] == [pinned.id]


def test_a_closed_version_can_not_be_pinned_and_the_error_names_the_current_one() -> None:
    with memory_with(said(ROME), said("Tux is my cat.", 1)) as memory:
        first, cat = fact_of(memory, "Rome"), fact_of(memory, "Tux")
        second = memory.update_sync(first.id, MILAN)
        third = memory.update_sync(second.id, OSLO)
        for old in (first, second):
            with pytest.raises(InvalidInput, match=rf"{old.id} is closed.* {third.id}\. .*Pin .*{third.short_id}"):
                memory.pin_sync(old.id)
        assert memory.facts_sync(pinned=True) == []
        memory.pin_sync(third.id)
        last = memory.update_sync(third.id, "Ana lives in Bergen.")
        assert not memory.unpin_sync(third.id).pinned
        assert [fact.id for fact in memory.facts_sync(pinned=True)] == [last.id]
        assert memory.maintain_sync().pruned == 1
        with pytest.raises(InvalidInput, match="is no longer current, and no other version of it is"):
            memory.pin_sync(cat.id)


def day(number: int) -> datetime:
    return NOON + timedelta(days=number)


def true_at(memory: Memory, at: datetime) -> set[str]:
    return set(recalled(memory, "Where does Ana live? Rome Milan Oslo", at_time=at))


def test_a_correction_holds_from_the_given_time_and_the_old_version_until_then() -> None:
    with memory_with(said(ROME)) as memory:
        old = fact_of(memory, "Rome")
        new = memory.update_sync(old.id, MILAN, "She moved.", valid_at=day(10))
        closed = memory.get_sync(old.id)
        assert (new.valid_at, closed.invalid_at, closed.expired_at) == (day(10), day(10), new.recorded_at)
        assert true_at(memory, day(9)) == {f"Ana: {ROME}"}
        assert true_at(memory, day(10)) == {MILAN}
        assert [fact.validity for fact in memory.history_sync(new.id)] == [
            f"{day(0).date()} to {day(10).date()}",
            f"since {day(10).date()}",
        ]
        # Before the correction was recorded, the bank believed the old version.
        before = recalled(memory, "Where does Ana live?", at_time=day(11), known_at=closed.recorded_at)
        assert before == {f"Ana: {ROME}": "current"}


def test_a_correction_from_the_start_of_the_old_version_or_before_leaves_it_no_time() -> None:
    for start in (day(0), day(-30)):
        with memory_with(said(ROME)) as memory:
            old = fact_of(memory, "Rome")
            memory.update_sync(old.id, MILAN, valid_at=start.isoformat())
            assert memory.get_sync(old.id).invalid_at == old.valid_at
            assert true_at(memory, day(0)) == true_at(memory, day(5)) == {MILAN}
            assert true_at(memory, day(-1)) == ({MILAN} if start < day(-1) else set())
            assert [fact.validity for fact in memory.history_sync(old.id)] == ["never", f"since {start.date()}"]


def test_a_later_correction_also_ends_the_versions_before_the_one_that_it_corrects() -> None:
    with memory_with(said(ROME)) as memory:
        first = fact_of(memory, "Rome")
        second = memory.update_sync(first.id, MILAN)
        third = memory.update_sync(second.id, MILAN, valid_at=day(10))
        assert third.id != second.id
        assert memory.update_sync(third.id, MILAN, valid_at=day(10)) == memory.update_sync(third.id, MILAN) == third
        assert true_at(memory, day(9)) == {f"Ana: {ROME}"}
        assert true_at(memory, day(11)) == {MILAN}
        versions = [(fact.text, fact.validity) for fact in memory.history_sync(first.id)]
        assert versions == [
            (f"Ana: {ROME}", f"{day(0).date()} to {day(10).date()}"),
            (MILAN, "never"),
            (MILAN, f"since {day(10).date()}"),
        ]


def test_an_earlier_message_that_arrives_late_does_not_revert_a_correction() -> None:
    with memory_with(said(ROME)) as memory:
        new = memory.update_sync(fact_of(memory, "Rome").id, "Ana: I live in Milan.", valid_at=day(10))
        memory.retain_sync(said("I live in Oslo.", 20))
        assert memory.get_sync(new.id).invalid_at is None
        assert recalled(memory, "Where does Ana live?")["Ana: I live in Milan."] == "current"


def test_a_correction_can_not_begin_in_the_future_or_at_a_time_without_a_zone() -> None:
    with memory_with(said(ROME)) as memory:
        old = fact_of(memory, "Rome")
        with pytest.raises(InvalidInput, match=r"valid_at is 2\d{3}-.*in the future.*Nothing was changed"):
            memory.update_sync(old.id, MILAN, valid_at=datetime.now(UTC) + timedelta(hours=1))
        for naive in (datetime(2024, 3, 1), "2024-03-01T09:30"):  # noqa: DTZ001 - refused
            with pytest.raises(InvalidInput, match="valid_at: a datetime needs a time zone"):
                memory.update_sync(old.id, MILAN, valid_at=naive)
        assert memory.history_sync(old.id) == [old]
