"""`vmemo mcp` as a process, and its errors without the extra or the database."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from max_wait import MAX_WAIT
from vmemo.cli.app import app

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}},
}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_interrupt_stops_the_process_while_stdin_is_open(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vmemo", "mcp", "--db", str(tmp_path / "memory.db")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "vmemo"
        process.send_signal(signal.SIGINT)
        assert process.wait(MAX_WAIT) == 130
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_missing_extra_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = CliRunner().invoke(app, ["mcp"])
    assert result.exit_code == 1
    assert "pip install 'vmemo[mcp]'" in result.output


def test_read_only_requires_an_existing_database(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["mcp", "--read-only", "--db", str(tmp_path / "none.db")])
    assert result.exit_code == 1
    assert "does not exist" in result.output
    assert not (tmp_path / "none.db").exists()
