"""The commands on a database server, one after another, as they are on a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import Result

from vmemo import Memory

Run = Callable[..., Result]


@pytest.fixture(params=["postgres_url", pytest.param("neo4j_url", marks=pytest.mark.neo4j)])
def server_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database of the test's own, on each server in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def vmemo(invoke: Run, server_url: str) -> Run:
    """Run a command on the server's database; no output may hold the password."""
    password = str(urlsplit(server_url).password)

    def run(*arguments: str, input: str | None = None, **environment: str) -> Result:
        result = invoke(*arguments, "--db", server_url, input=input, **environment)
        assert password not in result.output + result.stderr
        return result

    return run


def told(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_every_command_works_on_a_server(vmemo: Run, server_url: str, tmp_path: Path) -> None:
    said = "I left Northwind last Friday. Bo found me a job at Contoso."
    retained = told(vmemo("retain", said, "--speaker", "Ana", "--document", "first", "--json"))
    assert len(retained["stored"]) == 1  # pyright: ignore[reportArgumentType]
    told(vmemo("retain", "My bread needs caraway.", "--speaker", "Ana", "--document", "second", "--json"))
    assert "Contoso" in vmemo("recall", "Where does Ana work?").stdout
    assert "Contoso" in vmemo("reflect", "Where does Ana work?").stdout
    with Memory(server_url) as memory:
        memory.add_message_sync("I play the cello.", speaker="Ana")
    assert told(vmemo("worker", "--once", "--json")) == {"done": 1, "failed": 0}
    assert told(vmemo("inspect", "--json"))["facts"] == 3
    assert told(vmemo("forget", "--document", "second", "--yes", "--json"))["messages"] == 1
    assert "caraway" not in vmemo("recall", "What does the bread need?").stdout
    assert vmemo("export", str(tmp_path / "ana.jsonl")).exit_code == 0
    assert vmemo("import", str(tmp_path / "ana.jsonl"), "--bank", "copy").exit_code == 0
    assert vmemo("export", str(tmp_path / "copy.jsonl"), "--bank", "copy").exit_code == 0
    whole, copy = ((tmp_path / name).read_text("utf-8").splitlines() for name in ("ana.jsonl", "copy.jsonl"))
    assert whole[1:] == copy[1:]


def test_doctor_checks_a_database_and_its_banks(vmemo: Run, server_url: str) -> None:
    vmemo("retain", "I play the cello.", "--speaker", "Ana")
    lines = told(vmemo("doctor", "--json"))
    assert lines["ok"] is True
    address = urlsplit(server_url)
    shown = f"{address.scheme}://{address.hostname}:{address.port}{address.path} opens"
    assert {"check": "database", "state": "ok", "detail": shown} in lines["checks"]  # pyright: ignore[reportOperatorIssue]


def test_errors_about_a_missing_bank_or_database_hide_the_password(vmemo: Run, invoke: Run, server_url: str) -> None:
    scheme = urlsplit(server_url).scheme
    missing = vmemo("recall", "anything", "--bank", "nobody")
    assert missing.exit_code == 1
    assert f"There is no bank 'nobody' in {scheme}://127.0.0.1:" in missing.stderr
    nowhere = invoke("recall", "anything", "--db", f"{scheme}://ana:secret@127.0.0.1:1/none", VMEMO_BUSY_TIMEOUT="1")
    assert nowhere.exit_code == 1
    assert "127.0.0.1:1 can't be reached" in nowhere.stderr
    assert "secret" not in nowhere.output
