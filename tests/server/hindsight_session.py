"""What tests of Hindsight's door share: its own client, closed when it is done with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from hindsight_client import Hindsight
from hindsight_client_api.exceptions import ApiException

from live_server import LiveServer

BANK = "agent"


@dataclass(frozen=True)
class Told:
    """What the client tells of an answer that was none."""

    status: int
    body: str


async def refusal(call: Awaitable[object]) -> Told:
    """How a call is refused."""
    try:
        found = await call
    except ApiException as error:
        told: Any = error
        return Told(told.status, told.body)
    raise AssertionError(f"The call was answered: {found}")


@asynccontextmanager
async def talking(server: LiveServer, key: str | None = None) -> AsyncGenerator[Any]:
    """Hindsight's client; its methods are typed loosely, so that it is any object here."""
    client = Hindsight(base_url=server.url, api_key=key, timeout=60.0, max_attempts=1)
    try:
        yield client
    finally:
        await client.aclose()


def session(server: LiveServer, script: Callable[[Any], Coroutine[Any, Any, None]], key: str | None = None) -> None:
    """Run a script with a client."""

    async def run() -> None:
        async with talking(server, key) as client:
            await script(client)

    asyncio.run(run())


@contextmanager
def plainly(server: LiveServer, key: str | None = None) -> Generator[Any]:
    """The client for programs without a loop; it takes the thread's, which must be closed with it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        with Hindsight(base_url=server.url, api_key=key, timeout=60.0, max_attempts=1) as client:
            yield client
    finally:
        asyncio.set_event_loop(None)
        loop.close()
