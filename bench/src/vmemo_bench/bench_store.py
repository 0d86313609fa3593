"""Stores that a run creates its banks in: temporary SQLite files, or one PostgreSQL or Neo4j database."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.datasets import Dataset
from vmemo_bench.embedded_postgres import EmbeddedPostgres
from vmemo_bench.environment import make_folder, sqlite_url
from vmemo_bench.options import BenchOptions
from vmemo_bench.postgres import PostgresDatabase, durable_settings
from vmemo_bench.report import Setting

NEO4J = ("neo4j://", "neo4j+s://", "neo4j+ssc://", "bolt://", "bolt+s://", "bolt+ssc://")
PREFIX = "benchmark "
"""Prefix of bank names in a database that may contain other banks."""


@dataclass(frozen=True, kw_only=True)
class BankLocation:
    """The URL of a store, the name of a bank in it, and a path for a temporary export of the bank."""

    url: str
    bank: str
    export_file: Path


def location_in_file(database: Path, bank: str) -> BankLocation:
    """Return the location of a bank in its own database file."""
    return BankLocation(url=sqlite_url(database), bank=bank, export_file=database.with_suffix(".jsonl"))


def remove_database(database: Path) -> None:
    """Delete a database file and the files that SQLite keeps beside it."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


@dataclass(frozen=True)
class BankFolder:
    """Database files of the banks of a dataset, one for each case. Kept ones outlive the run."""

    folder: Path
    keep: bool = False

    def location(self, case: str) -> BankLocation:
        """Return the location of the bank of a case, the same in every run."""
        make_folder(self.folder)
        return location_in_file(self._database(case), case)

    def remove(self, case: str) -> None:
        """Delete the bank of a case, unless it is kept."""
        if not self.keep:
            remove_database(self._database(case))

    def clear(self) -> None:
        """Delete all banks, unless they are kept."""
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _database(self, case: str) -> Path:
        return self.folder / f"{hashlib.sha256(case.encode()).hexdigest()[:16]}.db"


def kept_banks(options: BenchOptions, dataset: Dataset) -> BankFolder | None:
    """Return the folder of banks that are kept for a dataset and an engine, if the options name one."""
    if options.keep_banks is None:
        return None
    return BankFolder(options.keep_banks / f"{dataset.name}-{dataset.digest[:8]}-{options.engine}", keep=True)


@dataclass(frozen=True, kw_only=True)
class BenchStore:
    """Creates locations for temporary banks, and removes the banks afterwards.

    Without a `memory` the banks are SQLite files in the folder. With one they are in its database at `url`; those in a
    user's database are deleted after use.
    """

    folder: Path
    config: Mapping[str, Setting] = field(default_factory=lambda: {"store": "sqlite"})
    """Description of the store for the report."""
    memory: Memory | None = None
    url: str = field(default="", repr=False)
    database: PostgresDatabase | None = None
    """The PostgreSQL database of the banks, if this is one."""
    _numbers: count[int] = field(default_factory=count)

    @asynccontextmanager
    async def bank(self, name: str) -> AsyncGenerator[BankLocation]:
        """Yield the location of a single bank."""
        async with self.banks((name,)) as (location,):
            yield location

    @asynccontextmanager
    async def banks(self, names: Sequence[str]) -> AsyncGenerator[Sequence[BankLocation]]:
        """Yield locations in one store for banks that do not exist yet; remove the banks on exit.

        Raise InvalidInput if the database of a server already contains a bank of such a name.
        """
        file = self.folder / f"{next(self._numbers)}.db"
        if self.memory is None:
            try:
                yield [location_in_file(file, name) for name in names]
            finally:
                remove_database(file)
            return
        ours = [PREFIX + name for name in names]
        if taken := set(ours).intersection(await self.memory.banks()):
            raise InvalidInput(
                f"The database already contains a bank {min(taken)!r}, perhaps of a run that was killed. It was not "
                "changed. Delete it (vmemo forget --all --bank NAME), or pass another database."
            )
        try:
            yield [BankLocation(url=self.url, bank=bank, export_file=file.with_suffix(".jsonl")) for bank in ours]
        finally:
            if self.database is None or not self.database.local:
                for bank in set(ours).intersection(await self.memory.banks()):
                    await self.memory.bank(bank).forget(bank=True)

    @property
    def files(self) -> BenchStore:
        """Store of the banks that are prepared before they are measured here."""
        return self if self.memory is None else BenchStore(folder=make_folder(self.folder / "prepared"))


@asynccontextmanager
async def open_store(options: BenchOptions, embedder: Embedder, settings: Settings) -> AsyncGenerator[BenchStore]:
    """Open the store of the options, in a temporary folder and, for `postgres`, on a temporary server."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=make_folder(options.work_folder))))
        if options.store == "sqlite":
            yield BenchStore(folder=folder)
            return
        url, database = options.store, None
        if options.store == "postgres":
            server = stack.enter_context(EmbeddedPostgres(settings=durable_settings()))
            url = await asyncio.to_thread(server.create, "benchmark")
            database = PostgresDatabase(url, local=True)
        elif options.store.startswith("postgresql://"):
            database = PostgresDatabase(url)
        elif options.store == "neo4j":
            url = os.environ.get("NEO4J_URL", "")
            if not url:
                raise InvalidInput("--store neo4j measures the server that NEO4J_URL names. Set it, or pass the URL.")
        elif not options.store.startswith(NEO4J):
            # The text after the first colon may contain a password.
            scheme = options.store.partition(":")[0][:40]
            raise InvalidInput(
                "The store of a benchmark is sqlite, postgres, neo4j, or a postgresql:// or neo4j:// URL, not "
                f"{scheme!r}."
            )
        memory = Memory(url, embedder=embedder, settings=settings)
        stack.push_async_callback(memory.close)
        # Creates the schema, and no bank.
        await memory.banks()
        config = await _describe(database, url)
        yield BenchStore(folder=folder, memory=memory, url=url, database=database, config=config)


async def _describe(database: PostgresDatabase | None, url: str) -> dict[str, Setting]:
    if database is not None:
        return {"store": "postgres", "embedded": database.local, **await database.describe()}
    # Identifies the database, so that the checkpoint of one is not used for another.
    return {"store": "neo4j", "database": hashlib.sha256(url.encode()).hexdigest()[:12]}
