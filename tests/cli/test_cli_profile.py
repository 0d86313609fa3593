"""`vmemo profile`: shown, changed, merged with a model, and its history."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from typer.testing import Result

from vmemo_conformance.fake_llm import Refusal
from vmemo_conformance.llm_server import ScriptedServer

Run = Callable[..., Result]
PLAIN = {
    "name": "assistant",
    "disposition": {"skepticism": 3, "literalism": 3, "empathy": 3},
    "bias": 0.5,
    "background": "",
}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    merged: JsonValue = {"background": "I was born in Texas. I like tea.", "replaced": ["born in Colorado"]}
    with ScriptedServer({"background": merged}) as running:
        yield running


@pytest.fixture
def llm(server: ScriptedServer) -> str:
    return f"{server.url}#scripted"


def shown(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_profile_is_shown(invoke: Run, db: str) -> None:
    assert shown(invoke("profile", "--db", db, "--json")) == {"profile": PLAIN}
    lines = invoke("profile", "--db", db).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["name", "assistant"],
        ["disposition", "skepticism", "3,", "literalism", "3,", "empathy", "3"],
        ["bias", "0.50"],
        ["background", "(none)"],
    ]


def test_given_profile_fields_change_and_the_others_stay(invoke: Run, db: str) -> None:
    changes = ("--name", "Ada", "--skepticism", "5", "--bias", "0", "--background", "I like [bold]order[/bold].")
    first = shown(invoke("profile", *changes, "--db", db, "--json"))["profile"]
    assert first == PLAIN | {
        "name": "Ada",
        "disposition": {"skepticism": 5, "literalism": 3, "empathy": 3},
        "bias": 0.0,
        "background": "I like [bold]order[/bold].",
    }
    second = shown(invoke("profile", "--literalism", "1", "--empathy", "2", "--db", db, "--json"))["profile"]
    assert second == first | {"disposition": {"skepticism": 5, "literalism": 1, "empathy": 2}}
    assert shown(invoke("profile", "--db", db, "--json"))["profile"] == second
    assert "I like [bold]order[/bold]." in invoke("profile", "--db", db).stdout
    assert shown(invoke("profile", "--background", "", "--db", db, "--json"))["profile"]["background"] == ""


def test_profile_history_shows_former_profiles(invoke: Run, db: str) -> None:
    assert shown(invoke("profile", "--history", "--db", db, "--json"))["history"] == []
    assert "There are no former profiles." in invoke("profile", "--history", "--db", db).stdout
    invoke("profile", "--name", "Ada", "--db", db)
    invoke("profile", "--name", "Ada", "--db", db)
    found = shown(invoke("profile", "--name", "Bea", "--history", "--db", db, "--json"))
    assert [each["profile"]["name"] for each in found["history"]] == ["assistant", "Ada"]
    assert found["profile"]["name"] == "Bea"
    text = invoke("profile", "--history", "--db", db).stdout
    assert "Ada" in text
    assert found["history"][0]["until"][:10] in text


def test_a_merged_background_keeps_the_snippet_in_the_history(invoke: Run, db: str, llm: str) -> None:
    invoke("profile", "--background", "I was born in Colorado. I like tea.", "--db", db)
    told = ("--add-background", "You were born in Texas.", "--name", "Ada")
    done = shown(invoke("profile", *told, "--db", db, "--llm", llm, "--history", "--json"))
    assert done["profile"] == PLAIN | {"name": "Ada", "background": "I was born in Texas. I like tea."}
    assert [each["reason"] for each in done["history"]] == ["", "You were born in Texas.", ""]
    text = invoke("profile", "--history", "--db", db).stdout
    assert "I was born in Colorado. I like tea." in text
    assert "You were born in Texas." in text


def test_merging_a_background_requires_a_model(invoke: Run, db: str) -> None:
    result = invoke("profile", "--add-background", "You paint.", "--name", "Ada", "--db", db)
    assert result.exit_code == 1
    assert "language model" in result.stderr
    assert shown(invoke("profile", "--db", db, "--json"))["profile"] == PLAIN


def test_a_model_failure_leaves_the_profile_unchanged(invoke: Run, db: str, server: ScriptedServer, llm: str) -> None:
    server.faults("background", [Refusal()])
    failed = invoke("profile", "--add-background", "You paint.", "--name", "Ada", "--db", db, "--llm", llm, "--json")
    assert (failed.exit_code, json.loads(failed.stderr)["error"]) == (1, "LLMRefused")
    assert shown(invoke("profile", "--history", "--db", db, "--json")) == {"profile": PLAIN, "history": []}


def test_only_merging_a_background_needs_the_model_key(invoke: Run, db: str) -> None:
    environment = {"VMEMO_LLM": "openai:gpt-5-mini", "OPENAI_API_KEY": ""}
    assert invoke("profile", "--name", "Ada", "--db", db, **environment).exit_code == 0
    refused = invoke("profile", "--add-background", "You paint.", "--db", db, **environment)
    assert (refused.exit_code, "set OPENAI_API_KEY" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--skepticism", "6"),
        ("--empathy", "0"),
        ("--literalism", "high"),
        ("--bias", "1.5"),
        ("--background", "I paint.", "--add-background", "You paint."),
    ],
)
def test_profile_values_out_of_range_are_usage_errors(invoke: Run, db: str, arguments: tuple[str, ...]) -> None:
    assert invoke("profile", *arguments, "--db", db).exit_code == 2
    assert shown(invoke("profile", "--db", db, "--json"))["profile"] == PLAIN


def test_an_invalid_profile_is_refused_before_merging(invoke: Run, db: str, server: ScriptedServer, llm: str) -> None:
    for arguments in (("--name", " ", "--add-background", "You paint."), ("--background", "x" * 601)):
        result = invoke("profile", *arguments, "--db", db, "--llm", llm)
        assert (result.exit_code, "is not valid" in result.stderr) == (1, True)
    assert server.received == []


def test_profile_of_a_missing_bank_is_an_error(invoke: Run, db: str, tmp_path: Path) -> None:
    missing_bank = invoke("profile", "--name", "Ada", "--db", db, "--bank", "nobody")
    assert (missing_bank.exit_code, "There is no bank 'nobody'" in missing_bank.stderr) == (1, True)
    missing_database = invoke("profile", "--name", "Ada", "--db", str(tmp_path / "none.db"))
    assert (missing_database.exit_code, "does not exist" in missing_database.stderr) == (1, True)
    assert not (tmp_path / "none.db").exists()
