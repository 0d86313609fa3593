"""Forgotten text is in no answer, export, file byte or server row; unrelated facts stay."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from builders import NOON, WordEmbedder, exported, open_memory, said

from databases import graph, rows, store_name
from vmemo import Memory, Message, NotFound, Settings
from vmemo.models.requests import ForgetRequest

SECRET = "xylophone zebrafish"
"""Words that stand only in what is to be forgotten."""

TALK = [
    said("Shall we have lunch at the harbour?", 0, speaker="Mira"),
    said(f"Yes, and yesterday I hid the {SECRET} for Quentin Vanderbilt there.", 1, speaker="Jon"),
    said("Then I will bring my sister to lunch at the harbour next Friday.", 2, speaker="Mira"),
]
APART = said("The boiler in the cellar was repaired last week.", 6000, speaker="Mira")


def retain_talk(memory: Memory, document: str | None = None) -> None:
    memory.retain_sync(TALK, document=document)
    memory.retain_sync(APART)
    memory.recall_sync(f"Where is the {SECRET}?")


def is_in(url: str, word: str) -> bool:
    """Return True if a word is in the bytes of the file, or in a row or node of the server."""
    if store_name(url) == "neo4j":
        return word in graph(url).lower()
    if store_name(url) == "postgres":
        tables = [table for (table,) in rows(url, "SELECT relname FROM pg_stat_user_tables")]
        told = str(rows(url, " UNION ALL ".join(f'SELECT t::text FROM "{table}" t' for table in tables))).lower()
        return word in told or word.encode().hex() in told
    files = [Path(url.removeprefix("sqlite:///") + end) for end in ("", "-wal", "-shm")]
    on_disk = b"".join(file.read_bytes() for file in files if file.exists()).lower()
    return word.encode() in on_disk or word.encode("utf-16-le") in on_disk


def assert_nowhere(memory: Memory, url: str, folder: Path, *words: str) -> None:
    """Asked while the memory is open, so that the log is searched as it is, and not only after a clean close."""
    for word in words:
        assert not is_in(url, word)
    told = [
        *(hit.text for hit in memory.recall_sync(f"Who hid the {SECRET}?", max_tokens=100_000).hits),
        *(hit.text for hit in memory.retrieve_sync(f"Who hid the {SECRET}?", top_k=100).hits),
        *(fact.model_dump_json() for fact in memory.facts_sync(limit=1000)),
        *(message.model_dump_json() for message in memory.messages_sync(limit=1000)),
        *(episode.model_dump_json() for episode in memory.episodes_sync(limit=1000)),
        *(entity.model_dump_json() for entity in memory.entities_sync(limit=1000)),
        *exported(memory, folder),
    ]
    for word in words:
        assert [line for line in told if word in line.lower()] == []


def by_messages(memory: Memory) -> None:
    memory.forget_sync(messages=[TALK[1].id])


def by_entity(memory: Memory) -> None:
    memory.forget_sync(entity="Quentin Vanderbilt")


def by_document(memory: Memory) -> None:
    memory.forget_sync(document="talk")


def by_bank(memory: Memory) -> None:
    memory.forget_sync(bank=True)


@pytest.mark.parametrize("forget", [by_messages, by_entity, by_document, by_bank])
def test_forgotten_text_is_found_nowhere(url: str, tmp_path: Path, forget: Callable[[Memory], None]) -> None:
    with open_memory(url) as memory:
        retain_talk(memory, document="talk")
        assert is_in(url, "zebrafish")
        assert any("zebrafish" in line for line in exported(memory, tmp_path))
        forget(memory)
        assert_nowhere(memory, url, tmp_path, *SECRET.split(), "quentin", "vanderbilt")
    assert not is_in(url, "zebrafish")


def test_forgotten_text_is_in_no_node_of_neo4j(neo4j_url: str, tmp_path: Path) -> None:
    for forget in (by_messages, by_entity, by_document, by_bank):
        test_forgotten_text_is_found_nowhere(neo4j_url, tmp_path, forget)


def test_forgetting_text_that_was_never_derived_leaves_no_trace_of_it(url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        raw = memory.retain_sync(f"The {SECRET} is in the attic.", infer=False)
        waiting = memory.add_message_sync(f"The {SECRET} is in the shed.")
        assert len(memory.recall_sync(f"Where is the {SECRET}?").hits) == 2
        memory.forget_sync(messages=[*raw.stored, *waiting.stored])
        assert_nowhere(memory, url, tmp_path, *SECRET.split())
        assert memory.status_sync().messages == 0


@pytest.mark.parametrize("forget", [by_messages, by_entity])
def test_neighbours_of_a_forgotten_message_are_processed_again_with_the_same_ids(
    url: str, forget: Callable[[Memory], None]
) -> None:
    with open_memory(url) as memory:
        retain_talk(memory)
        before = {fact.messages[0]: fact for fact in memory.facts_sync()}
        forget(memory)
        after = {fact.messages[0]: fact for fact in memory.facts_sync()}
        assert set(after) == {TALK[0].id, TALK[2].id, APART.id}
        for message, fact in after.items():
            old = before[message]
            assert (fact.id, fact.text, fact.mentioned_at) == (old.id, old.text, old.mentioned_at)
            assert (fact.occurred_start, fact.occurred_end) == (old.occurred_start, old.occurred_end)
            assert (fact.recorded_at, fact.valid_at) == (old.recorded_at, old.valid_at)
        (hit, *_) = memory.recall_sync("When does Mira bring her sister to lunch at the harbour?").hits
        assert hit.fact.messages == (TALK[2].id,)
        assert hit.fact.occurred_start is not None
        assert hit.fact.occurred_start.date() == (NOON + timedelta(days=11)).date()
        assert (memory.status_sync().pending, memory.process_sync().derived) == (0, ())


def test_an_untouched_episode_stays_as_it_was(url: str) -> None:
    with open_memory(url) as memory:
        retain_talk(memory)
        kept = [e for e in memory.episodes_sync() if e.messages == (APART.id,)]
        by_messages(memory)
        (after,) = [e for e in memory.episodes_sync() if e.messages == (APART.id,)]
        ids = {episode.id for episode in memory.episodes_sync()}
        assert after.model_copy(update={"previous": None}) == kept[0].model_copy(update={"previous": None})
        assert after.previous is None or after.previous in ids


def test_an_entity_keeps_only_the_names_that_remaining_facts_use(url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        memory.retain_sync([said("I met Robert Zuckerman at the station.", 0), said("Bob Zuckerman was late.", 100)])
        (entity,) = memory.entities_sync()
        assert {entity.name, *entity.aliases} == {"Robert Zuckerman", "Bob Zuckerman"}
        first = memory.messages_sync()[0]
        memory.forget_sync(messages=[first.id])
        (entity,) = memory.entities_sync()
        assert (entity.name, entity.aliases) == ("Bob Zuckerman", ())
        assert_nowhere(memory, url, tmp_path, "robert")


def test_an_entity_keeps_a_name_that_only_one_of_many_facts_uses(url: str) -> None:
    weeks = [said(f"Bob Zuckerman was late for lunch number {week}.", 10_000 * week) for week in range(15)]
    with open_memory(url) as memory:
        memory.retain_sync([*weeks, said("I met Robert Zuckerman at the station.", 200_000)])
        memory.forget_sync(messages=[memory.messages_sync()[0].id])
        (entity,) = memory.entities_sync()
        assert {entity.name, *entity.aliases} == {"Robert Zuckerman", "Bob Zuckerman"}


def test_forgetting_an_entity_by_any_name_deletes_every_message_about_it(url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        memory.retain_sync([said("I met Robert Zuckerman at the station.", 0), said("Bob Zuckerman was late.", 100)])
        memory.retain_sync(said("The soup was hot.", 200))
        forgotten = memory.forget_sync(entity="bob zuckerman")
        assert (forgotten.messages, forgotten.facts, forgotten.entities) == (2, 2, 1)
        assert [m.content for m in memory.messages_sync()] == ["The soup was hot."]
        assert_nowhere(memory, url, tmp_path, "zuckerman")


def test_pending_messages_are_forgotten_with_the_entity_they_name(url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(said("I met Robert Zuckerman at the station.", 0))
        memory.add_message_sync(said("Robert Zuckerman was late.", 100))
        memory.add_message_sync(said("The soup was hot.", 200))
        memory.retain_sync("The key is with robert zuckerman.", infer=False)
        assert memory.forget_sync(entity="Robert Zuckerman").messages == 3
        assert_nowhere(memory, url, tmp_path, "zuckerman")
        assert [hit.text for hit in memory.recall_sync("soup").hits] == ["User: The soup was hot."]


def test_forgetting_a_person_deletes_messages_that_gave_no_fact(url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(
            [
                said("Hello!", 0, speaker="Ana Duarte"),
                said("My flat in Braga has no heating.", 1, speaker="Ana Duarte"),
                said("Is ana duarte coming?", 2, speaker="Ben"),
                said("The lift was repaired.", 3, speaker="Ben"),
            ]
        )
        memory.retain_sync("Ticket 7: Ana Duarte, no heating.", infer=False)
        preview = memory.preview_forget_sync(ForgetRequest(entity="Ana Duarte"))
        forgotten = memory.forget_sync(entity="Ana Duarte")
        assert (preview.counts.messages, forgotten.messages) == (4, 4)
        assert forgotten == preview.counts.model_copy(update={"scrub_pending": forgotten.scrub_pending})
        assert [message.content for message in memory.messages_sync()] == ["The lift was repaired."]
        assert_nowhere(memory, url, tmp_path, "duarte", "braga")


@pytest.fixture
def held(sqlite_url: str, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that can hold a view of the database open, as a long backup does."""
    with open_memory(sqlite_url) as memory:
        retain_talk(memory)
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as connection:
        yield connection


