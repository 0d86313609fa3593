"""The schema on PostgreSQL: made once, by one process at a time, and refused by older programs."""

import asyncio
import threading
import traceback
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, insert, inspect, select, text

from vmemo.errors import SchemaTooNew, StoreError
from vmemo.stores.postgres import schema as postgres_schema
from vmemo.stores.postgres.connection import PostgresPool
from vmemo.stores.sql import migrate, schema
from vmemo_bench.embedded_postgres import EmbeddedPostgres

R = TypeVar("R")
SHARED = {table.name for table in schema.metadata.sorted_tables} - {"token_vectors"}
OWN = {table.name for table in postgres_schema.search.sorted_tables}


def write(url: str, run: Callable[[Connection], R]) -> R:
    async def working() -> R:
        pool = PostgresPool(url, busy_seconds=20)
        try:
            return await pool.write(run, patient=True)
        finally:
            await pool.close()

    return asyncio.run(working())


def tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def test_an_empty_database_gets_tables_with_the_bank_first_in_their_keys(empty_postgres_url: str) -> None:
    def run(connection: Connection) -> None:
        assert migrate.current(connection) is None
        migrate.upgrade(connection)
        assert migrate.current(connection) == migrate.HEAD
        assert tables(connection) == SHARED | OWN | {"alembic_version"}
        for name in (SHARED | OWN) - postgres_schema.BY_NUMBER - {"notes"}:
            assert inspect(connection).get_pk_constraint(name)["constrained_columns"][0] == "bank"

    write(empty_postgres_url, run)


def test_tables_match_the_shared_schema(postgres_url: str) -> None:
    def run(connection: Connection) -> None:
        for name in SHARED:
            table = schema.metadata.tables[name]
            found = {column["name"]: column["nullable"] for column in inspect(connection).get_columns(name)}
            assert found == {column.name: bool(column.nullable) for column in table.columns}
            indexes = {str(index["name"]) for index in inspect(connection).get_indexes(name)}
            # Here the key of mentions begins with the entity.
            assert {str(index.name) for index in table.indexes} - {"mentions_entity"} <= indexes

    write(postgres_url, run)


def test_sequence_numbers_are_assigned_by_the_database_across_banks(postgres_url: str) -> None:
    def run(connection: Connection) -> None:
        bank = {"profile": "{}", "embedder": "e", "dimension": 3, "created_at": 0}
        seqs = [
            connection.execute(insert(schema.banks).values(id=name, **bank).returning(schema.banks.c.seq)).scalar_one()
            for name in ("one", "two")
        ]
        episode = {"title": "", "narrative": "", "started_at": 0, "ended_at": 0, "recorded_at": 0}
        rows = [{"bank": seq, "id": f"{number}", **episode} for seq in seqs for number in range(5)]
        given = connection.execute(insert(schema.episodes).returning(schema.episodes.c.seq), rows).scalars().all()
        assert len(set(given)) == 10

    write(postgres_url, run)


def test_text_is_ordered_bytewise_in_every_language(postgres_url: str) -> None:
    def run(connection: Connection) -> None:
        names = ["b", "B", "a", "Ä", "_"]
        connection.execute(insert(schema.notes), [{"name": name, "value": ""} for name in names])
        found = connection.execute(select(schema.notes.c.name).order_by(schema.notes.c.name)).scalars().all()
        assert list(found) == sorted(names)

    write(postgres_url, run)


def test_upgrading_again_changes_nothing(postgres_url: str) -> None:
    def run(connection: Connection) -> None:
        before = tables(connection)
        migrate.upgrade(connection)
        assert tables(connection) == before
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [migrate.HEAD]

    write(postgres_url, run)


def test_processes_that_open_a_new_database_concurrently_create_its_schema_once(empty_postgres_url: str) -> None:
    failed: list[BaseException] = []
    ready = threading.Barrier(3)

    def open_it() -> None:
        ready.wait()
        try:
            write(empty_postgres_url, migrate.upgrade)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert write(empty_postgres_url, migrate.current) == migrate.HEAD


def test_an_interrupted_upgrade_leaves_nothing(empty_postgres_url: str) -> None:
    with pytest.raises(ZeroDivisionError):
        write(empty_postgres_url, lambda connection: (migrate.upgrade(connection), 1 / 0))
    assert write(empty_postgres_url, tables) == set()
    write(empty_postgres_url, migrate.upgrade)


def test_an_older_program_refuses_a_newer_schema(postgres_url: str) -> None:
    write(postgres_url, lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(SchemaTooNew, match="9999"):
        write(postgres_url, migrate.upgrade)
    assert write(postgres_url, migrate.current) == "9999"


def test_the_database_of_another_program_is_refused_and_unchanged(empty_postgres_url: str) -> None:
    def occupy(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('1f3a9c')"))

    write(empty_postgres_url, occupy)
    with pytest.raises(StoreError, match="a database of its own"):
        write(empty_postgres_url, migrate.upgrade)
    assert write(empty_postgres_url, tables) == {"alembic_version"}


def test_the_error_for_a_missing_pgvector_permission_names_who_can_add_it(
    postgres: EmbeddedPostgres, empty_postgres_url: str
) -> None:
    name = urlsplit(empty_postgres_url).path[1:]
    postgres.execute("DROP ROLE IF EXISTS plain")
    postgres.execute("CREATE ROLE plain LOGIN PASSWORD 'hidden'")
    postgres.execute("GRANT ALL ON SCHEMA public TO plain", name)
    plain = f"postgresql://plain:hidden@{urlsplit(empty_postgres_url).netloc.rpartition('@')[2]}/{name}"
    with pytest.raises(StoreError, match="CREATE EXTENSION vector") as raised:
        write(plain, migrate.upgrade)
    assert "hidden" not in "".join(traceback.format_exception(raised.value))
    assert write(empty_postgres_url, tables) == set()
    postgres.execute("CREATE EXTENSION vector", name)
    write(plain, migrate.upgrade)
    postgres.execute("DROP OWNED BY plain", name)
    postgres.execute("DROP ROLE plain")
