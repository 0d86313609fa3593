"""MCP on stdin and stdout: a host starts this process and is its only caller."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

from mcp.server.stdio import stdio_server

from vmemo.jobs.worker import RunResult
from vmemo_server.mcp.caller import ToolCaller
from vmemo_server.mcp.server import make_server

_GRACE_SECONDS = 5.0
"""Time for running jobs to finish; the rest return to the queue."""
_SIGNAL_EXIT = 128


async def serve(caller: ToolCaller) -> None:
    """Answer until the host closes stdin or sends a signal; run queued jobs meanwhile if the caller has a worker."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    stop = asyncio.Event()
    banks = () if "*" in caller.principal.banks else caller.principal.banks
    worker = asyncio.create_task(caller.memory.work(stop, banks=banks)) if caller.worker else None
    answering = asyncio.create_task(_answer(caller))
    with _first_signal() as signal_number:
        await asyncio.wait([answering, signal_number], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        try:
            if worker is not None:
                await _finish(worker)
        finally:
            await caller.access.state.close()
            await caller.memory.close()
        if signal_number.done():
            # A thread is blocked reading stdin and can't be woken; everything is stored by now.
            os._exit(_SIGNAL_EXIT + signal_number.result())
    await answering


async def _answer(caller: ToolCaller) -> None:
    def caller_of(_: object) -> ToolCaller:
        caller.access.limit_rate(caller.principal.key_id)
        return caller

    server = make_server(caller_of)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _finish(worker: asyncio.Task[RunResult]) -> None:
    _, unfinished = await asyncio.wait([worker], timeout=_GRACE_SECONDS)
    for each in unfinished:
        each.cancel()
        await asyncio.wait([each])
    if not worker.cancelled():
        worker.result()


@contextmanager
def _first_signal() -> Generator[asyncio.Future[int]]:
    """Yield a future of the first SIGINT or SIGTERM."""
    loop = asyncio.get_running_loop()
    received = loop.create_future()

    def receive(number: int) -> None:
        if not received.done():
            received.set_result(number)

    before = {
        each: signal.signal(each, lambda number, _: loop.call_soon_threadsafe(receive, number))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
