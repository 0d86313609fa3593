"""Embedders by name on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from vmemo_conformance.fake_llm import StatusResponse
from vmemo_conformance.llm_server import ScriptedServer

Run = Callable[..., Result]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ScriptedServer({}) as running:
        yield running


def checks(result: Result) -> dict[str, tuple[str, str]]:
    return {check["check"]: (check["state"], check["detail"]) for check in json.loads(result.stdout)["checks"]}


def test_retain_and_recall_take_an_embedder(invoke: Run, tmp_path: Path, server: ScriptedServer) -> None:
    db, name = str(tmp_path / "x.db"), f"{server.url}#m"
    assert invoke("retain", "Maya has a cat named Pixel.", "--db", db, "--embedder", name).exit_code == 0
    found = invoke("recall", "Which cat?", "--db", db, "--json", VMEMO_EMBEDDER=name)
    assert "Pixel" in found.stdout
    assert {received.step for received in server.received} == {"embed"}


def test_reembed_switches_a_bank_and_back(invoke: Run, db: str, server: ScriptedServer) -> None:
    name = "openai:text-embedding-3-small"
    around = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": server.url}
    refused = invoke("recall", "Where does Ana work?", "--db", db, "--embedder", name, **around)
    assert refused.exit_code == 1
    command = re.search(r"`vmemo (reembed [^`]*)`", refused.stderr)
    assert command is not None
    assert command[1] == f"reembed --bank default --embedder {name}"
    done = invoke(*command[1].split(), "--db", db, "--json", **around)
    assert json.loads(done.stdout)["facts"] == 3
    found = invoke("recall", "Where does Ana work?", "--db", db, "--embedder", name, **around)
    assert "Contoso" in found.stdout
    assert "sk-secret" not in refused.stderr + done.output + found.output
    assert invoke("reembed", "--db", db).exit_code == 0
    assert "Contoso" in invoke("recall", "Where does Ana work?", "--db", db).stdout


def test_commands_that_embed_nothing_work_on_a_bank_of_any_embedder(
    invoke: Run, db: str, server: ScriptedServer
) -> None:
    invoke("reembed", "--db", db, "--embedder", f"{server.url}#m")
    before = len(server.received)
    facts = json.loads(invoke("inspect", "facts", "--db", db, "--json").stdout)["facts"]
    for command in (
        ("inspect",),
        ("why", facts[0]["id"]),
        ("entity", "list"),
        ("jobs",),
        ("opinions",),
        ("profile",),
        ("bank", "show", "default"),
        ("bank", "set", "default", "--name", "Ada"),
        ("forget", "--document", "first", "--yes"),
        ("bank", "delete", "default", "--yes"),
    ):
        result = invoke(*command, "--db", db, VMEMO_EMBEDDER="openai:m")
        assert result.exit_code == 0, (command, result.output)
    assert len(server.received) == before


def test_a_missing_key_is_named(invoke: Run, db: str) -> None:
    result = invoke("recall", "x", "--db", db, "--embedder", "voyage:voyage-3.5", VOYAGE_API_KEY="")
    assert result.exit_code == 1
    assert "set VOYAGE_API_KEY or VMEMO_EMBEDDER_KEY" in result.stderr


def test_doctor_calls_the_embedder_only_with_embedder_check(invoke: Run, db: str, server: ScriptedServer) -> None:
    name = f"{server.url}#m"
    quiet = checks(invoke("doctor", "--db", db, "--json", "--embedder", name))
    assert "--embedder-check sends one text" in quiet["embedder"][1]
    assert "vmemo reembed --bank default --embedder URL#m" in quiet["bank default"][1]
    assert server.received == []
    asked = checks(invoke("doctor", "--db", db, "--json", "--embedder", name, "--embedder-check"))
    assert asked["embedder"] == ("ok", f"{name[7:].replace('/v1', '')} answers, 64 dimensions")
    server.faults("embed", [StatusResponse(401)])
    failed = invoke("doctor", "--db", db, "--json", "--embedder", name, "--embedder-check")
    assert failed.exit_code == 1
    assert "check the API key" in checks(failed)["embedder"][1]
    unmade = checks(invoke("doctor", "--db", db, "--json", "--embedder", "openai:m", "--llm", "openai:gpt"))
    assert [unmade[name][0] for name in ("engine", "embedder")] == ["fail", "fail"]
