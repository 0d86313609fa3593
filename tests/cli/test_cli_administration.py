"""fact, forget, reembed, export, import and doctor."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from vmemo import Memory

Run = Callable[..., Result]


def counted(invoke: Run, db: str) -> int:
    return json.loads(invoke("inspect", "--db", db, "--json").stdout)["messages"]


def checks(result: Result) -> dict[str, tuple[str, str]]:
    return {line["check"]: (line["state"], line["detail"]) for line in json.loads(result.stdout)["checks"]}


def test_forget_asks_for_confirmation_and_keeps_everything_on_no(invoke: Run, db: str) -> None:
    result = invoke("forget", "--document", "second", "--db", db, input="n\n")
    assert result.exit_code == 1
    assert "Delete document 'second' from bank 'default' permanently?" in result.stderr
    assert counted(invoke, db) == 3


def test_forget_deletes_after_confirmation(invoke: Run, db: str) -> None:
    result = invoke("forget", "--document", "second", "--db", db, input="y\n")
    assert result.exit_code == 0, result.output
    assert "2 messages" in result.stdout
    assert counted(invoke, db) == 1
    assert b"caraway" not in Path(db).read_bytes()


def test_forget_without_a_terminal_changes_nothing(invoke: Run, db: str) -> None:
    assert invoke("forget", "--all", "--db", db, input="").exit_code == 1
    assert counted(invoke, db) == 3


def test_forget_deletes_messages_by_id(invoke: Run, db: str) -> None:
    ids = [m["id"] for m in json.loads(invoke("inspect", "messages", "--db", db, "--json").stdout)["messages"]]
    result = invoke("forget", "--message", ids[0], "--message", ids[2], "--yes", "--db", db, "--json")
    assert json.loads(result.stdout)["messages"] == 2
    assert counted(invoke, db) == 1


def test_forget_deletes_an_entity_by_name(invoke: Run, db: str) -> None:
    assert invoke("forget", "--entity", "Bo", "--yes", "--db", db).exit_code == 0
    assert counted(invoke, db) == 2


@pytest.mark.parametrize("arguments", [(), ("--all", "--document", "d"), ("--entity", "Bo", "--message", "x")])
def test_forget_requires_exactly_one_target(invoke: Run, filled: Path, arguments: tuple[str, ...]) -> None:
    result = invoke("forget", *arguments, "--yes", "--db", str(filled))
    assert result.exit_code == 2
    assert "exactly one" in result.stderr


def test_a_fact_is_corrected_from_a_day_in_the_past_and_only_its_current_version_is_pinned(
    invoke: Run, db: str
) -> None:
    found = json.loads(invoke("inspect", "facts", "--db", db, "--json").stdout)["facts"][0]
    old, since = found["id"], found["valid_at"][:10]
    arguments = ("fact", "update", old, "Bo sells honey.", "--db", db, "--json")
    new = json.loads(invoke(*arguments, "--valid-at", since).stdout)["id"]
    history = invoke("fact", "history", old, "--db", db).stdout
    assert "never" in history
    assert f"since {since}" in history
    refused = invoke("fact", "pin", old, "--db", db)
    assert refused.exit_code != 0
    assert f"replaced by {new}" in " ".join(refused.stderr.split())
    assert json.loads(invoke("fact", "pin", new, "--db", db, "--json").stdout)["pinned"]
    late = invoke(*arguments[:2], new, "Bo sells wax.", "--db", db, "--valid-at", "2999-01-01")
    assert "in the future" in " ".join(late.stderr.split())


def test_an_exported_bank_is_imported_under_another_name(invoke: Run, db: str, tmp_path: Path) -> None:
    file = str(tmp_path / "backup.jsonl")
    exported = json.loads(invoke("export", file, "--db", db, "--json").stdout)
    assert exported["records"] == len(Path(file).read_text(encoding="utf-8").splitlines())
    result = invoke("import", file, "--bank", "again", "--db", db)
    assert "3 messages imported into bank 'again'" in result.stdout
    assert json.loads(invoke("inspect", "banks", "--db", db, "--json").stdout) == {"banks": ["again", "default"]}
    twice = invoke("import", file, "--bank", "again", "--db", db, "--json")
    assert twice.exit_code == 1
    assert "holds messages already" in json.loads(twice.stderr)["message"]


def test_the_export_of_another_product_is_added_to_a_bank(invoke: Run, db: str, tmp_path: Path) -> None:
    memories = [{"id": "1", "memory": "Plays the cello", "user_id": "mara", "created_at": "2024-01-01T00:00:00Z"}]
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(memories))
    result = invoke("import", str(file), "--from", "mem0", "--db", db)
    assert "1 message stored, 1 fact derived" in result.stdout
    again = json.loads(invoke("import", str(file), "--db", db, "--json").stdout)
    assert (again["stored"], len(again["skipped"])) == ([], 1)
    file.write_text(json.dumps([*memories, {"id": "2"}]))
    broken = invoke("import", str(file), "--db", db, "--json")
    assert broken.exit_code == 1
    assert "mem0.json: memories[1].memory: " in json.loads(broken.stderr)["message"]


def test_export_does_not_overwrite_a_file_without_force(invoke: Run, db: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    file.write_text("precious")
    assert invoke("export", str(file), "--db", db).exit_code == 2
    assert file.read_text() == "precious"
    assert invoke("export", str(file), "--force", "--db", db).exit_code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_an_export_belongs_to_its_owner_alone(invoke: Run, db: str, tmp_path: Path, umask: int) -> None:
    file, partial = tmp_path / "x.jsonl", tmp_path / "x.jsonl.partial"
    for readable in (file, partial):
        readable.write_text("left by another run", encoding="utf-8")
        readable.chmod(0o666)
    before = os.umask(umask)
    try:
        assert invoke("export", str(file), "--force", "--db", db).exit_code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not partial.exists()
    assert file.read_text(encoding="utf-8").startswith("{")


def test_export_to_a_missing_folder_is_an_error_without_a_traceback(invoke: Run, db: str, tmp_path: Path) -> None:
    result = invoke("export", str(tmp_path / "nowhere" / "x.jsonl"), "--db", db)
    assert result.exit_code == 1
    assert "No such file or directory" in result.stderr
    assert "Traceback" not in result.stderr


def test_reembed_reports_the_number_of_facts(invoke: Run, db: str) -> None:
    result = invoke("reembed", "--db", db, "--json")
    assert json.loads(result.stdout) == {"bank": "default", "facts": 3}


def test_doctor_passes_on_a_sound_database(invoke: Run, filled: Path) -> None:
    result = invoke("doctor", "--db", str(filled), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["ok"] is True
    states = {name: state for name, (state, _) in checks(result).items()}
    wanted = "python sqlite model tokens engine database schema integrity scrub size".split()
    assert states == dict.fromkeys([*wanted, "bank default"], "ok")


def test_doctor_does_not_create_a_database(invoke: Run, tmp_path: Path) -> None:
    result = invoke("doctor", "--db", str(tmp_path / "none.db"))
    assert result.exit_code == 0
    assert "warn  database" in result.stdout
    assert not (tmp_path / "none.db").exists()


def test_doctor_warns_about_pending_messages(invoke: Run, db: str) -> None:
    with Memory(f"sqlite:///{db}") as memory:
        memory.add_message_sync("Not read yet.")
    result = invoke("doctor", "--db", db, "--json")
    assert checks(result)["bank default"] == ("warn", "1 message pending; vmemo process --bank default processes them")
    assert result.exit_code == 0


def test_doctor_fails_on_a_file_that_is_not_a_database(invoke: Run, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all " * 100)
    result = invoke("doctor", "--db", str(tmp_path / "x.db"), "--json")
    assert result.exit_code == 1
    assert checks(result)["database"][0] == "fail"


def test_doctor_fails_on_a_damaged_database(invoke: Run, db: str) -> None:
    content = bytearray(Path(db).read_bytes())
    page = int.from_bytes(content[16:18], "big")
    content[page * 4 : page * 12] = b"\xa5" * (page * 8)
    Path(db).write_bytes(content)
    result = invoke("doctor", "--db", db, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["ok"] is False


def test_doctor_completes_a_scrub_that_a_reader_delayed(invoke: Run, db: str) -> None:
    reader = sqlite3.connect(db, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM messages").fetchone()
    delayed = invoke("forget", "--document", "second", "--yes", "--db", db, "--json", VMEMO_BUSY_TIMEOUT="0.05")
    assert json.loads(delayed.stdout)["scrub_pending"] is True
    still = invoke("doctor", "--db", db, "--json", VMEMO_BUSY_TIMEOUT="0.05")
    assert checks(still)["scrub"][0] == "warn"
    reader.close()
    result = invoke("doctor", "--db", db, "--json")
    assert checks(result)["scrub"][0] == "ok"
    assert b"caraway" not in Path(db).read_bytes()
    assert checks(invoke("doctor", "--db", db, "--json"))["scrub"][1] == "no deleted text is left in the file"


def test_webhooks_are_added_listed_and_deleted(invoke: Run, db: str) -> None:
    address = "https://app.example/hook"
    added = invoke("webhook", "add", address, "--event", "retained", "--db", db)
    assert added.exit_code == 0, added.output
    assert added.stdout.startswith("whsec_")
    [listed] = json.loads(invoke("webhook", "list", "--db", db, "--json").stdout)["webhooks"]
    assert (listed["url"], listed["events"], "secret" in listed) == (address, ["retained"], False)
    assert address in invoke("webhook", "list", "--db", db).stdout
    assert invoke("webhook", "delete", listed["id"], "--db", db).exit_code == 0
    assert "There are no webhooks." in invoke("webhook", "list", "--db", db).stdout
    refused = invoke("webhook", "add", "http://app.example/hook", "--db", db)
    assert refused.exit_code != 0
    assert "must start with https://" in refused.stderr
