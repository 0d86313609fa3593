"""The SQLite store keeps every promise of the port, in a file and in memory."""

from pathlib import Path

from vmemo.ports import Store
from vmemo.stores.sql.sqlite import SqliteStore
from vmemo.testing import StoreConformance


class TestSqliteFile(StoreConformance):
    """One file."""

    def make_store(self, folder: Path) -> Store:
        return SqliteStore(folder / "memory.db")


class TestSqliteInMemory(StoreConformance):
    """No file: the memories live as long as the store is open."""

    shared = False

    def make_store(self, folder: Path) -> Store:
        return SqliteStore(None)
