"""Failures of the shipped suite show their values, as those of our own tests do; PostgreSQL runs where it can."""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path

import pytest

from databases import NewDatabase

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
    with _database(postgres, postgres_template) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    with _database(postgres) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a file of the test's own, `memory.db` in its folder: for tests of what every store shares."""
    return f"sqlite:///{tmp_path / 'memory.db'}"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def new_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NewDatabase:
    """Makes databases that live as long as their block; what uses it is tested on each store."""
    if request.param == "sqlite":
        return lambda: nullcontext(f"sqlite:///{tmp_path_factory.mktemp('new') / 'memory.db'}")
    server, template = request.getfixturevalue("postgres"), request.getfixturevalue("postgres_template")
    return lambda: _database(server, template)


@pytest.fixture
def url(new_database: NewDatabase) -> Iterator[str]:
    """The URL of a database of the test's own, on each store in turn."""
    with new_database() as url:
        yield url


@contextmanager
def _database(server: EmbeddedPostgres, template: str | None = None) -> Generator[str]:
    name = f"test_{next(_numbers)}"
    # A test may have killed it.
    server.start()
    try:
        yield server.create(name, template)
    finally:
        server.start()
        server.drop(name)
