"""What banks are built on while something is measured: files of their own, or one PostgreSQL database."""

from __future__ import annotations

import asyncio
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo.models import BankId
from vmemo.models.changes import ForgetTarget
from vmemo.ports import Store
from vmemo.settings import Settings, build
from vmemo.stores.postgres.embedded import EmbeddedPostgres
from vmemo_bench.database import Database, usual_settings
from vmemo_bench.environment import make_folder, sqlite_url
from vmemo_bench.options import BenchOptions
from vmemo_bench.report import Setting

PREFIX = "benchmark "
"""What names of banks begin with in a database that may hold others."""


@dataclass(frozen=True, kw_only=True)
class Spot:
    """Where a bank stands: the store's URL, the bank's name in it, and a file beside it for what is passing."""

    url: str
    bank: str
    beside: Path


def in_file(database: Path, bank: str) -> Spot:
    """A bank in a database file of its own."""
    return Spot(url=sqlite_url(database), bank=bank, beside=database.with_suffix(".jsonl"))


def remove(database: Path) -> None:
    """Delete a database file and what stands beside it."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


class Ground(ABC):
    """Gives banks their places, and takes them back."""

    config: Mapping[str, Setting]
    """What to tell of it in a report."""

    @abstractmethod
    def banks(self, names: Sequence[str]) -> AbstractAsyncContextManager[Sequence[Spot]]:
        """Places in one store for banks that are not there yet; afterwards the banks are gone."""

    @asynccontextmanager
    async def bank(self, name: str) -> AsyncGenerator[Spot]:
        """The place of a single bank."""
        async with self.banks((name,)) as (spot,):
            yield spot

    @property
    @abstractmethod
    def files(self) -> Files:
        """Where banks are prepared that are measured here."""

    @property
    def database(self) -> Database | None:
        """The PostgreSQL database, where there is one."""
        return None


@dataclass(frozen=True)
class Files(Ground):
    """SQLite files."""

    folder: Path
    config: Mapping[str, Setting] = field(default_factory=lambda: {"store": "sqlite"})
    _numbers: count[int] = field(default_factory=count)

    @asynccontextmanager
    async def banks(self, names: Sequence[str]) -> AsyncGenerator[Sequence[Spot]]:
        """All of them in a file that is not there yet."""
        database = self.folder / f"{next(self._numbers)}.db"
        try:
            yield [in_file(database, name) for name in names]
        finally:
            remove(database)

    @property
    def files(self) -> Files:
        """Itself."""
        return self


@dataclass(frozen=True, kw_only=True)
class Server(Ground):
    """One PostgreSQL database; with `tidy` each bank is forgotten when it has served."""

    folder: Path
    store: Store
    at: Database
    config: Mapping[str, Setting]
    tidy: bool
    _numbers: count[int] = field(default_factory=count)

    @asynccontextmanager
    async def banks(self, names: Sequence[str]) -> AsyncGenerator[Sequence[Spot]]:
        """Names that no bank of the database has."""
        ours = [PREFIX + name for name in names]
        if taken := {bank.id for bank in await self.store.banks()} & set(ours):
            raise InvalidInput(
                f"The database holds a bank {min(taken)!r} already, perhaps of a run that was killed. It was not "
                "touched. Forget that bank (vmemo forget --all --bank NAME), or give another database."
            )
        beside = self.folder / f"{next(self._numbers)}.jsonl"
        try:
            yield [Spot(url=self.at.url, bank=bank, beside=beside) for bank in ours]
        finally:
            if self.tidy:
                await self._forget(set(ours))

    async def _forget(self, ours: set[str]) -> None:
        for bank in await self.store.banks():
            if bank.id in ours:
                await self.store.forget(BankId(bank.id), ForgetTarget(bank=True))

    @property
    def files(self) -> Files:
        """Files beside the server."""
        return Files(make_folder(self.folder / "prepared"))

    @property
    def database(self) -> Database:
        """Where the banks are."""
        return self.at


@asynccontextmanager
async def ground(options: BenchOptions, settings: Settings) -> AsyncGenerator[Ground]:
    """What the options ask for, in a folder and perhaps on a server that are gone afterwards."""
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as name:
        folder = Path(name)
        if options.store == "sqlite":
            yield Files(folder)
        elif options.store == "postgres":
            with EmbeddedPostgres(settings=usual_settings()) as server:
                url = await asyncio.to_thread(server.create, "benchmark")
                async with _server(url, folder, settings, embedded=True) as made:
                    yield made
        elif options.store.startswith("postgresql://"):
            async with _server(options.store, folder, settings, embedded=False) as made:
                yield made
        else:
            # What follows the first colon may hold a password.
            begin = options.store.partition(":")[0][:40]
            raise InvalidInput(f"A benchmark's store is sqlite, postgres or a postgresql:// URL, not {begin!r}.")


@asynccontextmanager
async def _server(url: str, folder: Path, settings: Settings, *, embedded: bool) -> AsyncGenerator[Server]:
    store = build(url, llm=None, embedder=None, reranker=None, settings=settings).store
    try:
        await store.open()
        database = Database(url, local=embedded)
        config: dict[str, Setting] = {"store": "postgres", "embedded": embedded, **await database.told()}
        yield Server(folder=folder, store=store, at=database, config=config, tidy=not embedded)
    finally:
        await store.close()
