"""The SQLite store keeps every promise of the port, in a file and in memory."""

from pathlib import Path

from vmemo.ports import Store
from vmemo.stores.sql.sqlite import SqliteStore
from vmemo.testing import StoreConformance
from vmemo.testing.conformance.archive import ArchiveConformance
from vmemo.testing.conformance.forgetting import ForgettingConformance
from vmemo.testing.conformance.library import LibraryConformance
from vmemo.testing.conformance.queueing import QueueConformance
from vmemo.testing.conformance.searching import SearchConformance
from vmemo.testing.conformance.working import WorkConformance
from vmemo.testing.conformance.writing import WritingConformance


class TestSqliteFile(StoreConformance):
    """One file."""

    def make_store(self, folder: Path) -> Store:
        return SqliteStore(folder / "memory.db")


class TestSqliteInMemory(
    ArchiveConformance,
    WritingConformance,
    LibraryConformance,
    SearchConformance,
    ForgettingConformance,
    QueueConformance,
    WorkConformance,
):
    """No file: the memories live as long as the store is open. What it does alike is tested with a file."""

    shared = False

    def make_store(self, folder: Path) -> Store:
        return SqliteStore(None)
