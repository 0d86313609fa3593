"""The server: one ASGI application over one memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from vmemo.admission import Audited
from vmemo.errors import VmemoError
from vmemo.server import problems
from vmemo.server.house import House
from vmemo.server.middleware import Hosts, Named, Recorded, Sized
from vmemo.server.routes import asking, banks, keeping, looking, running

LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The names by which a machine reaches itself."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How a server runs. `hosts` are the names it answers to; an asterisk is every name."""

    hosts: Collection[str] = ("*",)
    works: bool = True
    """Whether queued work is done in this process."""
    maintain_every: float = 24.0
    """Hours from one maintenance of a bank to the next; 0 is never."""


def create_app(house: House, options: ServerOptions | None = None) -> FastAPI:
    """The application; its lifespan opens the memory, does the queued work and closes it."""
    chosen = options or ServerOptions()
    app = FastAPI(
        title="vmemo",
        summary="Long-term memory for AI agents.",
        version="1",
        lifespan=lambda app: _lifespan(house, chosen),
        docs_url=None,
        redoc_url=None,
    )
    app.state.house = house
    for routes in (banks, keeping, asking, looking, running):
        app.include_router(routes.router)
    for kind, tell in (
        (VmemoError, problems.of_vmemo),
        (problems.Refused, problems.of_refusal),
        (RequestValidationError, problems.of_validation),
        (HTTPException, problems.of_http),
        (Exception, problems.of_surprise),
    ):
        app.add_exception_handler(kind, tell)
    # The last one added is the first that a request meets.
    app.add_middleware(Sized, house=house)
    app.add_middleware(Recorded, house=house, lost=_lost)
    app.add_middleware(Hosts, allowed=chosen.hosts)
    app.add_middleware(Named)
    return app


def _lost(written: Audited, error: Exception) -> None:
    raise error


@asynccontextmanager
async def _lifespan(house: House, options: ServerOptions) -> AsyncGenerator[None]:
    # Migrations run here, so that a server which is up can also answer.
    await house.gate.keys()
    stop = asyncio.Event()
    working = asyncio.create_task(house.memory.work(stop)) if options.works else None
    try:
        yield
    finally:
        stop.set()
        if working is not None:
            await working
        with suppress(VmemoError):
            await house.memory.close()
