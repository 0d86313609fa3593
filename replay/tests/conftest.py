"""A runner of commands, and a conversation that was replayed once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import typer
from typer import testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from vmemo.cli.command import Command
from vmemo_replay.case_command import run_test
from vmemo_replay.commands import replay

# The runner would build the command again for every call.
testing._get_command = cache(get_command)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

Run = Callable[..., Result]
ANA = Path(__file__).with_name("ana.json")


def _runner(command: Command) -> Run:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command.run)

    def run(*arguments: object, **environment: str) -> Result:
        env = {"COLUMNS": "200", "NO_COLOR": "1", "VMEMO_LLM": None, "VMEMO_EMBEDDER": None, **environment}
        # In a thread, because a browser that is driven in this one has an event loop here.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(CliRunner().invoke, app, [str(each) for each in arguments], env=env).result()

    return run


@pytest.fixture(scope="session")
def replay_command() -> Run:
    """Run `vmemo replay` in this process."""
    return _runner(replay)


@pytest.fixture(scope="session")
def test_command() -> Run:
    """Run `vmemo test` in this process."""
    return _runner(run_test)


@pytest.fixture(scope="session")
def replayed(tmp_path_factory: pytest.TempPathFactory, replay_command: Run) -> Path:
    """A folder with the conversation, and with the report and the page of its replay."""
    folder = tmp_path_factory.mktemp("replayed")
    shutil.copy(ANA, folder)
    written = ("--json", folder / "replay.json", "--html", folder / "replay.html")
    result = replay_command(folder / "ana.json", *written, "--prices", "1,2")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def report(replayed: Path) -> dict[str, object]:
    """The JSON report of the replay."""
    return json.loads((replayed / "replay.json").read_text("utf-8"))
