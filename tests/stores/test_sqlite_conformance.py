"""The SQLite store keeps every promise of the port, in a file and in memory."""

from pathlib import Path

from vmemo.ports import Store
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance import StoreConformance
from vmemo_conformance.batches import WritingConformance
from vmemo_conformance.forget import ForgettingConformance
from vmemo_conformance.jobs import WorkConformance
from vmemo_conformance.messages import ArchiveConformance
from vmemo_conformance.queue import QueueConformance
from vmemo_conformance.reads import LibraryConformance
from vmemo_conformance.search import SearchConformance


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
