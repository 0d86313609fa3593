"""Renewal of leases while work goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from vmemo.errors import StoreError


@asynccontextmanager
async def renewed(renew: Callable[[], Awaitable[object]], seconds: float) -> AsyncGenerator[None]:
    """Call `renew` every so many seconds inside this context; the next call follows one that the store refuses."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(seconds)
            with suppress(StoreError):
                await renew()

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
