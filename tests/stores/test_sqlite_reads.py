"""Reads of a SQLite file: one at a time, unless one takes long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from time import sleep

import pytest

from max_wait import MAX_WAIT
from vmemo.errors import InvalidInput
from vmemo.stores.sqlite import read_queue
from vmemo.stores.sqlite.database import SqliteDatabase
from vmemo.stores.sqlite.file import SqliteFile
from vmemo.stores.sqlite.read_queue import LATE, ReadQueue


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[SqliteDatabase]:
    database = SqliteDatabase(SqliteFile(folder / "a.db", busy_seconds=5), threads=2)
    yield database
    await database.close()


def test_reads_run_one_after_the_other_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_queue, "LATE", MAX_WAIT)
    steps: list[str] = []

    def read(name: str) -> None:
        steps.append(f"{name} begins")
        sleep(0.01)
        steps.append(f"{name} ends")

    async def run() -> None:
        async with opened(tmp_path) as database:
            await asyncio.gather(*(database.run(read, name) for name in "abc"))

    asyncio.run(run())
    assert steps == [f"{name} {step}" for name in "abc" for step in ("begins", "ends")]


def test_a_long_read_does_not_delay_others_for_long(tmp_path: Path) -> None:
    async def run() -> None:
        others_done = Event()
        async with opened(tmp_path) as database:
            long = asyncio.create_task(database.run(others_done.wait, MAX_WAIT))
            others = [asyncio.create_task(database.run(int, number)) for number in "123"]
            assert await asyncio.gather(*others) == [1, 2, 3]
            assert not long.done()
            others_done.set()
            assert await long

    asyncio.run(run())


def test_a_read_does_not_wait_for_one_that_is_known_to_be_long() -> None:
    queue, proceed = ReadQueue(3), Event()
    with ThreadPoolExecutor(3) as threads:
        long, waits = queue.submit(threads, lambda: proceed.wait(MAX_WAIT))
        assert not waits
        _, waits = queue.submit(threads, lambda: None)
        assert waits
        sleep(LATE)
        queue.help(threads)
        read, waits = queue.submit(threads, lambda: 1)
        assert read.result(MAX_WAIT) == 1
        read, waits = queue.submit(threads, lambda: 2)
        assert read.result(MAX_WAIT) == 2
        assert not long.done()
        proceed.set()


def test_an_error_is_that_of_its_own_read(tmp_path: Path) -> None:
    def refuse() -> None:
        raise InvalidInput("no")

    async def run() -> None:
        async with opened(tmp_path) as database:
            refused, read = await asyncio.gather(database.run(refuse), database.run(int, "1"), return_exceptions=True)
        assert isinstance(refused, InvalidInput)
        assert read == 1

    asyncio.run(run())


def test_a_cancelled_read_is_not_run() -> None:
    queue, proceed, run = ReadQueue(2), Event(), list[int]()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(proceed.wait)
        futures = [queue.submit(thread, lambda number=number: run.append(number))[0] for number in range(3)]
        futures[1].cancel()
        proceed.set()
    assert run == [0, 2]
