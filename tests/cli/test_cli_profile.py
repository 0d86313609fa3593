"""`vmemo profile`: shown, changed, merged with a model, and its history."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from typer.testing import Result

from vmemo.testing import Refusal, ScriptedServer

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


def test_what_is_given_is_changed_and_the_rest_stays(invoke: Run, db: str) -> None:
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


def test_the_history_shows_who_the_bank_was(invoke: Run, db: str) -> None:
    assert shown(invoke("profile", "--history", "--db", db, "--json"))["history"] == []
    assert "It has never been another." in invoke("profile", "--history", "--db", db).stdout
    invoke("profile", "--name", "Ada", "--db", db)
    invoke("profile", "--name", "Ada", "--db", db)
    found = shown(invoke("profile", "--name", "Bea", "--history", "--db", db, "--json"))
    assert [each["profile"]["name"] for each in found["history"]] == ["assistant", "Ada"]
    assert found["profile"]["name"] == "Bea"
    text = invoke("profile", "--history", "--db", db).stdout
    assert "Ada" in text
    assert found["history"][0]["until"][:10] in text


def test_a_background_is_merged_by_the_model_and_what_was_told_stands_in_the_history(
    invoke: Run, db: str, llm: str
) -> None:
    invoke("profile", "--background", "I was born in Colorado. I like tea.", "--db", db)
    told = ("--add-background", "You were born in Texas.", "--name", "Ada")
    done = shown(invoke("profile", *told, "--db", db, "--llm", llm, "--history", "--json"))
    assert done["profile"] == PLAIN | {"name": "Ada", "background": "I was born in Texas. I like tea."}
    assert [each["reason"] for each in done["history"]] == ["", "You were born in Texas.", ""]
    text = invoke("profile", "--history", "--db", db).stdout
    assert "I was born in Colorado. I like tea." in text
    assert "You were born in Texas." in text


def test_merging_without_a_model_is_refused_and_says_so(invoke: Run, db: str) -> None:
    result = invoke("profile", "--add-background", "You paint.", "--name", "Ada", "--db", db)
    assert result.exit_code == 1
    assert "language model" in result.stderr
    assert shown(invoke("profile", "--db", db, "--json"))["profile"] == PLAIN


def test_a_model_that_fails_leaves_the_profile_as_it_was(
    invoke: Run, db: str, server: ScriptedServer, llm: str
) -> None:
    server.faults("background", [Refusal()])
    failed = invoke("profile", "--add-background", "You paint.", "--name", "Ada", "--db", db, "--llm", llm, "--json")
    assert (failed.exit_code, json.loads(failed.stderr)["error"]) == (1, "LLMRefused")
    assert shown(invoke("profile", "--history", "--db", db, "--json")) == {"profile": PLAIN, "history": []}


def test_only_merging_needs_the_models_key(invoke: Run, db: str) -> None:
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
def test_values_out_of_range_are_wrong_usage(invoke: Run, db: str, arguments: tuple[str, ...]) -> None:
    assert invoke("profile", *arguments, "--db", db).exit_code == 2
    assert shown(invoke("profile", "--db", db, "--json"))["profile"] == PLAIN


def test_a_profile_that_can_not_be_is_refused_and_nothing_is_merged(
    invoke: Run, db: str, server: ScriptedServer, llm: str
) -> None:
    for arguments in (("--name", " ", "--add-background", "You paint."), ("--background", "x" * 601)):
        result = invoke("profile", *arguments, "--db", db, "--llm", llm)
        assert (result.exit_code, "is not valid" in result.stderr) == (1, True)
    assert server.received == []


def test_a_profile_of_no_bank_is_not_made(invoke: Run, db: str, tmp_path: Path) -> None:
    for place in (("--db", db, "--bank", "nobody"), ("--db", str(tmp_path / "none.db"))):
        result = invoke("profile", "--name", "Ada", *place)
        assert (result.exit_code, "There is no" in result.stderr) == (1, True)
    assert not (tmp_path / "none.db").exists()
