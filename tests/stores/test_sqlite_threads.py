"""The threads of a SQLite file: writes that wait are committed together, and reads run beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import Connection, RootTransaction

from max_wait import MAX_WAIT
from vmemo.errors import InvalidInput, StoreBusy
from vmemo.stores.sqlite import store as sqlite_store
from vmemo.stores.sqlite.store import SqliteDatabase, SqliteFile

Run = Callable[[Connection], RootTransaction | None]
Outcomes = list[RootTransaction | BaseException | None]


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[SqliteDatabase]:
    file = SqliteFile(folder / "a.db", busy_seconds=5)
    file.write(lambda c: c.exec_driver_sql("CREATE TABLE numbers (number INTEGER)"))
    threads = SqliteDatabase(file, threads=2)
    yield threads
    await threads.close()


def add(number: int) -> Run:
    def run(connection: Connection) -> RootTransaction | None:
        connection.exec_driver_sql("INSERT INTO numbers VALUES (?)", (number,))
        return connection.get_transaction()

    return run


def refuse(connection: Connection) -> None:
    add(99)(connection)
    raise InvalidInput("no")


def lose(connection: Connection) -> None:
    """Lose the whole transaction, as a full disk does."""
    connection.exec_driver_sql("ROLLBACK")
    raise InvalidInput("lost")


def written_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *runs: Run, cancelled: Run | None = None
) -> tuple[Outcomes, list[int]]:
    """Write functions that all wait for the first one; return their outcomes, and the numbers that are stored."""
    monkeypatch.setattr(sqlite_store, "GROUP_SECONDS", MAX_WAIT)

    async def write() -> tuple[Outcomes, list[int]]:
        queued = Event()

        def first(connection: Connection) -> None:
            add(0)(connection)
            assert queued.wait(MAX_WAIT)

        async with opened(folder) as threads:
            tasks = [asyncio.create_task(threads.write(run)) for run in (first, *runs)]
            last = asyncio.create_task(threads.write(cancelled or add(0)))
            await asyncio.sleep(0)
            last.cancel()
            await asyncio.sleep(0)
            queued.set()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            numbers = "SELECT number FROM numbers ORDER BY number"
            return outcomes[1:], await threads.read(lambda c: list(c.exec_driver_sql(numbers).scalars()))

    return asyncio.run(write())


def test_waiting_writes_share_a_transaction_and_cancelled_ones_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [second, third], stored = written_together(tmp_path, monkeypatch, add(1), add(2), cancelled=add(3))
    assert isinstance(second, RootTransaction)
    assert second is third
    assert stored == [0, 1, 2]


@pytest.mark.parametrize(("failing", "error"), [(refuse, "no"), (lose, "lost")])
def test_an_error_undoes_only_its_own_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: Run, error: str
) -> None:
    [second, failed, third], stored = written_together(tmp_path, monkeypatch, add(1), failing, add(2))
    assert second is not third
    assert isinstance(failed, InvalidInput)
    assert str(failed) == error
    assert stored == [0, 1, 2]


def test_a_commit_that_finds_the_file_busy_is_an_error_of_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(connection: Connection) -> None:
        raise StoreBusy("busy")

    outcomes, stored = written_together(tmp_path, monkeypatch, add(1), busy, add(2))
    assert isinstance(outcomes[0], StoreBusy)
    assert isinstance(outcomes[1], StoreBusy)
    assert stored == [2]


def test_a_long_read_does_not_delay_others(tmp_path: Path) -> None:
    async def run() -> None:
        others_done = Event()
        async with opened(tmp_path) as threads:
            long = asyncio.create_task(threads.run(others_done.wait, MAX_WAIT))
            others = [asyncio.create_task(threads.run(int, number)) for number in "123"]
            assert await asyncio.gather(*others) == [1, 2, 3]
            assert not long.done()
            others_done.set()
            assert await long

    asyncio.run(run())


def test_an_error_is_that_of_its_own_read(tmp_path: Path) -> None:
    def fail() -> None:
        raise InvalidInput("no")

    async def run() -> None:
        async with opened(tmp_path) as threads:
            refused, read = await asyncio.gather(threads.run(fail), threads.run(int, "1"), return_exceptions=True)
        assert isinstance(refused, InvalidInput)
        assert read == 1

    asyncio.run(run())
