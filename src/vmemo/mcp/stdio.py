"""MCP on stdin and stdout: a host starts this process and is its only visitor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

from mcp.server.stdio import stdio_server

from vmemo.jobs.run_result import RunResult
from vmemo.mcp.principal import Local
from vmemo.mcp.server import make_server

_GRACE = 5.0
"""Seconds that queued work under way has to end; what is left then goes back to the queue."""
_SIGNALLED = 128


async def serve(visitor: Local) -> None:
    """Answer until the host closes stdin or sends a signal, and do queued work meanwhile if it is to be done here."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    stop, banks = asyncio.Event(), () if visitor.only is None else (visitor.only,)
    working = asyncio.create_task(visitor.memory.work(stop, banks=banks)) if visitor.works else None
    answering = asyncio.create_task(_answer(visitor))
    with _signalled() as signal_number:
        await asyncio.wait([answering, signal_number], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        try:
            if working is not None:
                await _ended(working)
        finally:
            await visitor.memory.close()
        if signal_number.done():
            # A thread waits for the next line of stdin and can't be woken; all that is to be kept is kept.
            os._exit(_SIGNALLED + signal_number.result())
    await answering


async def _answer(visitor: Local) -> None:
    server = make_server(lambda _: visitor)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _ended(working: asyncio.Task[RunResult]) -> None:
    _, late = await asyncio.wait([working], timeout=_GRACE)
    for each in late:
        each.cancel()
        await asyncio.wait([each])
    if not working.cancelled():
        working.result()


@contextmanager
def _signalled() -> Generator[asyncio.Future[int]]:
    """The number of the first signal that asks this process to end."""
    loop = asyncio.get_running_loop()
    told = loop.create_future()

    def tell(number: int) -> None:
        if not told.done():
            told.set_result(number)

    before = {
        each: signal.signal(each, lambda number, _: loop.call_soon_threadsafe(tell, number))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield told
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
