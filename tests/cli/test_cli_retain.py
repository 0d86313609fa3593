"""`vmemo retain`: texts, files, standard input, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from vmemo.cli.retain import CHUNK, split_text

Run = Callable[..., Result]


def messages(invoke: Run, db: str) -> list[dict[str, object]]:
    result = invoke("inspect", "messages", "--db", db, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["messages"]


def test_retain_stores_a_text_with_all_options(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "new.db")
    options = "--speaker Bo --role assistant --document d --timestamp 2024-05-01T10:00+02:00 --tag a --tag b".split()
    result = invoke("retain", "Hello there.", *options, "--meta", "n=3", "--meta", "who=Bo", "--no-infer", "--db", db)
    assert result.exit_code == 0, result.output
    (stored,) = messages(invoke, db)
    assert stored["speaker"] == "Bo"
    assert stored["role"] == "assistant"
    assert stored["document"] == "d"
    assert stored["timestamp"] == "2024-05-01T08:00:00Z"
    assert stored["tags"] == ["a", "b"]
    assert stored["metadata"] == {"n": 3, "who": "Bo"}
    assert stored["state"] == "raw"


def test_retain_reads_standard_input_for_a_dash(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "new.db")
    result = invoke("retain", "-", "--no-infer", "--db", db, input="Grüße aus Köln\n")
    assert "1 message stored" in result.stdout
    assert messages(invoke, db)[0]["content"] == "Grüße aus Köln"


def test_retaining_the_same_file_again_changes_nothing(invoke: Run, tmp_path: Path) -> None:
    db, file = str(tmp_path / "new.db"), tmp_path / "notes.txt"
    file.write_text("A note.\n\nAnother note.", encoding="utf-8")
    arguments = ("retain", "--file", str(file), "--document", "notes", "--no-infer", "--db", db)
    assert json.loads(invoke(*arguments, "--json").stdout)["skipped"] == []
    again = invoke(*arguments)
    assert "0 messages stored" in again.stdout
    assert "document 'notes' already contains this message" in again.stdout
    assert len(messages(invoke, db)) == 1


def test_json_lines_keep_their_values_and_take_options_as_defaults(invoke: Run, tmp_path: Path) -> None:
    db, file = str(tmp_path / "new.db"), tmp_path / "chat.jsonl"
    file.write_text('{"content": "Yes."}\n\n{"content": "Yes."}\n{"content": "No.", "speaker": "Cy"}\n')
    result = invoke("retain", "--file", str(file), "--speaker", "Bo", "--document", "d", "--no-infer", "--db", db)
    assert result.exit_code == 0, result.output
    said = [(message["speaker"], message["content"]) for message in messages(invoke, db)]
    assert said == [("Bo", "Yes."), ("Bo", "Yes."), ("Cy", "No.")]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("no json", "is not JSON"),
        ("[1]", "must be an object"),
        ('{"content": " "}', "must not be empty"),
        ('{"content": "x", "timestamp": "2024-05-01T10:00:00"}', "naive datetimes are refused"),
        ('{"content": "x", "mood": "good"}', "mood"),
    ],
)
def test_an_invalid_line_is_named_and_nothing_is_stored(invoke: Run, tmp_path: Path, line: str, complaint: str) -> None:
    db, file = tmp_path / "new.db", tmp_path / "chat.jsonl"
    file.write_text('{"content": "fine"}\n' + line)
    result = invoke("retain", "--file", str(file), "--db", str(db), "--json")
    error = json.loads(result.stderr)
    assert (result.exit_code, result.stdout, error["error"]) == (1, "", "InvalidInput")
    assert "line 2" in error["message"]
    assert complaint in error["message"]
    assert not db.exists()


def test_a_binary_file_is_refused(invoke: Run, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xff\xfe\x00")
    result = invoke("retain", "--file", str(tmp_path / "x.txt"), "--db", str(tmp_path / "new.db"))
    assert result.exit_code == 1
    assert "not UTF-8" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "either a text"),
        (("x", "--file", __file__), "either a text"),
        (("x", "--timestamp", "2024-05-01T10:00"), "has no time zone. Write 2024-05-01T10:00Z for UTC"),
        (("x", "--timestamp", "yesterday"), "is not a date and time in ISO 8601"),
        (("x", "--meta", "colour"), "KEY=VALUE"),
        (("x", "--role", "boss"), "boss"),
        (("--file", "/nowhere/file.txt"), "does not exist"),
    ],
)
def test_usage_errors_name_the_fix(invoke: Run, tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    db = tmp_path / "new.db"
    result = invoke("retain", *arguments, "--db", str(db))
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not db.exists()


def test_a_long_text_is_split_between_paragraphs_without_loss() -> None:
    text = "\n\n".join(f"Paragraph {n} " + "word " * (n % 40) for n in range(600))
    cut = list(split_text(text))
    assert len(cut) > 2
    assert all(len(piece) <= CHUNK and piece.startswith("Paragraph") for piece in cut)
    assert " ".join(cut).split() == text.split()


def test_chunks_stay_the_same_when_a_text_grows() -> None:
    text = "\n".join(f"line {n}" for n in range(8000))
    assert list(split_text(text + "\nand more"))[:-1] == list(split_text(text))[:-1]


def test_a_text_without_breaks_is_split_at_the_limit() -> None:
    assert [len(piece) for piece in split_text("x" * (2 * CHUNK + 5))] == [CHUNK, CHUNK, 5]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_json_file_is_read_as_chat_messages(invoke: Run, tmp_path: Path, wrapped: bool) -> None:
    db, file = str(tmp_path / "new.db"), tmp_path / "chat.json"
    chat: list[dict[str, object]] = [
        {"role": "user", "content": [{"type": "text", "text": "I like tea."}]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": "Noted.", "name": "Bo"},
    ]
    file.write_text(json.dumps({"messages": chat} if wrapped else chat, indent=2))
    arguments = ("--speaker", "Ana", "--timestamp", "2024-05-01", "--no-infer")
    result = invoke("retain", "--file", str(file), *arguments, "--db", db)
    assert result.exit_code == 0, result.output
    assert "skipped message 2: it has no text" in result.stdout
    said = [(message["speaker"], message["content"], message["timestamp"]) for message in messages(invoke, db)]
    assert said == [("Ana", "I like tea.", "2024-05-01T00:00:00Z"), ("Bo", "Noted.", "2024-05-01T00:00:00Z")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ('{"theme": "dark"}', "must be a list of messages"),
        ('[{"content": "fine"}, 5]', "messages[1]: must be an object"),
        ('[{"content": "fine"}, {"content": ""}]', "messages[1]: "),
    ],
)
def test_an_invalid_json_file_changes_nothing(invoke: Run, tmp_path: Path, content: str, complaint: str) -> None:
    db, file = tmp_path / "new.db", tmp_path / "chat.json"
    file.write_text(content)
    result = invoke("retain", "--file", str(file), "--db", str(db), "--json")
    assert complaint in json.loads(result.stderr)["message"]
    assert not db.exists()