@pytest.mark.parametrize("forget", [by_messages, by_bank])
def test_a_delayed_scrub_is_reported_and_completed_later(
    sqlite_url: str, tmp_path: Path, held: sqlite3.Connection, forget: Callable[[Memory], None]
) -> None:
    held.execute("BEGIN")
    held.execute("SELECT count(*) FROM messages").fetchone()
    with Memory(sqlite_url, embedder=WordEmbedder(), settings=Settings(busy_timeout=0.1)) as memory:
        forget(memory)
        assert memory.status_sync().scrub_pending
        assert memory.status_sync().pending == 0
        assert not any("zebrafish" in hit.text for hit in memory.recall_sync(SECRET).hits)
        held.execute("ROLLBACK")
        again = memory.retain_sync("Something short.").stored
        memory.forget_sync(messages=again)
        assert not memory.status_sync().scrub_pending
        assert_nowhere(memory, sqlite_url, tmp_path, *SECRET.split())


def test_forgetting_one_bank_leaves_the_others_whole(url: str, tmp_path: Path) -> None:
    with open_memory(url, "alice") as alice:
        retain_talk(alice)
        bob = alice.bank("bob")
        bob.retain_sync("The kettle is red.")
        before = exported(bob, tmp_path)
        alice.forget_sync(bank=True)
        assert bob.banks_sync() == ["bob"]
        assert exported(bob, tmp_path) == before
        assert alice.messages_sync() == []


