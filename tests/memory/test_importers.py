"""Exports of other products: each format is imported once, with its times, speakers and ids, or not at all."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from builders import WordEmbedder, exported

from vmemo import InvalidInput, Memory, Message
from vmemo.models import MessageId
from vmemo.transfer.foreign import ForeignFormat

FIXTURES = Path(__file__).parents[1] / "fixtures" / "imports"


def _memory() -> Memory:
    return Memory(":memory:", embedder=WordEmbedder())


def _file(name: str, folder: Path) -> Path:
    """Return a fixture; the folders among them are archives."""
    if (FIXTURES / name).is_dir():
        return Path(shutil.make_archive(str(folder / name), "zip", FIXTURES / name))
    return FIXTURES / name


FILES: list[tuple[ForeignFormat, str]] = [
    ("mem0", "mem0.json"),
    ("zep", "zep.json"),
    ("hindsight", "hindsight"),
    ("chatgpt", "chatgpt.json"),
    ("claude", "claude.json"),
    ("chat", "chat.jsonl"),
]


@pytest.mark.parametrize(("format", "name"), FILES)
def test_importing_a_file_twice_adds_nothing(format: ForeignFormat, name: str, tmp_path: Path) -> None:
    file = _file(name, tmp_path)
    with _memory() as memory:
        first = memory.import_from_sync(file)
        before = exported(memory, tmp_path)
        again = memory.import_from_sync(file, format)
        assert first.stored
        assert first.derived
        assert (again.stored, again.derived) == ((), ())
        assert exported(memory, tmp_path) == before


def test_memories_of_mem0_are_facts_in_their_own_words() -> None:
    with _memory() as memory:
        memory.import_from_sync(FIXTURES / "mem0.json")
        facts = {fact.text: fact for fact in memory.facts_sync()}
        # Neither is a speaker added nor "last week" dated: the text was not written by the user.
        assert list(facts) == [
            "Works as a nurse at the harbour clinic",
            "Plays the cello on Sundays with Ines",
            "Moved to Tromsø last week",
            "Recommended the night train to Narvik",
        ]
        nurse, moved = facts["Works as a nurse at the harbour clinic"], facts["Moved to Tromsø last week"]
        assert nurse.tags == ("professional_details",)
        assert nurse.metadata["user_id"] == "mara"
        assert nurse.metadata["channel"] == "sms"
        assert nurse.valid_at == datetime(2024, 3, 2, 15, 15, 0, 123456, tzinfo=UTC)
        assert moved.valid_at == datetime(2024, 6, 11, 10, tzinfo=UTC)
        assert moved.mentioned_at == datetime(2024, 6, 12, 9, 30, tzinfo=UTC)
        assert facts["Recommended the night train to Narvik"].network == "experience"
        assert [message.speaker for message in memory.messages_sync()] == ["mara", "jonas", "mara", "travel-bot"]
        assert memory.messages_sync(document="mem0/chat-17")[0].content == "Moved to Tromsø last week"
        assert "harbour clinic" in memory.recall_sync("Where does the nurse work?").facts[0].text


def test_edges_of_zep_are_facts_and_invalidated_ones_are_closed() -> None:
    with _memory() as memory:
        memory.import_from_sync(FIXTURES / "zep.json")
        clinic, school = memory.facts_sync()
        assert clinic.text == "Mara works at the harbour clinic."
        assert (clinic.valid_at, clinic.invalid_at, clinic.expired_at) == (
            datetime(2024, 3, 1, tzinfo=UTC),
            datetime(2024, 9, 1, tzinfo=UTC),
            datetime(2024, 9, 1, 7, 0, 20, tzinfo=UTC),
        )
        assert school.invalid_at is None
        assert {"Mara", "School"} <= {mention.name for mention in school.entities}
        current = [fact.text for fact in memory.recall_sync("Where does Mara work?", networks=["world"]).facts]
        assert "Mara works at the school." in current
        assert "Mara works at the harbour clinic." not in current
        then = memory.recall_sync("Where does Mara work?", at_time="2024-05-01")
        assert "Mara works at the harbour clinic." in [fact.text for fact in then.facts]
        said = [message for message in memory.messages_sync() if message.document == "zep/thread-1"]
        assert [(message.role, message.speaker) for message in said] == [
            ("user", "Mara"),
            ("assistant", None),
            ("user", "Mara"),
        ]


def test_imported_facts_survive_reprocess() -> None:
    with _memory() as memory:
        memory.import_from_sync(FIXTURES / "zep.json")
        before = [(fact.text, fact.valid_at, fact.invalid_at, fact.expired_at) for fact in memory.facts_sync()]
        memory.reprocess_sync()
        after = [(fact.text, fact.valid_at, fact.invalid_at, fact.expired_at) for fact in memory.facts_sync()]
        assert after == before


def test_an_archive_of_hindsight_brings_its_facts_and_texts(tmp_path: Path) -> None:
    with _memory() as memory:
        imported = memory.import_from_sync(_file("hindsight", tmp_path))
        assert [skipped.what for skipped in imported.skipped] == ["3 observations"]
        boat, bees, bodo = memory.facts_sync()
        assert boat.text == "Mara sold her boat in May 2026."
        assert (boat.occurred_start, boat.occurred_end) == (
            datetime(2026, 5, 1, tzinfo=UTC),
            datetime(2026, 6, 1, tzinfo=UTC),
        )
        assert (boat.tags, boat.metadata) == (("user:mara",), {"channel": "web"})
        assert bees.network == "experience"
        # A document without facts is processed as any other text.
        assert "Ole lives in Bodø." in bodo.text
        memory.forget_sync(document="chat-1")
        assert [fact.text for fact in memory.facts_sync()] == [bodo.text]


def test_the_current_branch_of_chatgpt_conversations_is_imported_in_order_of_time() -> None:
    with _memory() as memory:
        memory.import_from_sync(FIXTURES / "chatgpt.json")
        said = memory.messages_sync()
        assert [(message.role, message.content) for message in said] == [
            ("user", "I am moving to Bergen in March."),
            ("assistant", "Bergen is rainy, pack a coat."),
            ("user", "I bake rye bread every Saturday."),
            ("assistant", "Rye dough needs a warm place."),
        ]
        assert said[0].timestamp == datetime(2024, 1, 1, 0, 0, 1, 250000, tzinfo=UTC)
        # A message without a time has that of the one before it.
        assert said[3].timestamp == said[2].timestamp
        assert said[0].document == "chatgpt/conv-a"
        assert said[0].metadata == {"title": "Moving"}


def test_claude_conversations_are_imported_without_thoughts_and_other_branches() -> None:
    with _memory() as memory:
        memory.import_from_sync(FIXTURES / "claude.json")
        assert [(message.role, message.content) for message in memory.messages_sync()] == [
            ("user", "I teach physics in Graz."),
            ("assistant", "A better answer about Graz."),
            ("user", "My tomatoes are called Sungold."),
            ("assistant", "Sungold is a sweet variety."),
        ]


def test_chat_files_are_imported_without_tool_calls() -> None:
    with _memory() as memory:
        imported = memory.import_from_sync(FIXTURES / "chat.jsonl")
        assert [(each.what, each.reason) for each in imported.skipped] == [("chat.jsonl: line 3", "it has no text")]
        assert [(message.role, message.speaker) for message in memory.messages_sync()] == [
            ("system", None),
            ("user", "Ana"),
            ("assistant", None),
        ]


def test_an_archive_of_conversations_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    shutil.copy(FIXTURES / "chatgpt.json", folder / "conversations.json")
    (folder / "user.json").write_text("{}")
    (folder / "picture.dat").write_bytes(b"\x00")
    archive = shutil.make_archive(str(tmp_path / "chatgpt"), "zip", folder)
    with _memory() as memory:
        assert len(memory.import_from_sync(archive).stored) == 4


def _archive(path: Path, text: str, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("conversations.json", text)
    return path.read_bytes()


def test_an_archive_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    content = _archive(path, (FIXTURES / "chatgpt.json").read_text())
    first, directory = content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02")

    def changed(header: int, entry: int, value: int) -> bytes:
        """Return the archive with a value in the header of its file and in its directory."""
        found = bytearray(content)
        found[first + header] = found[directory + entry] = value
        return bytes(found)

    broken = bytearray(content)
    broken[first + 60 : directory] = bytes(directory - first - 60)
    unreadable = {
        "encrypted, or compressed by a method": [changed(6, 8, 1), changed(8, 10, 99), changed(4, 6, 99)],
        "damaged archive": [bytes(broken)],
    }
    with _memory() as memory:
        for problem, archives in unreadable.items():
            for archive in archives:
                path.write_bytes(archive)
                with pytest.raises(InvalidInput, match=f"{problem}.*Nothing was imported"):
                    memory.import_from_sync(path)
        with zipfile.ZipFile(path, "w") as empty:
            empty.writestr("picture.dat", b"")
        with pytest.raises(InvalidInput, match=r"holds no \.json file"):
            memory.import_from_sync(path)
        assert memory.status_sync().messages == 0


def test_records_with_one_id_are_reported_as_what_became_of_them(tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    one, two = (
        {"id": "1", "memory": text, "created_at": f"2024-01-0{day}T00:00:00Z"}
        for text, day in (("Ana lives in Rome.", 1), ("Ana lives in Oslo.", 2))
    )
    with _memory() as memory:
        for records in ([one, two], [two, one]):
            file.write_text(json.dumps(records))
            result = memory.bank(records[0]["memory"]).import_from_sync(file)
            assert (len(result.stored), len(result.derived), len(result.skipped)) == (1, 1, 1)
            assert result.skipped[0].reason == "a later record of the file has the same id"
            assert [fact.text for fact in memory.bank(records[0]["memory"]).facts_sync()] == ["Ana lives in Oslo."]
        again = memory.bank(one["memory"]).import_from_sync(file)
        assert (again.stored, len(again.skipped)) == ((), 2)
        twice = memory.retain_sync(
            [Message(id=MessageId("a"), content="I like tea."), Message(id=MessageId("a"), content="I like jam.")]
        )
        assert (twice.stored, [each.what for each in twice.skipped]) == (("a",), ["a"])
        assert [message.content for message in memory.messages_sync()] == ["I like tea."]


def test_secrets_of_an_import_are_redacted(tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    key = "sk-aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD"
    file.write_text(json.dumps([{"id": "1", "memory": f"The key is {key}", "created_at": "2024-01-01T00:00:00Z"}]))
    with _memory() as memory:
        assert memory.import_from_sync(file).redacted == 1
        assert memory.facts_sync()[0].text == "The key is [redacted: api key]"


def _broken(name: str, change: Callable[[Any], object]) -> tuple[str, str]:
    """Return the name and the text of a fixture with a change."""
    value = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    change(value)
    return name, json.dumps(value)


def _set(*path: Any, to: object) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return change


MALFORMED = [
    (
        *_broken("mem0.json", _set("results", 2, "created_at", to="yesterday")),
        r"mem0\.json: results\[2\]\.created_at: ",
    ),
    (*_broken("mem0.json", _set("results", 1, "memory", to="  ")), r"results\[1\]: content: must not be empty"),
    (*_broken("mem0.json", _set("results", 3, to="text")), r"results\[3\]: "),
    (
        *_broken("zep.json", _set("threads", 0, "messages", 1, "created_at", to=None)),
        r"zep\.json: threads\[0\]\.messages\[1\]\.created_at: ",
    ),
    (*_broken("zep.json", _set("edges", 1, "valid_at", to="2024")), r"edges\[1\]\.valid_at: "),
    (
        *_broken("chatgpt.json", _set(1, "mapping", "a1", "message", "create_time", to="noon")),
        r"conversations\[1\]\.mapping\.a1\.message\.create_time: ",
    ),
    (
        *_broken("chatgpt.json", _set(0, "mapping", "b2", "parent", to="b4")),
        r"conversations\[0\]\.mapping: 'b4' is its own",
    ),
    (
        *_broken("chatgpt.json", _set(0, "current_node", to="gone")),
        r"conversations\[0\]\.current_node: 'gone' is not in",
    ),
    (
        *_broken("claude.json", _set(0, "chat_messages", 1, "sender", to="robot")),
        r"conversations\[0\]\.chat_messages\[1\]\.sender: must be human or assistant, not 'robot'",
    ),
    ("chat.jsonl", '{"role": "user", "content": "Hello"}\n{"role": "user"', r"chat\.jsonl: line 2: is not JSON"),
    (
        "chat.jsonl",
        '{"role": "user", "content": "I live in Oslo."}\n\n{"role": "robot", "content": "x"}',
        r"chat\.jsonl: line 3: role: ",
    ),
    ("mem0.json", '{"results": [', r"mem0\.json: is not JSON \(.* at line 1, column"),
    ("zep.json", b"\xff\xfe", r"zep\.json: is not UTF-8"),
    ("mem0.json", '{"rows": []}', "is of no format that can be recognised.*Name one: mem0"),
]


@pytest.mark.parametrize(("name", "text", "problem"), MALFORMED)
def test_a_malformed_file_changes_nothing_and_names_the_record(
    name: str, text: str | bytes, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with _memory() as memory:
        before = exported(memory, tmp_path)
        with pytest.raises(InvalidInput, match=problem) as caught:
            memory.import_from_sync(file)
        assert "Nothing was imported." in str(caught.value)
        assert exported(memory, tmp_path) == before


@pytest.mark.parametrize(
    ("member", "change", "problem"),
    [
        (
            "manifest.json",
            _set("schema_version", to=2),
            r"hindsight\.zip/manifest\.json: schema_version: must be 1, not 2",
        ),
        (
            "documents/000000.json",
            _set("facts", 1, "fact_type", to="rumour"),
            r"hindsight\.zip/documents/000000\.json: facts\[1\]\.fact_type: ",
        ),
    ],
)
def test_a_malformed_archive_changes_nothing(
    member: str, change: Callable[[Any], None], problem: str, tmp_path: Path
) -> None:
    folder = tmp_path / "hindsight"
    shutil.copytree(FIXTURES / "hindsight", folder)
    value = json.loads((folder / member).read_text())
    change(value)
    (folder / member).write_text(json.dumps(value))
    with _memory() as memory:
        with pytest.raises(InvalidInput, match=problem):
            memory.import_from_sync(_file(str(folder), tmp_path))
        assert memory.status_sync().messages == 0
