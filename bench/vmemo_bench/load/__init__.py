"""How a server holds out: many clients that retain and recall at a time, and a restart in the middle of it.

The server is `vmemo serve` in a process of its own on this machine, with the packaged embedder, and the clients share
the machine with it. Afterwards the archive is compared with what the server had said was stored.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import asdict
from pathlib import Path

from vmemo import Memory, Message
from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.environment import describe, make_folder, sqlite_url
from vmemo_bench.load.clients import Clients, Tally
from vmemo_bench.load.process import Serving
from vmemo_bench.metrics import Metrics, percentile
from vmemo_bench.options import BenchOptions, LoadOptions, ProgressSink
from vmemo_bench.report import Report
from vmemo_bench.steps import Steps

__all__ = ["measure_load"]


async def measure_load(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Put a server under load, end it with SIGTERM half way, start it again, and look what is there in the end."""
    load = options.load
    if load.clients < 1 or load.banks < 1 or load.seconds <= 0 or not 0 <= load.retains <= 1:
        raise InvalidInput("load needs at least one client, one bank, some seconds, and a share of retains from 0 to 1")
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        file = Path(folder) / "load.db"
        async with Serving(file) as server:
            tally = await _pressed(load, server, sink)
        metrics = tally.metrics(load.seconds) | _memory(server.sizes) | await _kept(file, tally)
    config = {**describe(embedder, settings), **asdict(load)}
    return Report(benchmark="load", metrics=metrics, timings=tally.timings(), config=config)


async def _pressed(load: LoadOptions, server: Serving, sink: ProgressSink) -> Tally:
    """The clients at work, and the server watched and started anew meanwhile."""
    steps = Steps(sink, f"{load.clients} clients", max(1, round(load.seconds)))
    clients = Clients(load, server.url)
    working = asyncio.create_task(clients.work())
    try:
        for second in range(max(1, round(load.seconds))):
            await asyncio.wait([working], timeout=load.seconds / max(1, round(load.seconds)))
            server.measure()
            if load.restart and second == round(load.seconds) // 2:
                await server.restart()
            steps.advance()
        return await working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def _memory(sizes: list[list[float]]) -> Metrics:
    """Megabytes of the server after its first fifth and at its end, for the longest that one process ran."""
    longest = max([list[float](), *sizes], key=len)
    if not longest:
        return {}
    begin, end = longest[len(longest) // 5 :][:5], longest[-5:]
    first, last = percentile(begin, 0.5), percentile(end, 0.5)
    return {"server_mb": last, "server_mb_early": first, "server_growth": last / first}


async def _kept(file: Path, tally: Tally) -> Metrics:
    """How many messages that were said to be stored are not there, and how many are there twice."""
    lost = twice = unread = 0
    async with Memory(sqlite_url(file), settings=Settings()) as memory:
        for bank, stored in tally.stored.items():
            there = [message.content async for message in _archive(memory.bank(bank))]
            lost += len(stored - set(there))
            twice += len(there) - len(set(there))
            unread += (await memory.bank(bank).status()).pending
    return {"lost": float(lost), "stored_twice": float(twice), "unread": float(unread)}


async def _archive(memory: Memory) -> AsyncGenerator[Message]:
    after = None
    while page := await memory.messages(after=after, limit=1000):
        for message in page:
            yield message
        after = page[-1].id
