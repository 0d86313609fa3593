"""The Neo4j store keeps every promise of the port."""

from pathlib import Path

import pytest

from vmemo.ports import Store
from vmemo_conformance import StoreConformance
from vmemo_neo4j.store import Neo4jStore


class TestNeo4j(StoreConformance):
    """One namespace for each test."""

    @pytest.fixture(autouse=True)
    def database(self, neo4j_url: str) -> None:
        self._url = neo4j_url

    def make_store(self, folder: Path) -> Store:
        return Neo4jStore(self._url)