def test_the_same_document_can_be_retained_again_after_it_was_forgotten(url: str) -> None:
    with open_memory(url) as memory:
        text = Message(content="The kettle is red.", timestamp=NOON)
        memory.retain_sync(text, document="kitchen")
        memory.forget_sync(document="kitchen")
        retained = memory.retain_sync(text, document="kitchen")
        assert retained.stored == (text.id,)
        assert [fact.id for fact in memory.facts_sync()] == list(retained.derived)
        assert memory.status_sync().pending == 0
        assert [hit.text for hit in memory.recall_sync("kettle").hits] == ["Document: The kettle is red."]


def test_a_second_reader_does_not_find_what_another_process_forgot(url: str) -> None:
    with open_memory(url) as memory, open_memory(url) as reader:
        retain_talk(memory)
        assert any("zebrafish" in hit.text for hit in reader.recall_sync(SECRET).hits)
        by_messages(memory)
        assert not any("zebrafish" in hit.text for hit in reader.recall_sync(SECRET).hits)


def test_forgetting_while_the_embedder_is_down_deletes_and_queues_the_neighbours(url: str, tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with open_memory(url, embedder=embedder) as memory:
        retain_talk(memory)
        embedder.broken = True
        with pytest.raises(Exception, match="the model's server is gone"):
            by_messages(memory)
        embedder.broken = False
        assert memory.status_sync().pending == 2
        assert_nowhere(memory, url, tmp_path, *SECRET.split())
        assert len(memory.process_sync().derived) == 2


def test_forgetting_a_missing_target_is_an_error_and_changes_nothing(url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        retain_talk(memory)
        before = exported(memory, tmp_path)
        for forget in (
            lambda: memory.forget_sync(messages=[TALK[0].id, "no-such-message"]),
            lambda: memory.forget_sync(document="no-such-document"),
            lambda: memory.forget_sync(entity="no-such-entity"),
        ):
            with pytest.raises(NotFound, match="no-such-"):
                forget()
        assert exported(memory, tmp_path) == before
        assert json.loads(before[0])["record"] == "bank"
