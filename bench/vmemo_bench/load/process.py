"""`vmemo serve` as a process of its own, watched from outside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from types import TracebackType

from vmemo.errors import VmemoError

PATIENCE = 120.0
"""Seconds in which a server has come up, or ended."""


class Serving:
    """A server on a database file; a restarted one is reached at the same address."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._port = 0
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self.sizes: list[list[float]] = []
        """Megabytes of memory, each time they were measured, for each process that served."""

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Serving:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._stop()

    async def restart(self) -> None:
        """End the server as an administrator would, and start it again."""
        await self._stop()
        await self._start()

    def measure(self) -> None:
        """Note how much memory the server holds now, where the system tells."""
        status = Path(f"/proc/{self._process.pid}/status") if self._process is not None else None
        if status is not None and status.exists():
            told = [line.split() for line in status.read_text().splitlines() if line.startswith("VmRSS:")]
            self.sizes[-1] += [int(line[1]) / 1024 for line in told]

    async def _start(self) -> None:
        command = [sys.executable, "-m", "vmemo", "serve", "--db", str(self._file), "--port", str(self._port), "--json"]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("VMEMO_")}
        self._process = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=PIPE, env=plain)
        self.sizes.append([])
        async with asyncio.timeout(PATIENCE):
            self._port = await self._listening(self._process)
        self._reading = asyncio.create_task(_drained(self._process))

    async def _listening(self, process: Process) -> int:
        """The port, once the server says that it can be reached."""
        assert process.stderr is not None
        said: list[str] = []
        async for line in process.stderr:
            said.append(line.decode(errors="replace").strip())
            if said[-1].startswith("{") and json.loads(said[-1]).get("event") == "listening":
                return int(json.loads(said[-1])["url"].rpartition(":")[2])
        raise VmemoError(f"The server did not come up: {' '.join(said)[-500:] or 'it said nothing'}")

    async def _stop(self) -> None:
        if self._process is None or self._reading is None:
            return
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            ended = await self._process.wait()
            await self._reading
        if ended != 0:
            raise VmemoError(f"The server ended with {ended}, not with 0.")


async def _drained(process: Process) -> None:
    """Read the log to its end, so that the server never waits for us."""
    assert process.stderr is not None
    async for _ in process.stderr:
        pass
