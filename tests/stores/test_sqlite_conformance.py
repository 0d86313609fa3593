"""The SQLite store keeps every promise of the port, in a file and in memory."""

import shutil
from pathlib import Path

import pytest

from vmemo.ports import Store
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance import StoreConformance
from vmemo_conformance.batches import BatchConformance
from vmemo_conformance.messages import MessageConformance
from vmemo_conformance.queue import QueueConformance


class TestSqliteFile(StoreConformance):
    """One file for each test, a copy of one with the schema."""

    @pytest.fixture(autouse=True)
    def template(self, sqlite_template: Path) -> None:
        self._template = sqlite_template

    def make_store(self, folder: Path) -> Store:
        path = folder / "memory.db"
        if not path.exists():
            shutil.copy(self._template, path)
        return SqliteStore(path)


class TestSqliteInMemory(MessageConformance, BatchConformance, QueueConformance):
    """No file: the memories live as long as the store is open. What it does alike is tested with a file."""

    shared = False

    def make_store(self, folder: Path) -> Store:
        return SqliteStore(None)
