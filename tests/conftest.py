"""Failures of the shipped suite show their values, as those of our own tests do; PostgreSQL runs where it can."""

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

# The suite is rewritten as it is imported, and `vmemo.testing` imports it.
pytest.register_assert_rewrite("vmemo.testing.conformance")

from vmemo.embedded_postgres import EmbeddedPostgres  # noqa: E402
from vmemo.errors import VmemoError  # noqa: E402
from vmemo.stores.sql import migrate  # noqa: E402
from vmemo.stores.sql.postgres_pool import PostgresPool  # noqa: E402

TEMPLATE = "vmemo_template"
_numbers = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL server, started by the first test that asks for it."""
    server = EmbeddedPostgres()
    try:
        server.start()
    except VmemoError as error:
        pytest.skip(f"No PostgreSQL here: {error}")
    with server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: EmbeddedPostgres) -> str:
    """The name of a database with the schema of today in it, which others are copied from."""

    async def fill() -> None:
        pool = PostgresPool(postgres.create(TEMPLATE))
        await pool.write(lambda connection: migrate.upgrade(connection, partitions=2), patient=True)
        await pool.close()

    asyncio.run(fill())
    return TEMPLATE


@pytest.fixture
def postgres_url(postgres: EmbeddedPostgres, postgres_template: str) -> Iterator[str]:
    """The URL of a database of the test's own, with the schema in it."""
    yield from _database(postgres, postgres_template)


@pytest.fixture
def empty_postgres_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    yield from _database(postgres)


def _database(server: EmbeddedPostgres, template: str | None = None) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    # A test may have killed it.
    server.start()
    try:
        yield server.create(name, template)
    finally:
        server.start()
        server.drop(name)
