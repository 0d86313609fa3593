"""A real server on a free local port, in a thread of the test process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

import httpx2
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from max_wait import MAX_WAIT
from vmemo import Memory
from vmemo.models.records import Permission
from vmemo.ports import Embedder
from vmemo.sync import portal
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server.app import ServerOptions, create_app
from vmemo_server.auth import Limits
from vmemo_server.dependencies import AppState
from vmemo_server.launch import Address
from vmemo_server.state import ServerState

HOST = "127.0.0.1"


@dataclass(frozen=True)
class LiveServer:
    """A running server: its address, state and application."""

    url: str
    state: AppState
    app: FastAPI

    @property
    def memory(self) -> Memory:
        """The memory that the server offers."""
        return self.state.memory

    @property
    def auth(self) -> ServerState:
        """The API keys and audit log of the server."""
        return ServerState(self.memory.store)

    def key(self, permission: Permission = "admin", *banks: str, name: str = "a test") -> str:
        """Create a key, for every bank unless some are named, and return its secret."""
        return self.key_with_id(permission, *banks, name=name)[1]

    def key_with_id(self, permission: Permission = "admin", *banks: str, name: str = "a test") -> tuple[str, str]:
        """Create a key and return its id and secret."""
        key, secret = portal.run(self.auth.create_key(name, banks=banks or ("*",), permission=permission))
        return key.id, secret

    def http(self, key: str | None = None, **headers: str) -> httpx2.Client:
        """Return a plain HTTP client, with a key if one is given; the caller closes it."""
        all_headers = {**headers, **({"Authorization": f"Bearer {key}"} if key else {})}
        # Certificates are not needed, and loading them takes longer than most requests.
        return httpx2.Client(base_url=self.url, headers=all_headers, timeout=MAX_WAIT, trust_env=False, verify=False)


class _Server(uvicorn.Server):
    """A server that signals when it has started or failed to, and that stops at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.startup_ended = Event()
        self._stopped = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await super().startup(sockets)
        finally:
            self.startup_ended.set()

    async def main_loop(self) -> None:
        """Wait to be stopped; uvicorn looks for that ten times a second."""
        await self.on_tick(0)
        await self._stopped.wait()

    def stop(self) -> None:
        """Stop from another thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)


@contextmanager
def run_app(app: ASGIApp, connections: int = 1_000) -> Generator[str]:
    """Run any application as `vmemo serve` would, and yield its address."""
    with Address(host=HOST, port=0).socket() as listening:
        config = uvicorn.Config(
            app,
            http="h11",
            lifespan="on",
            ws="none",
            limit_concurrency=connections + 1,
            log_config=None,
            timeout_graceful_shutdown=10,
            # A machine that stalls must not end a connection between two requests of a test.
            timeout_keep_alive=int(MAX_WAIT),
        )
        server = _Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="vmemo-server", daemon=True)
        thread.start()
        try:
            assert server.startup_ended.wait(MAX_WAIT), "the server did not start"
            assert server.started, "the server failed to start"
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            if server.started:
                server.stop()
            thread.join(MAX_WAIT)
            assert not thread.is_alive(), "the server did not stop"


@contextmanager
def live_server(
    database: str,
    *,
    keyless: bool = True,
    limits: Limits | None = None,
    options: ServerOptions | None = None,
    llm: object = None,
    embedder: Embedder | None = None,
) -> Generator[LiveServer]:
    """Serve the database at a URL, with the hash embedder unless another is given."""
    memory = Memory(database, llm=llm, embedder=embedder or HashEmbedder())
    state = AppState(memory, keyless, limits or Limits())
    chosen = options or ServerOptions(hosts=(HOST,))
    app = create_app(state, chosen)
    with run_app(app, chosen.connections) as url:
        yield LiveServer(url, state, app)
