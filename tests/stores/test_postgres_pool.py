"""Connections to PostgreSQL: transactions, several loops, errors that say what to do, and servers that go away."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import TypeVar
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, text

from max_wait import MAX_WAIT
from vmemo import Memory, Settings
from vmemo.errors import InvalidInput, MissingExtra, StoreBusy, StoreError, VmemoError
from vmemo.stores.postgres.connection import PostgresPool, fetch
from vmemo_bench.embedded_postgres import EmbeddedPostgres

R = TypeVar("R")
MAKE = "CREATE TABLE things (number integer PRIMARY KEY, word text)"


def doing(statement: str, **values: object) -> Callable[[Connection], object]:
    """Run a statement; its first value, where it has one."""

    def run(connection: Connection) -> object:
        found = connection.execute(text(statement), values)
        return found.scalar() if found.returns_rows else None

    return run


def with_pool(
    url: str, work: Callable[[PostgresPool], Coroutine[object, object, R]], *, size: int = 10, busy_seconds: float = 20
) -> R:
    async def run() -> R:
        pool = PostgresPool(url, size=size, busy_seconds=busy_seconds)
        try:
            return await work(pool)
        finally:
            await pool.close()

    return asyncio.run(run())


def failure(url: str, run: Callable[[Connection], object], *, busy_seconds: float = 20) -> VmemoError:
    """Return the error of a write; neither it nor its cause contains the password."""

    async def work(pool: PostgresPool) -> VmemoError:
        with pytest.raises(VmemoError) as raised:
            await pool.write(run)
        return raised.value

    error = with_pool(url, work, busy_seconds=busy_seconds)
    password = urlsplit(url).password
    assert password
    assert password not in "".join(traceback.format_exception(error))
    return error


def test_a_write_is_visible_to_all_and_a_failed_one_is_rolled_back(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        await pool.write(doing("INSERT INTO things VALUES (1, 'one')"))
        with pytest.raises(ZeroDivisionError):
            await pool.write(lambda connection: (doing("INSERT INTO things VALUES (2, 'two')")(connection), 1 / 0))
        assert await pool.read(doing("SELECT count(*) FROM things")) == 1

    with_pool(empty_postgres_url, work)


def test_a_read_sees_one_snapshot_and_cannot_write(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        counted, written = threading.Event(), asyncio.Event()

        def count_twice(connection: Connection) -> tuple[object, object]:
            first = doing("SELECT count(*) FROM things")(connection)
            counted.set()
            # Lets the writer through: the pool's loop runs other work while a statement is under way.
            while not written.is_set():
                doing("SELECT pg_sleep(0.01)")(connection)
            return first, doing("SELECT count(*) FROM things")(connection)

        async def write() -> None:
            await asyncio.to_thread(counted.wait)
            await pool.write(doing("INSERT INTO things VALUES (1, 'one')"))
            written.set()

        found, _ = await asyncio.gather(pool.read(count_twice), write())
        assert found == (0, 0)
        with pytest.raises(StoreError, match="read-only"):
            await pool.read(doing("INSERT INTO things VALUES (2, 'two')"))

    with_pool(empty_postgres_url, work)


def test_statements_of_searches_stay_prepared_and_a_failed_read_leaves_no_transaction(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        with pytest.raises(StoreError, match="division by zero"):
            await pool.read(lambda connection: fetch(connection, "SELECT 1 / $1::integer", 0))
        with pytest.raises(InvalidInput, match="no text, or a number too large"):
            await pool.read(lambda connection: fetch(connection, "SELECT $1::integer", "nine"))
        assert await pool.read(lambda connection: fetch(connection, "SELECT 4 / $1::integer", 2)) == [(2,)]
        count = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%$1::integer'"
        assert await pool.read(doing(count)) == 3

    with_pool(empty_postgres_url, work, size=1)


def test_only_a_write_is_marked_as_one(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> list[object]:
        def marked(connection: Connection) -> object:
            return connection.get_execution_options().get("vmemo_writes")

        return [await pool.read(marked), await pool.write(marked), await pool.read(marked)]

    assert with_pool(empty_postgres_url, work) == [None, True, None]


def test_a_pool_serves_several_event_loops_in_turn_and_concurrently(empty_postgres_url: str) -> None:
    pool = PostgresPool(empty_postgres_url, size=3)
    asyncio.run(pool.write(doing(MAKE)))
    numbers: list[object] = []

    async def some(first: int) -> None:
        for number in range(first, first + 5):
            await pool.write(doing("INSERT INTO things VALUES (:number, 'x')", number=number))
            numbers.append(await pool.read(doing("SELECT number FROM things WHERE number = :number", number=number)))

    threads = [threading.Thread(target=asyncio.run, args=(some(first),)) for first in range(0, 20, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, numbers)) == sorted(map(str, range(20)))
    assert asyncio.run(pool.read(doing("SELECT count(*) FROM things"))) == 20
    asyncio.run(pool.close())


def test_a_closed_pool_reopens_and_can_be_closed_twice(postgres: EmbeddedPostgres, empty_postgres_url: str) -> None:
    pool = PostgresPool(empty_postgres_url)
    asyncio.run(pool.close())
    assert asyncio.run(pool.read(doing("SELECT 1"))) == 1
    asyncio.run(pool.close())
    name = urlsplit(empty_postgres_url).path[1:]
    assert connected(postgres, name, until=0) == 0
    assert asyncio.run(pool.read(doing("SELECT 1"))) == 1
    asyncio.run(pool.close())
    asyncio.run(pool.close())


def connected(server: EmbeddedPostgres, database: str, *, until: int) -> int:
    """Return the number of connections to a database; the server notices a disconnect with a delay."""
    found = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"
    # In one session, because each takes longer than many queries.
    server.execute(
        f"SET statement_timeout = '{MAX_WAIT}s'; DO $$ BEGIN WHILE ({found}) <> {until} LOOP "
        "PERFORM pg_sleep(0.02); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$"
    )
    return int(server.execute(found))


def test_no_more_connections_are_opened_than_allowed(postgres: EmbeddedPostgres, empty_postgres_url: str) -> None:
    name = urlsplit(empty_postgres_url).path[1:]

    async def work(pool: PostgresPool) -> None:
        await asyncio.gather(*(pool.read(doing("SELECT pg_sleep(0.02)")) for _ in range(8)))
        assert connected(postgres, name, until=2) == 2

    with_pool(empty_postgres_url, work, size=2)


def test_a_transaction_leaves_no_state_in_its_session(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        before = await pool.read(doing("SELECT current_setting('lock_timeout')"))
        assert before == "20s"
        await pool.write(doing("SELECT set_config('lock_timeout', '1s', true)"))
        assert await pool.read(doing("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")) == 0
        assert await pool.read(doing("SELECT reset_val FROM pg_settings WHERE name = 'lock_timeout'")) == "0"

    with_pool(empty_postgres_url, work, size=1)


def test_a_patient_write_may_exceed_the_timeout(empty_postgres_url: str) -> None:
    limits = "SELECT current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')"

    async def work(pool: PostgresPool) -> list[object]:
        return [await pool.write(doing(limits)), await pool.write(doing(limits), patient=True)]

    assert with_pool(empty_postgres_url, work, busy_seconds=3) == ["3s 3s", "0 3s"]


def test_a_statement_not_allowed_in_a_transaction_runs_outside_one(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        await pool.run_outside_transactions("VACUUM (ANALYZE) things")
        with pytest.raises(StoreError, match='PostgreSQL refused: relation "nothing" does not exist'):
            await pool.run_outside_transactions("VACUUM nothing")

    with_pool(empty_postgres_url, work)


def test_waiting_for_a_row_lock_ends_at_the_timeout(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        await pool.write(doing("INSERT INTO things VALUES (1, 'one')"))
        update = doing("UPDATE things SET word = 'two' WHERE number = 1")
        other = PostgresPool(empty_postgres_url, busy_seconds=1)
        held, released = threading.Event(), asyncio.Event()

        def hold(connection: Connection) -> None:
            update(connection)
            held.set()
            while not released.is_set():
                doing("SELECT pg_sleep(0.01)")(connection)

        holding = asyncio.create_task(pool.write(hold))
        await asyncio.to_thread(held.wait)
        with pytest.raises(StoreBusy, match=r"1 seconds\. Nothing was written; try again"):
            await other.write(update)
        released.set()
        await holding
        await other.write(update)
        await other.close()

    with_pool(empty_postgres_url, work)


def test_a_statement_ends_at_the_timeout(empty_postgres_url: str) -> None:
    error = failure(empty_postgres_url, doing("SELECT pg_sleep(60)"), busy_seconds=1)
    assert isinstance(error, StoreBusy)
    assert "took longer than 1 seconds" in str(error)


def test_deadlocked_writers_both_succeed(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        await pool.write(doing("INSERT INTO things VALUES (1, ''), (2, '')"))
        arrived = list[int]()

        def crossing(first: int, second: int) -> Callable[[Connection], None]:
            def run(connection: Connection) -> None:
                append = "UPDATE things SET word = word || :who WHERE number = :number"
                doing(append, who=str(first), number=first)(connection)
                arrived.append(first)
                while len(set(arrived)) < 2:
                    doing("SELECT pg_sleep(0.01)")(connection)
                doing(append, who=str(first), number=second)(connection)

            return run

        await asyncio.gather(pool.write(crossing(1, 2)), pool.write(crossing(2, 1)))
        assert len(arrived) == 3, "one of the two was run again"
        words = await pool.read(doing("SELECT string_agg(word, ' ') FROM things"))
        assert sorted("".join(str(words).split())) == ["1", "1", "2", "2"]

    with_pool(empty_postgres_url, work)


def test_a_cancelled_write_is_rolled_back_and_releases_its_connection(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        written = threading.Event()

        def endless(connection: Connection) -> None:
            doing("INSERT INTO things VALUES (1, 'one')")(connection)
            written.set()
            doing("SELECT pg_sleep(60)")(connection)

        task = asyncio.create_task(pool.write(endless))
        await asyncio.to_thread(written.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await pool.write(doing("INSERT INTO things VALUES (1, 'one again')"))
        assert await pool.read(doing("SELECT word FROM things")) == "one again"

    with_pool(empty_postgres_url, work, size=1)


def test_closing_cancels_running_statements(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        begun = threading.Event()

        def endless(connection: Connection) -> None:
            begun.set()
            doing("SELECT pg_sleep(60)")(connection)

        task = asyncio.create_task(pool.read(endless))
        await asyncio.to_thread(begun.wait)
        await pool.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_pool(empty_postgres_url, work)


def test_the_error_for_a_null_character_names_it(empty_postgres_url: str) -> None:
    error = failure(empty_postgres_url, doing("SELECT CAST(:word AS text)", word="a\0b"))
    assert isinstance(error, InvalidInput)
    assert "null character" in str(error)


def test_the_error_for_an_unsendable_value_does_not_show_it(empty_postgres_url: str) -> None:
    error = failure(empty_postgres_url, doing("SELECT CAST(:word AS text)", word="secret \ud800"))
    assert isinstance(error, InvalidInput)
    assert "secret" not in str(error)


def test_a_server_error_is_quoted_without_values(empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        add = doing("INSERT INTO things (number, word) VALUES (1, :word)", word="tulips")
        await pool.write(add)
        with pytest.raises(StoreError, match=r"things_pkey.*rolled back") as raised:
            await pool.write(add)
        assert "tulips" not in "".join(traceback.format_exception(raised.value))

    with_pool(empty_postgres_url, work)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (("postgres:", "postgres:wrong"), StoreError, "user or the password"),
        (("/test_", "/nowhere_"), StoreError, "no such database"),
        (("127.0.0.1", "nowhere.invalid"), StoreError, "can't be found"),
    ],
)
def test_the_error_for_a_wrong_url_hides_the_password(
    empty_postgres_url: str, change: tuple[str, str], kind: type[VmemoError], message: str
) -> None:
    error = failure(empty_postgres_url.replace(*change), doing("SELECT 1"))
    assert type(error) is kind
    assert message in str(error)


def test_requiring_tls_of_a_server_without_it_is_an_error(empty_postgres_url: str) -> None:
    error = failure(empty_postgres_url + "?sslmode=require", doing("SELECT 1"))
    assert not isinstance(error, StoreBusy)
    assert "SSL" in str(error)
    assert with_pool(empty_postgres_url + "?sslmode=prefer", lambda pool: pool.read(doing("SELECT 1"))) == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:secret@h/db?sslmod=require", "no parameter 'sslmod'"),
        ("postgresql://u:secret@h/db?options=-cjit%3Doff", "no parameter 'options'"),
        ("postgresql://u:secret@h/db?sslmode=maybe", "sslmode is disable"),
        ("postgresql://u:secret@h/db?sslmode", "can't be read"),
        ("postgresql://u:secret@h:port/db", "can't be read"),
        ("postgresql://u:sec@ret@h/db", "%40"),
        ("postgresql://u:sec#ret@h/db", "can't be read"),
        ("postgresql://u:sec/ret@h/db", "can't be read"),
        ("postgresql://u:secret@h/d%00b", "null character"),
        ("postgresql://u:secret@h/db?port=x", "port is a number"),
    ],
)
def test_an_ambiguous_url_is_refused_without_showing_the_password(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        PostgresPool(url)
    assert "sec" not in "".join(traceback.format_exception(raised.value)).replace("seconds", "")


def test_a_lost_connection_is_replaced_and_its_transaction_retried(
    postgres: EmbeddedPostgres, empty_postgres_url: str
) -> None:
    name = urlsplit(empty_postgres_url).path[1:]

    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        runs = list[int]()

        def interrupted(connection: Connection) -> None:
            doing("INSERT INTO things VALUES (1, 'one')")(connection)
            runs.append(1)
            if len(runs) == 1:
                postgres.execute(
                    f"SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = '{name}'"
                )
            doing("INSERT INTO things VALUES (2, 'two')")(connection)

        await pool.write(interrupted)
        assert len(runs) == 2
        assert await pool.read(doing("SELECT count(*) FROM things")) == 2

    with_pool(empty_postgres_url, work)


def test_a_connection_lost_during_commit_reports_an_unknown_outcome(
    postgres: EmbeddedPostgres, empty_postgres_url: str
) -> None:
    name = urlsplit(empty_postgres_url).path[1:]

    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))

        def cut_off(connection: Connection) -> None:
            doing("INSERT INTO things VALUES (1, 'one')")(connection)
            postgres.execute(f"SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = '{name}'")

        with pytest.raises(StoreError, match="not known; look before you repeat") as raised:
            await pool.write(cut_off)
        assert not isinstance(raised.value, StoreBusy)
        assert await pool.read(doing("SELECT count(*) FROM things")) == 0

    with_pool(empty_postgres_url, work)


def test_a_stopped_server_is_busy_and_keeps_committed_rows(postgres: EmbeddedPostgres, empty_postgres_url: str) -> None:
    async def work(pool: PostgresPool) -> None:
        await pool.write(doing(MAKE))
        await pool.write(doing("INSERT INTO things VALUES (1, 'one')"))
        postgres.kill()
        with pytest.raises(StoreBusy, match=r"can't be reached\. Nothing was written; try again"):
            await pool.write(doing("INSERT INTO things VALUES (2, 'two')"))
        postgres.start()
        await pool.write(doing("INSERT INTO things VALUES (3, 'three')"))
        assert await pool.read(doing("SELECT sum(number) FROM things")) == 4

    with_pool(empty_postgres_url, work)


def test_a_missing_driver_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vmemo\[postgres\]'"):
        Memory("postgresql://u:secret@h/db")


@pytest.mark.parametrize("url", ["postgres://u:secret@h/db", "u:secret@h/db", "postgresql:/u:secret@h/db"])
def test_an_unsupported_url_is_refused_without_showing_the_password(url: str) -> None:
    with pytest.raises(InvalidInput, match="postgresql://") as raised:
        Memory(url)
    assert "secret" not in str(raised.value)


def test_the_number_of_connections_is_set_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMEMO_CONNECTIONS", "3")
    assert Settings.from_environment().connections == 3
    with pytest.raises(InvalidInput, match="connections: must be greater than or equal to 1, not 0"):
        Settings(connections=0)
