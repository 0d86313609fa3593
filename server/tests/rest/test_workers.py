"""`vmemo serve --workers`: several processes behave as one server."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import httpx2
import pytest
from process import ServerProcess, launched
from typer.testing import CliRunner

from console_client import form_token
from max_wait import MAX_WAIT
from vmemo.cli.app import app
from vmemo_server.auth import Limits
from vmemo_server.auth.limits import RateLimiter

ADMIN = "a" * 40

if sys.platform == "win32":
    pytest.skip("processes are forked", allow_module_level=True)

from vmemo_server import shared_locks  # noqa: E402
from vmemo_server.shared_locks import SharedBankLocks  # noqa: E402
from vmemo_server.shared_records import SharedRecords  # noqa: E402


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + MAX_WAIT
    while not condition():
        assert time.monotonic() < until, "the condition was not met in time"
        time.sleep(0.02)


def workers_of(server: ServerProcess) -> list[int]:
    return [line["worker"] for line in server.lines if line["event"] == "listening"]


def runs(pid: int) -> bool:
    """Return True unless a process has ended; the system may still list one that nobody waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    command = Path(f"/proc/{pid}/cmdline")
    return not command.exists() or bool(command.read_bytes())


def connect(server: ServerProcess, **headers: str) -> httpx2.Client:
    """Return a client on a connection of its own, which either process may accept."""
    return httpx2.Client(base_url=server.url, headers=headers, timeout=MAX_WAIT, trust_env=False)


def test_processes_share_sessions_and_metrics_and_one_that_ends_is_restarted(tmp_path: Path) -> None:
    arguments = ["serve", "--workers", "2", "--port", "0", "--db", "a.db", "--json", "--no-worker"]
    with launched(arguments, tmp_path, VMEMO_ADMIN_KEY=ADMIN) as server:
        wait_for(lambda: len(workers_of(server)) == 2)
        authorized = {"Authorization": f"Bearer {ADMIN}"}
        with connect(server, **authorized) as client:
            sent = client.post("/v1/banks/a/messages", json={"messages": [{"content": "Ana plays the cello."}]})
            assert sent.status_code == 200
        with connect(server) as client:
            form = {"key": ADMIN, "csrf_token": form_token(client)}
            assert client.post("/console/sign-in", data=form).status_code == 303
            cookies = dict(client.cookies)
        for _ in range(8):
            with connect(server, **authorized) as client:
                assert client.post("/v1/banks/a/recall", json={"query": "Ana"}).json()["hits"]
            with connect(server) as client:
                client.cookies.update(cookies)
                assert client.get("/console").status_code == 200
        with connect(server, **authorized) as client:
            lines = client.get("/metrics").text.splitlines()
        (counted,) = [line for line in lines if line.startswith("vmemo_requests_total") and "/recall" in line]
        assert counted.endswith(" 8.0")
        os.kill(workers_of(server)[0], signal.SIGKILL)
        wait_for(lambda: len(workers_of(server)) == 3)
        (ended,) = [line for line in server.lines if line["event"] == "worker ended"]
        assert (ended["worker"], ended["by"], ended["level"]) == (workers_of(server)[0], "SIGKILL", "error")
        for _ in range(4):
            with connect(server) as client:
                assert client.get("/health").status_code == 200
        assert server.stop(signal.SIGTERM) == 0
    assert server.lines[-1]["event"] == "stopped"
    assert not any(map(runs, workers_of(server)))


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with launched(["serve", "--workers", "2", "--port", "0", "--db", "a.db", "--json"], tmp_path) as server:
        wait_for(lambda: len(workers_of(server)) == 2)
        server.process.kill()
        # They hold the log's pipe, which is read to its end.
    assert not any(map(runs, workers_of(server)))


def test_processes_count_the_rate_of_a_key_together() -> None:
    with closing(SharedRecords(capacity=16)) as records:
        first, second = (RateLimiter(Limits(burst=3), lambda: 0.0, records) for _ in range(2))
        assert [first.acquire("a"), second.acquire("a"), first.acquire("a")] == [0, 0, 0]
        assert second.acquire("a") > 0
        assert second.acquire("b") == 0


def test_shared_records_drop_the_one_written_longest_ago() -> None:
    with closing(SharedRecords(capacity=8)) as records:
        for name in "abcdefgh":
            records.put(name, name.encode())
        records.put("a", b"again")
        records.put("i", b"i")
        found = {name: record.rstrip(b"\0") for name in "abhi" if (record := records.get(name)) is not None}
        assert found == {"a": b"again", "h": b"h", "i": b"i"}
        records.delete("a")
        assert records.get("a") is None


def hold(locks: SharedBankLocks, bank: str, pipe: Connection) -> None:
    """Hold the lock of a bank until the other process says so."""

    async def run() -> None:
        async with locks.held(bank):
            pipe.send("held")
            pipe.recv()

    asyncio.run(run())


async def take(locks: SharedBankLocks, bank: str) -> None:
    async with locks.held(bank):
        pass


@pytest.mark.parametrize("killed", [False, True])
def test_one_process_at_a_time_holds_the_lock_of_a_bank(killed: bool) -> None:
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    async def wait(locks: SharedBankLocks) -> None:
        await take(locks, "b")
        waiting = asyncio.create_task(take(locks, "a"))
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        if killed:
            other.kill()
        else:
            ours.send("release")
        await waiting

    with closing(SharedBankLocks()) as locks:
        other = fork.Process(target=hold, args=(locks, "a", theirs))
        other.start()
        assert ours.recv() == "held"
        asyncio.run(wait(locks))
        other.join()


def test_a_process_does_not_wait_for_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_locks, "MAX_SECONDS", 0.02)
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    with closing(SharedBankLocks()) as locks:
        other = fork.Process(target=hold, args=(locks, "a", theirs))
        other.start()
        assert ours.recv() == "held"
        asyncio.run(take(locks, "a"))
        assert other.is_alive()
        ours.send("release")
        other.join()


def test_database_in_memory_is_refused() -> None:
    result = CliRunner().invoke(app, ["serve", "--workers", "2", "--db", ":memory:"])
    assert result.exit_code == 1
    assert "belongs to one process" in result.output
