"""A real server on a free port of this machine, in a thread of the test's own process."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

import httpx2
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from vmemo import Memory
from vmemo.models.auth import Permission
from vmemo.ports import Embedder
from vmemo.server import House, Limits, ServerOptions, create_app
from vmemo.server.launch import Address
from vmemo.sync import portal
from vmemo.testing import HashEmbedder

HOST = "127.0.0.1"
PATIENCE = 60.0
"""Seconds until a server that does not start, answer or stop is taken for hanging."""


@dataclass(frozen=True)
class Served:
    """A running server: where it is, what it holds, and the application itself."""

    url: str
    house: House
    app: FastAPI

    def key(self, right: Permission = "admin", *banks: str, name: str = "a test") -> str:
        """The secret of a new key, to every bank unless some are named."""
        return self.keyed(right, *banks, name=name)[1]

    def keyed(self, right: Permission = "admin", *banks: str, name: str = "a test") -> tuple[str, str]:
        """The id and the secret of a new key, to every bank unless some are named."""
        work = self.house.gate.create_key(name, banks=banks or ("*",), right=right)
        key, secret = portal.run(work)
        return key.id, secret

    def http(self, key: str | None = None, **headers: str) -> httpx2.Client:
        """A plain HTTP client that comes with a key or without; its user closes it."""
        told = {**headers, **({"Authorization": f"Bearer {key}"} if key else {})}
        return httpx2.Client(base_url=self.url, headers=told, timeout=PATIENCE, trust_env=False)


class _Server(uvicorn.Server):
    """uvicorn, which here tells when it has come up or has failed to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.begun.set()


@contextmanager
def running(app: ASGIApp) -> Generator[str]:
    """Run any application; its address is given."""
    with Address(host=HOST, port=0).socket() as listening:
        config = uvicorn.Config(app, lifespan="on", ws="none", log_config=None, timeout_graceful_shutdown=10)
        server = _Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="vmemo-serving", daemon=True)
        thread.start()
        try:
            assert server.begun.wait(PATIENCE), "the server did not come up"
            assert server.started, "the server refused to come up"
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server did not stop"


@contextmanager
def serving(
    what: House | str,
    *,
    keyless: bool = True,
    limits: Limits | None = None,
    options: ServerOptions | None = None,
    llm: object = None,
    embedder: Embedder | None = None,
) -> Generator[Served]:
    """Serve a house, or the database at a URL with the hash embedder unless another is given."""
    house = what if isinstance(what, House) else _house(what, keyless, limits, llm, embedder)
    app = create_app(house, options or ServerOptions(hosts=(HOST,)))
    with running(app) as url:
        yield Served(url, house, app)


def _house(url: str, keyless: bool, limits: Limits | None, llm: object, embedder: Embedder | None) -> House:
    memory = Memory(url, llm=llm, embedder=embedder or HashEmbedder())
    return House(memory, keyless, limits or Limits())
