"""`vmemo serve --workers`: several processes behave as one server."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from process import ServerProcess, launched
from typer.testing import CliRunner

from console_client import form_token
from max_wait import MAX_WAIT
from vmemo.cli.app import app

ADMIN = "a" * 40

if sys.platform != "linux":
    pytest.skip("the processes are found in /proc", allow_module_level=True)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + MAX_WAIT
    while not condition():
        assert time.monotonic() < until, "the condition was not met in time"
        time.sleep(0.02)


def workers_of(server: ServerProcess) -> set[int]:
    """Return the processes that the server has started to answer requests."""
    parent = server.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {int(child) for child in children if "spawn_main" in command_of(int(child))}


def command_of(pid: int) -> str:
    """Return the command of a process; it is empty if the process has ended."""
    command = Path(f"/proc/{pid}/cmdline")
    try:
        return command.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def connect(server: ServerProcess, **headers: str) -> httpx2.Client:
    """Return a client on a connection of its own, which either process may accept."""
    return httpx2.Client(base_url=server.url, headers=headers, timeout=MAX_WAIT, trust_env=False, verify=False)


def test_processes_share_sessions_and_metrics_and_one_that_ends_is_restarted(tmp_path: Path) -> None:
    arguments = ["serve", "--workers", "2", "--port", "0", "--db", "a.db", "--json", "--no-worker"]
    with launched(arguments, tmp_path, VMEMO_ADMIN_KEY=ADMIN) as server:
        authorized = {"Authorization": f"Bearer {ADMIN}"}
        with connect(server, **authorized) as client:
            sent = client.post("/v1/banks/a/messages", json={"messages": [{"content": "Ana"}], "infer": False})
            assert sent.status_code == 200
        with connect(server) as client:
            form = {"key": ADMIN, "csrf_token": form_token(client)}
            assert client.post("/console/sign-in", data=form).status_code == 303
            cookies = dict(client.cookies)
        for _ in range(8):
            with connect(server, **authorized) as client:
                assert client.get("/v1/banks/a").json()["messages"] == 1
            with connect(server) as client:
                client.cookies.update(cookies)
                assert client.get("/console").status_code == 200
        with connect(server, **authorized) as client:
            lines = client.get("/metrics").text.splitlines()
        (counted,) = [
            line
            for line in lines
            if line.startswith("vmemo_requests_total") and 'method="GET",route="/v1/banks/{bank}"' in line
        ]
        assert counted.endswith(" 8.0")
        first = workers_of(server)
        os.kill(min(first), signal.SIGKILL)
        wait_for(lambda: len(workers_of(server) - {min(first)}) == 2)
        last = workers_of(server)
        for _ in range(4):
            with connect(server) as client:
                assert client.get("/health").status_code == 200
        assert server.stop(signal.SIGTERM) == 0
    assert server.lines[-1]["event"] == "stopped"
    assert not any(map(command_of, first | last))


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with launched(["serve", "--workers", "2", "--port", "0", "--db", "a.db", "--json"], tmp_path) as server:
        with connect(server) as client:
            assert client.get("/health").status_code == 200
        workers = workers_of(server)
        assert len(workers) == 2
        server.process.kill()
        # They hold the log's pipe, which is read to its end.
    assert not any(map(command_of, workers))


def test_database_in_memory_is_refused() -> None:
    result = CliRunner().invoke(app, ["serve", "--workers", "2", "--db", ":memory:"])
    assert result.exit_code == 1
    assert "belongs to one process" in result.output
