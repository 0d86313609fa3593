"""Group commit of a SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import Connection, RootTransaction

from vmemo.errors import InvalidInput, StoreBusy
from vmemo.stores.sqlite import write_queue
from vmemo.stores.sqlite.file import SqliteFile

Run = Callable[[Connection], RootTransaction | None]


@pytest.fixture
def file(tmp_path: Path) -> Generator[SqliteFile]:
    opened = SqliteFile(tmp_path / "a.db", busy_seconds=5)
    opened.write(lambda c: c.exec_driver_sql("CREATE TABLE numbers (number INTEGER)"))
    yield opened
    opened.close()


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


@pytest.fixture(autouse=True)
def _no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "GROUP_SECONDS", 60)


def written_together(file: SqliteFile, *runs: Run) -> list[Future[RootTransaction | None]]:
    """Write functions that are all queued, and the last one cancelled, before their thread begins."""
    queue, proceed = write_queue.WriteQueue(file), Event()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(proceed.wait)
        futures = [queue.submit(thread, run) for run in (add(0), *runs)]
        futures[-1].cancel()
        proceed.set()
    return futures


def stored(file: SqliteFile) -> list[int]:
    return file.read(lambda c: list(c.exec_driver_sql("SELECT number FROM numbers ORDER BY number").scalars()))


def test_waiting_writes_share_a_transaction_and_an_error_undoes_only_its_own_write(file: SqliteFile) -> None:
    _, second, failed, third, cancelled = written_together(file, add(1), refuse, add(2), add(3))
    assert second.result() is third.result()
    with pytest.raises(InvalidInput, match="no"):
        failed.result()
    assert cancelled.cancelled()
    assert stored(file) == [0, 1, 2]


def test_writes_are_repeated_alone_when_their_transaction_is_lost(file: SqliteFile) -> None:
    _, second, lost, third, _ = written_together(file, add(1), lose, add(2), add(3))
    assert second.result() is not third.result()
    with pytest.raises(InvalidInput, match="lost"):
        lost.result()
    assert stored(file) == [0, 1, 2]


def test_a_commit_that_finds_the_file_busy_is_an_error_of_every_write(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Connection.commit

    def busy_if_shared(connection: Connection) -> None:
        if connection.exec_driver_sql("SELECT count(*) FROM numbers").scalar_one() > 1:
            raise StoreBusy("busy")
        commit(connection)

    monkeypatch.setattr(Connection, "commit", busy_if_shared)
    *writes, _ = written_together(file, add(1), add(2), add(3))
    for write in writes:
        with pytest.raises(StoreBusy):
            write.result()
    assert stored(file) == []
