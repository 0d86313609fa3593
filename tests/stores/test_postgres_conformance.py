"""The PostgreSQL store keeps every promise of the port."""

import asyncio
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from store_fixtures import EMPTY
from vmemo.ports import Store
from vmemo.stores.postgres.connection import PostgresPool
from vmemo.stores.postgres.store import PostgresStore
from vmemo_bench.embedded_postgres import EmbeddedPostgres
from vmemo_conformance import StoreConformance


class KeptStore(PostgresStore):
    """A store that stays connected from one test to the next: half of their time would be spent on new connections."""

    async def close(self) -> None:
        """Leave the connections open; `disconnect` closes them."""

    async def disconnect(self) -> None:
        """Close all connections."""
        await super().close()


@pytest.fixture(scope="module")
def kept_stores(postgres: EmbeddedPostgres, postgres_template: str) -> Iterator[list[KeptStore]]:
    """Two stores of one database."""
    url = postgres.create("conformance", postgres_template)
    stores = [KeptStore(url), KeptStore(url)]
    yield stores
    for store in stores:
        asyncio.run(store.disconnect())
    postgres.drop("conformance")


@pytest.fixture(scope="module")
def pool(postgres: EmbeddedPostgres, kept_stores: list[KeptStore]) -> Iterator[PostgresPool]:
    """Connections that empty the database of the two stores."""
    pool = PostgresPool(postgres.url("conformance"))
    yield pool
    asyncio.run(pool.close())


class TestPostgres(StoreConformance):
    """One database, emptied after each test; a test that opens more than two stores gets new ones."""

    @pytest.fixture(autouse=True)
    def database(self, postgres: EmbeddedPostgres, kept_stores: list[KeptStore], pool: PostgresPool) -> Iterator[None]:
        url = postgres.url("conformance")
        self._stores = chain(kept_stores, map(PostgresStore, repeat(url)))
        yield
        asyncio.run(pool.run_outside_transactions(EMPTY))

    def make_store(self, folder: Path) -> Store:
        return next(self._stores)
