"""The PostgreSQL store keeps every promise of the port."""

from pathlib import Path

import pytest

from vmemo.ports import Store
from vmemo.stores.postgres.store import PostgresStore
from vmemo_conformance import StoreConformance


class TestPostgres(StoreConformance):
    """One database for each test."""

    @pytest.fixture(autouse=True)
    def database(self, lent_postgres_url: str) -> None:
        self._url = lent_postgres_url

    def make_store(self, folder: Path) -> Store:
        return PostgresStore(self._url)
