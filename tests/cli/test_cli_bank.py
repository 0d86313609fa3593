"""`vmemo bank`: listed, created, shown, configured and deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
PLAIN = {
    "name": "assistant",
    "disposition": {"skepticism": 3, "literalism": 3, "empathy": 3},
    "bias": 0.5,
    "background": "",
}
ADA = ("--name", "Ada", "--skepticism", "5", "--bias", "0.8", "--background", "I like [bold]order[/bold].")


def shown(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def names(invoke: Run, db: str, *options: str) -> list[str]:
    return [bank["id"] for bank in shown(invoke("bank", "list", *options, "--db", db, "--json"))["banks"]]


def test_a_bank_is_created_in_a_new_database(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "new.db")
    created = shown(invoke("bank", "create", "alice", "--db", db, "--json"))
    assert created == {"bank": "alice", "profile": PLAIN}
    assert names(invoke, db) == ["alice"]
    assert shown(invoke("profile", "--bank", "alice", "--history", "--db", db, "--json"))["history"] == []


def test_a_bank_is_created_with_a_profile(invoke: Run, db: str) -> None:
    wanted = PLAIN | {
        "name": "Ada",
        "disposition": {"skepticism": 5, "literalism": 3, "empathy": 3},
        "bias": 0.8,
        "background": "I like [bold]order[/bold].",
    }
    text = invoke("bank", "create", "tutor", *ADA, "--db", db).stdout
    assert text.startswith("Bank 'tutor' created.\n")
    assert "I like [bold]order[/bold]." in text
    assert shown(invoke("profile", "--bank", "tutor", "--db", db, "--json"))["profile"] == wanted


def test_creating_a_bank_that_exists_changes_nothing(invoke: Run, db: str) -> None:
    result = invoke("bank", "create", "default", "--name", "Ada", "--db", db)
    assert (result.exit_code, "`vmemo bank set` changes its profile" in result.stderr) == (1, True)
    assert shown(invoke("profile", "--db", db, "--json"))["profile"] == PLAIN


@pytest.mark.parametrize("arguments", [(" ",), ("new", "--name", " "), ("new", "--background", "x" * 601)])
def test_an_invalid_bank_is_not_created(invoke: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = invoke("bank", "create", *arguments, "--db", str(tmp_path / "new.db"))
    assert (result.exit_code, "is not valid" in result.stderr) == (1, True)
    assert not (tmp_path / "new.db").exists()


def test_banks_are_listed_in_pages(invoke: Run, db: str) -> None:
    for bank in ("team-b", "team-a", "zoe"):
        assert invoke("bank", "create", bank, "--db", db).exit_code == 0
    assert names(invoke, db) == ["default", "team-a", "team-b", "zoe"]
    assert names(invoke, db, "--prefix", "team-") == ["team-a", "team-b"]
    first = shown(invoke("bank", "list", "--limit", "3", "--db", db, "--json"))
    assert first["next"] == "team-b"
    assert shown(invoke("bank", "list", "--after", "team-b", "--db", db, "--json"))["next"] is None
    assert names(invoke, db, "--after", first["next"]) == ["zoe"]
    assert "--after team-b" in invoke("bank", "list", "--limit", "3", "--db", db).stdout
    assert "There are no banks." in invoke("bank", "list", "--prefix", "x", "--db", db).stdout


def test_the_list_shows_agents_and_their_characters(invoke: Run, db: str) -> None:
    invoke("bank", "create", "[bold]tutor[/bold]", *ADA, "--db", db)
    line = next(line for line in invoke("bank", "list", "--db", db).stdout.splitlines() if "tutor" in line)
    assert line.split()[:2] == ["[bold]tutor[/bold]", "Ada"]
    assert "skepticism 5, literalism 3, empathy 3, 0.80" in line


def test_banks_are_listed_without_a_default_bank(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "new.db")
    invoke("bank", "create", "alice", "--db", db)
    assert names(invoke, db) == ["alice"]
    assert shown(invoke("inspect", "banks", "--db", db, "--json")) == {"banks": ["alice"]}


def test_a_bank_is_shown_with_its_profile_and_counts(invoke: Run, db: str) -> None:
    found = shown(invoke("bank", "show", "default", "--db", db, "--json"))
    assert (found["bank"], found["profile"], found["status"]["messages"]) == ("default", PLAIN, 3)
    lines = [line.split() for line in invoke("bank", "show", "default", "--db", db).stdout.splitlines()]
    assert ["name", "assistant"] in lines
    assert ["messages", "3", "(0", "pending)"] in lines


def test_set_changes_given_fields_of_a_profile_and_keeps_the_former_one(invoke: Run, db: str) -> None:
    first = shown(invoke("bank", "set", "default", *ADA, "--db", db, "--json"))["profile"]
    second = shown(invoke("bank", "set", "default", "--empathy", "1", "--db", db, "--json"))["profile"]
    assert second == first | {"disposition": {"skepticism": 5, "literalism": 3, "empathy": 1}}
    assert "empathy 1" in invoke("bank", "set", "default", "--empathy", "1", "--db", db).stdout
    stored = shown(invoke("profile", "--history", "--db", db, "--json"))
    assert stored["profile"] == second
    assert [each["profile"] for each in stored["history"]] == [PLAIN, first]


@pytest.mark.parametrize("arguments", [(), ("--skepticism", "6"), ("--bias", "1.5")])
def test_set_without_a_valid_field_is_a_usage_error(invoke: Run, db: str, arguments: tuple[str, ...]) -> None:
    assert invoke("bank", "set", "default", *arguments, "--db", db).exit_code == 2
    assert shown(invoke("profile", "--db", db, "--json"))["profile"] == PLAIN


def test_a_bank_is_deleted_after_confirmation(invoke: Run, db: str) -> None:
    invoke("bank", "create", "other", "--db", db)
    kept = invoke("bank", "delete", "default", "--db", db, input="n\n")
    assert kept.exit_code == 1
    assert "Delete bank 'default' and everything in it permanently?" in kept.stderr
    assert names(invoke, db) == ["default", "other"]
    assert "3 messages" in invoke("bank", "delete", "default", "--db", db, input="y\n").stdout
    assert names(invoke, db) == ["other"]
    assert b"caraway" not in Path(db).read_bytes()
    assert shown(invoke("bank", "delete", "other", "--yes", "--db", db, "--json"))["messages"] == 0


@pytest.mark.parametrize("command", [("show",), ("set", "--empathy", "1"), ("delete", "--yes")])
def test_a_missing_bank_or_database_is_an_error(
    invoke: Run, filled: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    verb, *options = command
    missing = invoke("bank", verb, "nobody", *options, "--db", str(filled), "--json")
    assert (missing.exit_code, json.loads(missing.stderr)["error"]) == (1, "NotFound")
    assert invoke("bank", verb, "nobody", *options, "--db", str(tmp_path / "none.db")).exit_code == 1
    assert invoke("bank", "list", "--db", str(tmp_path / "none.db")).exit_code == 1
    assert not (tmp_path / "none.db").exists()
