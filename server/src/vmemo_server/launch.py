"""Starting a server: its address, the keys it requires there, its processes, logs and shutdown."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Thread

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo_server.app import LOCAL_HOSTS, ServerOptions, create_app
from vmemo_server.auth import Limits
from vmemo_server.dependencies import AppState
from vmemo_server.logs import LogFormat, ServerLog, StandardHandler
from vmemo_server.state import ADMIN_KEY_VARIABLE, SHORTEST_SECRET, ServerState

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
HEALTHCHECK_SECONDS = 30
"""Seconds in which a process must respond to uvicorn's supervisor; loading a model delays it."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address that a server listens on, and its host names."""

    host: str = "127.0.0.1"
    port: int = 8000
    names: Collection[str] = ()
    """Host names that requests may use besides localhost; an asterisk allows every name."""

    @property
    def local(self) -> bool:
        """True if only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def socket(self) -> socket.socket:
        """Return a listening socket, or raise OSError."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.create_server((self.host, self.port), family=family)
        # Connections inherit the option. Without it a response body waits 40 ms for the ACK of its headers.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening

    @property
    def hosts(self) -> frozenset[str]:
        """The allowed host names. A server for other machines requires keys, and allows every name by default."""
        if not self.local and not self.names:
            return frozenset({"*"})
        return LOCAL_HOSTS | {name.lower() for name in self.names}


@dataclass(frozen=True, kw_only=True)
class ServerLauncher:
    """Runs a server, in this process or in several."""

    address: Address = field(default_factory=Address)
    limits: Limits = field(default_factory=Limits)
    options: ServerOptions = field(default_factory=ServerOptions)
    log_format: LogFormat = "text"
    admin_key: str | None = field(default=None, repr=False)
    """The secret of an admin key, which is created if it does not exist."""

    async def run(self, memory: Memory) -> None:
        """Serve until SIGINT or SIGTERM; running requests and jobs finish, or the jobs return to the queue."""
        log = ServerLog(self.log_format)
        try:
            await self._require_keys(memory)
        except BaseException:
            await memory.close()
            raise
        # What is imported by now stays, so that later garbage collections, which delay requests, need not visit it.
        gc.freeze()
        with self._listening(log) as listening, log.capture_standard():
            # uvicorn raises the signal that stopped it again, which would end the program before it has cleaned up.
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, signal.SIG_IGN)
            await uvicorn.Server(self._config(lambda: self.app(memory, log))).serve([listening])
        log.info("stopped")

    def run_workers(self, open_memory: Callable[[], Memory], count: int) -> None:
        """Serve with several processes, which uvicorn starts, watches and stops; `open_memory` is sent to each."""
        log = ServerLog(self.log_format)
        # Errors of the database and missing keys end the command before any process starts.
        asyncio.run(self._check_keys(open_memory()))
        with (
            tempfile.TemporaryDirectory(prefix="vmemo-metrics-") as folder,
            self._listening(log) as listening,
            log.capture_standard(),
        ):
            os.environ[METRICS_FOLDER] = folder
            config = self._config(partial(self._worker_app, open_memory), workers=count)
            supervisor = Multiprocess(config, [listening])
            supervisor.run()
        log.info("stopped")
        if any(each.exitcode == STARTUP_FAILURE for each in supervisor.processes):
            raise SystemExit(STARTUP_FAILURE)

    def app(self, memory: Memory, log: ServerLog) -> FastAPI:
        state = AppState(memory, keyless=self.address.local, limits=self.limits)
        return create_app(state, replace(self.options, hosts=self.address.hosts), [log])

    def _worker_app(self, open_memory: Callable[[], Memory]) -> FastAPI:
        """Return the application of one of several processes, which stops if the first process is killed."""
        Thread(target=_stop_after_parent, daemon=True).start()
        log = ServerLog(self.log_format)
        logging.getLogger().addHandler(StandardHandler(log))
        return self.app(open_memory(), log)

    def _config(self, app: Callable[[], FastAPI], *, workers: int = 1) -> uvicorn.Config:
        return uvicorn.Config(
            app,
            factory=True,
            workers=workers,
            http="h11",
            ws="none",
            # uvicorn answers 503 once so many are open, and counts the one that it answers.
            limit_concurrency=self.options.connections + 1,
            timeout_graceful_shutdown=max(1, round(self.options.grace)),
            timeout_worker_healthcheck=HEALTHCHECK_SECONDS,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
        )

    @contextmanager
    def _listening(self, log: ServerLog) -> Generator[socket.socket]:
        with self.address.socket() as listening:
            host, port, *_ = listening.getsockname()
            log.info("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")
            yield listening

    async def _check_keys(self, memory: Memory) -> None:
        try:
            await self._require_keys(memory)
        finally:
            await memory.close()

    async def _require_keys(self, memory: Memory) -> None:
        """Create the admin key; raise InvalidInput if other machines can connect and there is no active key."""
        state = ServerState(memory.store)
        try:
            if self.admin_key:
                await state.ensure_admin_key(self.admin_key)
            keys = await state.keys()
        finally:
            await state.close()
        if not self.address.local and all(key.revoked_at is not None for key in keys):
            raise InvalidInput(
                f"Other machines can reach {self.address.host}, which requires an API key, and there is none. "
                f"Set {ADMIN_KEY_VARIABLE} to at least {SHORTEST_SECRET} random characters (openssl rand -hex 32; in "
                f"Docker: -e {ADMIN_KEY_VARIABLE}=...), create one with `vmemo keys create NAME --permission admin`, "
                "or listen on 127.0.0.1."
            )


def _stop_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGTERM)
