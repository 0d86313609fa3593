"""Sessions of Hindsight's official client against a live server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from live_server import LiveServer
from max_wait import MAX_WAIT

BANK = "agent"


def official(module: str) -> Any:
    """Import a module of Hindsight's client: it takes a second, which every process that collects tests would spend."""
    return import_module(module)


@dataclass(frozen=True)
class ErrorResponse:
    """The status and body of an error response."""

    status: int
    body: str


async def error_of(call: Awaitable[object]) -> ErrorResponse:
    """Await a call that fails and return its error response."""
    try:
        found = await call
    except official("hindsight_client_api.exceptions").ApiException as error:
        untyped: Any = error
        return ErrorResponse(untyped.status, untyped.body)
    raise AssertionError(f"The call succeeded: {found}")


@asynccontextmanager
async def hindsight_client(server: LiveServer, key: str | None = None) -> AsyncGenerator[Any]:
    """Yield Hindsight's client, typed as Any because its methods are typed loosely."""
    client = official("hindsight_client").Hindsight(base_url=server.url, api_key=key, timeout=MAX_WAIT, max_attempts=1)
    try:
        yield client
    finally:
        await client.aclose()


def session(server: LiveServer, script: Callable[[Any], Coroutine[Any, Any, None]], key: str | None = None) -> None:
    """Run an async script with a client."""

    async def run() -> None:
        async with hindsight_client(server, key) as client:
            await script(client)

    asyncio.run(run())


@contextmanager
def sync_client(server: LiveServer, key: str | None = None) -> Generator[Any]:
    """Yield the client for synchronous programs; it uses the thread's event loop, which must be closed with it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        options = {"api_key": key, "timeout": MAX_WAIT, "max_attempts": 1}
        with official("hindsight_client").Hindsight(base_url=server.url, **options) as client:
            yield client
    finally:
        asyncio.set_event_loop(None)
        loop.close()
