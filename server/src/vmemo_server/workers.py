"""Several server processes on one port: started by fork(), watched and stopped by their parent.

The parent loads code and model before it forks, and serves nothing itself. The children share that memory, and the
records of `SharedState`; everything else that processes have in common is in the database.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

from vmemo_server.dependencies import SharedState
from vmemo_server.launch import ServerLauncher
from vmemo_server.logs import ServerLog
from vmemo_server.observability import location_of
from vmemo_server.shared_locks import SharedBankLocks
from vmemo_server.shared_records import SharedRecords

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
POLL_SECONDS = 0.05
"""Seconds between two looks at the processes."""
RESTART_SECONDS, MAX_RESTART_SECONDS = 0.1, 30.0
"""Seconds until a process that ended is started again; doubled with each further end, up to the longer time."""
STABLE_SECONDS = 60.0
"""A process that ran this long is started again as if it had never ended before."""


def serve_with_workers(launcher: ServerLauncher, count: int) -> None:
    """Serve with several processes until SIGINT or SIGTERM."""
    with closing(SharedRecords()) as rates, closing(SharedRecords()) as sessions, closing(SharedBankLocks()) as locks:
        _serve(replace(launcher, shared=SharedState(rates=rates, sessions=sessions, bank_locks=locks)), count)


def _serve(launcher: ServerLauncher, count: int) -> None:
    # Errors of the database and missing keys end the command before any process starts.
    asyncio.run(launcher.check_keys())
    launcher.memory.preload()
    sockets = launcher.address.sockets(count)
    with tempfile.TemporaryDirectory(prefix="vmemo-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        # Imports what the children need, so that they share it.
        launcher.server()
        if launcher.options.mcp and find_spec("mcp") is not None:
            import_module("vmemo_server.mcp_sessions")

        def serve(number: int, supervisor: int) -> None:
            asyncio.run(launcher.serve(sockets[number], supervisor=supervisor))

        WorkerProcesses(serve, count, launcher.log, stop_seconds=2 * launcher.options.grace + 10).run()
    launcher.log.info("stopped")


@dataclass
class _Worker:
    pid: int | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    pause: float = RESTART_SECONDS


class WorkerProcesses:
    """Forked processes. One that ends is started again until the parent is asked to stop."""

    def __init__(
        self, serve: Callable[[int, int], None], count: int, log: ServerLog, *, stop_seconds: float = 70.0
    ) -> None:
        self._serve, self._log, self._stop_seconds = serve, log, stop_seconds
        self._workers = [_Worker() for _ in range(count)]
        self._signals = 0
        # Children notice the end of the parent, even if it is killed, by the end of this pipe.
        self._read_end, self._write_end = os.pipe()

    def run(self) -> None:
        """Run the processes until a signal, and wait for them to end."""
        gc.collect()
        # The collector would write to every object, and so copy the pages that are shared.
        gc.freeze()
        with self._handled_signals():
            while not self._signals:
                self._start_due()
                self._reap()
                time.sleep(POLL_SECONDS)
            self._stop()

    def _start_due(self) -> None:
        now = time.monotonic()
        for number, worker in enumerate(self._workers):
            if worker.pid is None and now >= worker.start_at and not self._signals:
                worker.started_at, worker.pid = now, self._fork(number)

    def _fork(self, number: int) -> int:
        pid = os.fork()
        if pid == 0:
            self._run_child(number)
        return pid

    def _run_child(self, number: int) -> NoReturn:
        code = 1
        try:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, signal.SIG_DFL)
            # Ctrl+C in a terminal is for the parent, which stops the children.
            os.setpgrp()
            os.close(self._write_end)
            self._serve(number, self._read_end)
            code = 0
        except Exception as error:
            self._log.error("worker failed", error=location_of(error))
        finally:
            # Not the cleanup of the parent, whose copy this process is.
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed streams are None
                    stream.flush()
            os._exit(code)

    def _reap(self) -> None:
        """Note the processes that have ended, and when each is started again."""
        for worker in self._workers:
            if worker.pid is None:
                continue
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            now = time.monotonic()
            worker.pause = RESTART_SECONDS if now - worker.started_at > STABLE_SECONDS else worker.pause
            worker.pid, worker.start_at = None, now + worker.pause
            if not self._signals:
                ended = _describe(os.waitstatus_to_exitcode(status))
                self._log.error("worker ended", worker=pid, by=ended, restart_seconds=worker.pause)
            worker.pause = min(MAX_RESTART_SECONDS, 2 * worker.pause)

    def _stop(self) -> None:
        """Let the processes finish; end them at once on a second signal, or when they take too long."""
        self._signal(signal.SIGTERM)
        until = time.monotonic() + self._stop_seconds
        while any(worker.pid for worker in self._workers):
            if self._signals > 1 or time.monotonic() > until:
                self._signal(signal.SIGKILL)
            time.sleep(POLL_SECONDS)
            self._reap()

    def _signal(self, sign: signal.Signals) -> None:
        for worker in self._workers:
            if worker.pid is not None:
                os.kill(worker.pid, sign)

    @contextmanager
    def _handled_signals(self) -> Generator[None]:
        before = {each: signal.signal(each, self._handle) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
            os.close(self._read_end)
            os.close(self._write_end)

    def _handle(self, sign: int, frame: FrameType | None) -> None:
        self._signals += 1


def _describe(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
