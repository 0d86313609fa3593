"""A runner of commands, and a memory that was filled once and is copied for each test."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from vmemo.cli.app import app

Run = Callable[..., Result]
SAID = (
    ("Ana", "I work at Northwind and I live in Leeds.", "2024-02-05T09:00:00Z", "first"),
    ("Ana", "I left Northwind last Friday. Bo found me a job at Contoso.", "2024-06-11T09:00:00Z", "second"),
    ("Ana", "My recipe for [bold]rye bread[/bold] needs caraway.", "2024-09-02T09:00:00Z", "second"),
)


@pytest.fixture(scope="session")
def invoke() -> Run:
    """Run a command in this process; colours off, wide enough that nothing wraps."""

    def run(*arguments: str, input: str | None = None, **environment: str) -> Result:
        env = {"COLUMNS": "200", "NO_COLOR": "1", "VMEMO_URL": None, "VMEMO_LLM": None, **environment}
        return CliRunner().invoke(app, [*arguments], input=input, env=env)

    return run


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, invoke: Run) -> Path:
    """A database with a few lines of Ana's."""
    folder = tmp_path_factory.mktemp("filled")
    lines = [
        json.dumps({"speaker": speaker, "content": content, "timestamp": moment, "document": document})
        for speaker, content, moment, document in SAID
    ]
    (folder / "said.jsonl").write_text("\n".join(lines), encoding="utf-8")
    result = invoke("retain", "--file", str(folder / "said.jsonl"), "--db", str(folder / "ana.db"))
    assert result.exit_code == 0, result.output
    return folder / "ana.db"


@pytest.fixture
def db(filled: Path, tmp_path: Path) -> str:
    """A copy of the filled database."""
    return shutil.copy(filled, tmp_path / "ana.db").__str__()
