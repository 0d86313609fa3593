"""Background work of the server: started again after failures, and reported when it stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from live_server import HOST, LiveServer, run_app
from vmemo import Memory
from vmemo.jobs.worker import RunResult
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server import background
from vmemo_server.app import ServerOptions, create_app
from vmemo_server.background import STUCK_SECONDS, BackgroundWorker
from vmemo_server.dependencies import AppState
from vmemo_server.logs import ServerLog


class FailingMemory(Memory):
    """A memory whose worker fails while `broken`."""

    broken = True
    starts = 0

    async def work(self, *args: Any, **kwargs: Any) -> RunResult:
        self.starts += 1
        if self.broken:
            raise RuntimeError("unforeseen")
        return await super().work(*args, **kwargs)


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    """Run a server whose worker fails, and is started again soon."""
    monkeypatch.setattr(background, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(background, "MAX_RETRY_SECONDS", 0.02)
    memory = FailingMemory(f"sqlite:///{tmp_path / 'memory.db'}", embedder=HashEmbedder())
    state = AppState(memory, keyless=True)
    app = create_app(state, ServerOptions(hosts=(HOST,)))
    with run_app(app) as url:
        yield LiveServer(url, state, app)


def test_failed_worker_is_reported_and_started_again(failing: LiveServer) -> None:
    memory = failing.memory
    assert isinstance(memory, FailingMemory)
    with failing.http() as client:
        while memory.starts < 3:
            client.get("/health")
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json()["type"]) == (503, "urn:vmemo:problem:NotReady")
        assert "The worker failed" in ready.json()["detail"]
        assert client.get("/health").status_code == 200
        memory.broken = False
        while client.get("/health/ready").status_code != 200:
            pass
        sent = {"messages": [{"content": "Ana plays the cello."}], "wait": False}
        assert client.post("/v1/banks/a/messages", json=sent).status_code == 202
        while client.get("/v1/banks/a").json()["pending"]:
            pass


def test_worker_that_stops_to_look_for_jobs_is_stuck(tmp_path: Path) -> None:
    now = [0.0]

    class StuckMemory(Memory):
        async def work(self, stop: asyncio.Event | None = None, *args: Any, **kwargs: Any) -> RunResult:
            assert stop is not None
            await stop.wait()
            return RunResult()

    async def run() -> None:
        memory, stop = StuckMemory(f"sqlite:///{tmp_path / 'memory.db'}", embedder=HashEmbedder()), asyncio.Event()
        worker = BackgroundWorker(memory, ServerLog("json", StringIO()), clock=lambda: now[0])
        assert worker.problem == "The worker does not run."
        running = asyncio.create_task(worker.run(stop))
        await asyncio.sleep(0)
        assert worker.problem is None
        now[0] = STUCK_SECONDS + 1
        assert worker.problem == "The worker has not looked for jobs for 181 seconds."
        stop.set()
        await running
        assert worker.problem == "The worker does not run."

    asyncio.run(run())


def test_callbacks_that_fail_do_not_stop_the_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    async def run() -> None:
        async with Memory(f"sqlite:///{tmp_path / 'memory.db'}", embedder=HashEmbedder()) as memory:
            for bank in ("a", "b", "c"):
                await memory.bank(bank).retain("Ana plays the cello.", wait=False)
            result = await memory.work(once=True, on_done=broken, on_poll=broken)
            assert (result.jobs, result.failed) == (3, 0)
            assert [(await memory.bank(bank).status()).pending for bank in ("a", "b", "c")] == [0, 0, 0]

    asyncio.run(run())
    assert "A callback of the worker failed." in caplog.text
