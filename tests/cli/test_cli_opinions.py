"""Entities, opinions and observations on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted import Reader, fact
from typer.testing import Result

from vmemo import Memory, Settings
from vmemo.models import records
from vmemo.reflect import profiles
from vmemo_conformance.llm_server import ScriptedServer

Run = Callable[..., Result]
PYTHON, ANA = ("Python", "PRODUCT"), ("Ana", "PERSON")
TAUGHT = {
    "is best": fact("I believe Python is best for data.", PYTHON, kind="opinion", confidence=0.7),
    "polars": fact("Python got polars, a fast data library.", PYTHON),
    "Leeds": fact("Ana lives in Leeds.", ANA),
    "bread": fact("Ana bakes rye bread on Sundays.", ANA),
    "choir": fact("Ana sings in a choir.", ANA),
}


def shown(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def ids(invoke: Run, db: str) -> dict[str, str]:
    found = json.loads(invoke("entity", "list", "--db", db, "--json").stdout)["entities"]
    return {entity["name"]: entity["id"] for entity in found}


@pytest.fixture(scope="module")
def read(invoke: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bank with an opinion that news have moved, and one person of whom three facts are known."""
    folder = tmp_path_factory.mktemp("beliefs")
    db = str(folder / "x.db")
    lines = [
        {"role": "assistant", "content": "Python is best for data.", "timestamp": "2024-01-01T09:00Z"},
        {"speaker": "Bo", "content": "There is polars now.", "timestamp": "2024-02-01T09:00Z"},
        {"speaker": "Ana", "content": "I live in Leeds.", "timestamp": "2024-03-01T09:00Z"},
        {"speaker": "Ana", "content": "I bake bread on Sundays.", "timestamp": "2024-04-01T09:00Z"},
        {"speaker": "Ana", "content": "I sing in a choir.", "timestamp": "2024-05-01T09:00Z"},
    ]
    with ScriptedServer(Reader(TAUGHT)) as server:
        for number, line in enumerate(lines):
            file = folder / f"{number}.jsonl"
            file.write_text(json.dumps(line), encoding="utf-8")
            result = invoke("retain", "--file", str(file), "--db", db, "--llm", f"{server.url}#scripted")
            assert result.exit_code == 0, result.output
    return db


def test_opinions_are_listed_with_their_confidence(invoke: Run, read: str) -> None:
    (opinion,) = shown(invoke("opinions", "--db", read, "--json"))["opinions"]
    assert (opinion["text"], opinion["confidence"]) == ("I believe Python is best for data.", 0.85)
    assert "0.85" in invoke("opinions", "--db", read).stdout


def test_opinions_why_shows_the_confidence_history(invoke: Run, read: str) -> None:
    (opinion,) = shown(invoke("opinions", "--db", read, "--json"))["opinions"]
    (move,) = shown(invoke("opinions", "--why", opinion["id"], "--db", read, "--json"))["confidence_changes"]
    assert (move["stance"], move["before"], move["after"]) == ("reinforce", 0.7, 0.85)
    told = invoke("opinions", "--why", opinion["id"], "--db", read).stdout
    assert "0.70 → 0.85" in told
    assert move["evidence"][0] in told


def test_opinions_why_rejects_an_id_that_is_not_an_opinion(invoke: Run, read: str) -> None:
    fact = json.loads(invoke("inspect", "facts", "--limit", "2", "--db", read, "--json").stdout)["facts"][1]
    assert fact["network"] == "world"
    for id, said in ((fact["id"], "is not an opinion"), ("nowhere", "There is no fact")):
        result = invoke("opinions", "--why", id, "--db", read)
        assert (result.exit_code, said in result.stderr) == (1, True)


def test_empty_lists_of_opinions_and_observations_are_reported(invoke: Run, filled: Path) -> None:
    assert invoke("opinions", "--db", str(filled)).stdout == "There are no opinions.\n"
    assert invoke("observations", "--db", str(filled)).stdout == "There are no observations.\n"


def test_observation_jobs_stay_queued_until_they_are_due(invoke: Run, read: str) -> None:
    assert shown(invoke("observations", "--db", read, "--json")) == {"observations": []}
    queued = shown(invoke("jobs", "--db", read, "--json"))["jobs"]
    assert {job["kind"] for job in queued} == {"observe"}


def test_observations_are_listed_for_one_entity_or_all(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = str(tmp_path / "x.db")
    monkeypatch.setattr(records, "PERSON_FACTS", 3)
    monkeypatch.setattr(profiles, "LEAST_NEW_FACTS", 3)
    at_once = Settings(observe_delay=0.0, background=False)
    with (
        ScriptedServer(Reader(TAUGHT)) as server,
        Memory(f"sqlite:///{db}", llm=f"{server.url}#scripted", settings=at_once) as memory,
    ):
        for said in ("I live in Leeds.", "I bake bread on Sundays.", "I sing in a choir."):
            memory.retain_sync(said, speaker="Ana")
        memory.process_sync()
    everything = shown(invoke("observations", "--db", db, "--json"))["observations"]
    assert {each["text"] for each in everything} >= {"Recorded: Ana sings in a choir."}
    assert shown(invoke("observations", "Ana", "--db", db, "--json"))["observations"] == everything
    assert "Recorded: Ana lives in Leeds." in invoke("observations", "Ana", "--db", db).stdout
    nobody = invoke("observations", "Nobody", "--db", db)
    assert (nobody.exit_code, "There is no entity 'Nobody'" in nobody.stderr) == (1, True)


def test_entities_are_merged_and_the_merge_is_undone(invoke: Run, db: str) -> None:
    before = ids(invoke, db)
    assert {"Ana", "Bo"} <= before.keys()
    merged = shown(invoke("entity", "merge", "Ana", "Bo", "--reason", "a test", "--db", db, "--json"))
    assert (merged["absorbed"], merged["reason"]) == (before["Bo"], "a test")
    assert "Bo" not in ids(invoke, db)
    listed = invoke("entity", "merges", "--db", db).stdout
    assert "a test" in listed
    assert str(merged["id"]) in listed
    parted = shown(invoke("entity", "undo", str(merged["id"]), "--db", db, "--json"))
    assert parted == {"merge": merged["id"], "entity": ids(invoke, db)["Bo"]}
    (undone,) = shown(invoke("entity", "merges", "--db", db, "--json"))["merges"]
    assert undone["undone_at"]


def test_entity_merge_prints_the_undo_command(invoke: Run, db: str) -> None:
    said = invoke("entity", "merge", "Ana", "Bo", "--db", db).stdout
    assert "Merged Bo into Ana." in said
    undo = said.partition("vmemo ")[2].split()
    assert "is separate again" in invoke(*undo, "--db", db).stdout


def test_merging_an_unknown_entity_is_an_error(invoke: Run, db: str) -> None:
    for arguments in (("merge", "Ana", "Nobody"), ("undo", "nothing")):
        result = invoke("entity", *arguments, "--db", db)
        assert result.exit_code == 1
        assert "There is no" in result.stderr
    assert invoke("entity", "merges", "--db", db).stdout == "There are no merges.\n"


def test_entity_list_is_paged(invoke: Run, db: str) -> None:
    first = shown(invoke("entity", "list", "--limit", "1", "--db", db, "--json"))
    second = shown(invoke("entity", "list", "--limit", "1", "--after", str(first["next"]), "--db", db, "--json"))
    assert first["entities"] != second["entities"]
    assert f"--after {first['next']}" in invoke("entity", "list", "--limit", "1", "--db", db).stdout
