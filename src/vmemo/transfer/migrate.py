"""Copy banks into another database: page by page, resumable after an interruption, and verified.

A bank is hidden in the target until its digest is that of its source. Every page is committed with a digest of all
lines so far; a later run reads the source up to there, and loads only what is missing if the digest is the same. The
source is read twice, once to load and once to verify. If its digest has changed between the two, the bank was written
to in between and is loaded again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field

from vmemo.errors import InvalidInput, NotFound, StoreBusy, StoreError
from vmemo.models import Bank, BankId, JobKind
from vmemo.models.changes import RestoreRecord
from vmemo.models.records import Record
from vmemo.ports import Store
from vmemo.settings import Settings, build_store, database_url
from vmemo.sync import twin_function
from vmemo.transfer.files import Kind, head, kind_of, line_of, records
from vmemo.transfer.incoming import (
    PAGE,
    IncomingBank,
    activate,
    begin,
    find_incoming,
    fits,
    hidden_name,
    incoming_banks,
    receive,
)


async def migrate(
    source_url: str | Path,
    target_url: str | Path,
    /,
    *,
    banks: Sequence[str] | None = None,
    restart: bool = False,
    on_progress: OnProgress | None = None,
    settings: Settings | None = None,
) -> MigrationReport:
    """Copy banks, all of them unless some are named, into another database; the source is only read.

    Each appears there whole and verified, or not at all. Called again after an interruption, it resumes; `restart`
    first drops what interrupted migrations left in the target. A bank that the target already has is skipped if it is
    identical, and refused before anything is written if it differs.
    """
    if isinstance(banks, str) or (banks is not None and not banks):
        raise InvalidInput('banks is a list of names, such as ["alice"]; None is all. Nothing was changed.')
    from_url, to_url = database_url(source_url), database_url(target_url)
    source, target = _store(from_url, settings), _store(to_url, settings)
    if to_url in ("sqlite://", "sqlite:///:memory:"):
        raise InvalidInput("The target is in memory, and would be gone when the migration ends. Name a file.")
    if _location(from_url) == _location(to_url):
        raise InvalidInput("Source and target are the same database. Nothing was changed; name another target.")
    async with AsyncExitStack() as opened:
        opened.push_async_callback(source.close)
        await source.open(as_is=True)
        names = await _chosen(source, banks)
        opened.push_async_callback(target.close)
        await target.open()
        if restart:
            for incoming in await incoming_banks(target):
                await target.drop_bank(incoming.hidden)
        return await move(source, target, names, on_progress=on_progress)


migrate_sync = twin_function(migrate)


def _store(url: str, settings: Settings | None) -> Store:
    chosen = settings or Settings.from_environment()
    if not url.startswith("sqlite:"):
        # The key is that of the SQLite file at the other end.
        chosen = chosen.model_copy(update={"encryption_key": None, "encryption_key_file": None})
    return build_store(url, chosen)


def _location(url: str) -> tuple[str, ...]:
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        return scheme, str(Path(rest[1:]).resolve())
    parts = urlsplit(url)
    return scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query


async def _chosen(source: Store, wanted: Sequence[str] | None) -> list[BankId]:
    """Return the names of the banks to move. Raise NotFound if one does not exist."""
    existing = [BankId(bank.id) for bank in await source.banks()]
    for bank in wanted or ():
        if bank not in existing:
            known = ", ".join(map(repr, existing)) or "none"
            raise NotFound(f"There is no bank {bank!r} in the source; there is {known}. Nothing was changed.")
    return existing if wanted is None else [bank for bank in existing if bank in wanted]


STEP = 500
"""Records between two reports of progress."""


class Tally:
    """The number of lines of an export by kind, and the digest of the file up to here."""

    def __init__(self, bank: Bank) -> None:
        self.counts = Counter[Kind]()
        self.records = 0
        self._sum = sha256(f"{head(bank)}\n".encode())

    def add(self, record: RestoreRecord) -> None:
        self._sum.update(f"{line_of(record)}\n".encode())
        self.counts[kind_of(record)] += 1
        self.records += 1

    @property
    def digest(self) -> str:
        return self._sum.hexdigest()


async def tally(store: Store, bank: Bank, name: BankId, on_progress: Callable[[int], None] = lambda _: None) -> Tally:
    """Return the tally of a bank, under a name that may not be its own yet."""
    found = Tally(bank.model_copy(update={"id": name}))
    async with aclosing(records(store, BankId(bank.id))) as exported:
        async for record in exported:
            found.add(record)
            if found.records % STEP == 0:
                on_progress(found.records)
    return found


TRIES = 3
"""Attempts for a bank that is written to during its migration."""
_REQUEUED: tuple[JobKind, ...] = ("process", "extract")
"""Jobs that are queued in the target because messages are pending there."""
Step = Literal["load", "verify"]


@dataclass(frozen=True, kw_only=True)
class MigrationProgress:
    """The number of records of all banks that are loaded, or verified, by now."""

    bank: str
    step: Step
    done: int
    total: int


class MovedBank(Record):
    """The result for one bank: moved, or already in the target and identical.

    `resumed` records were loaded by an earlier attempt. `sha256` is the digest of the bank's export. `pending` messages
    are queued in the target; `left` are jobs of other kinds, which stay in the source.
    """

    bank: str
    state: Literal["moved", "identical"]
    records: Mapping[Kind, int]
    resumed: int = 0
    sha256: str
    pending: int = 0
    left: Mapping[JobKind, int] = Field(default_factory=dict[JobKind, int])


class MigrationReport(Record):
    """The results of a migration. `unfinished` are banks of other migrations that can be resumed in the target."""

    banks: tuple[MovedBank, ...]
    unfinished: tuple[str, ...] = ()


OnProgress = Callable[[MigrationProgress], None]


async def move(
    source: Store, target: Store, names: Sequence[BankId], *, on_progress: OnProgress | None = None, page: int = PAGE
) -> MigrationReport:
    """Copy banks between open stores, `page` records at a time; all are compared before anything is written."""
    found = {name: await _in_target(source, target, name) for name in names}
    progress = _Progress(on_progress, {name: await _size(source, name) for name in names})
    done: list[MovedBank] = []
    for name in names:
        existing = found[name]
        if existing is None:
            done.append(await _BankMigration(source, target, name, progress, page).run())
        else:
            done.append(MovedBank(bank=name, state="identical", records=existing.counts, sha256=existing.digest))
        progress.finish(name)
    unfinished = tuple(incoming.bank for incoming in await incoming_banks(target))
    return MigrationReport(banks=tuple(done), unfinished=unfinished)


@dataclass
class _Progress:
    """Records done of all banks, bank after bank."""

    report: OnProgress | None
    sizes: Mapping[BankId, int]
    before: int = 0

    def show(self, bank: BankId, step: Step, done: int) -> None:
        if self.report is not None:
            total = self.before + min(done, self.sizes[bank])
            self.report(MigrationProgress(bank=bank, step=step, done=total, total=sum(self.sizes.values())))

    def finish(self, bank: BankId) -> None:
        self.show(bank, "load", self.sizes[bank])
        self.show(bank, "verify", self.sizes[bank])
        self.before += self.sizes[bank]


async def _size(store: Store, bank: BankId) -> int:
    """Return the number of a bank's records, including episodes of pending messages, which are not moved."""
    status = await store.status(bank)
    many = status.messages + status.entities + status.episodes + status.facts + status.links + len(status.spending)
    return many + sum(
        map(len, (await store.former_profiles(bank), await store.confidence_changes(bank), await store.merges(bank)))
    )


async def _in_target(source: Store, target: Store, name: BankId) -> Tally | None:
    """Return the tally of a bank that the target already has; None if its name is free there."""
    ours, theirs = await source.bank(name), await target.bank(name)
    if theirs is None or ours is None:
        return None
    own, other = await tally(source, ours, name), await tally(target, theirs, name)
    if own.digest == other.digest:
        return own
    if not other.records:
        return None
    raise InvalidInput(
        f"Bank {name!r} is already in the target and differs from the source's. Nothing was changed. Forget it in the "
        "target first, or name the banks to move without it."
    )


@dataclass(frozen=True)
class _BankMigration:
    source: Store
    target: Store
    name: BankId
    progress: _Progress
    page: int

    async def run(self) -> MovedBank:
        """Load and verify the bank, then give it its name; start over if the source changes."""
        backlog = (await self.source.status(self.name)).backlog
        left: dict[JobKind, int] = {
            job.kind: job.waiting + job.running + job.failed for job in backlog if job.kind not in _REQUEUED
        }
        hidden = hidden_name(self.name)
        for _ in range(TRIES):
            begun = await find_incoming(self.target, self.name)
            done = await self._load(await self._bank(), begun)
            if done is not None and await self._same(done):
                loaded = IncomingBank(bank=self.name, hidden=hidden, records=done.records, digest=done.digest)
                await activate(self.target, loaded)
                return MovedBank(
                    bank=self.name,
                    state="moved",
                    records=done.counts,
                    resumed=0 if begun is None else begun.records,
                    sha256=done.digest,
                    pending=(await self.target.status(self.name)).pending,
                    left=left,
                )
            await self.target.drop_bank(hidden)
        raise StoreBusy(
            f"Bank {self.name!r} changed in the source during each of {TRIES} attempts. It is not in the target; the "
            "source is unchanged. Stop the processes that use the bank, and migrate again."
        )

    async def _bank(self) -> Bank:
        bank = await self.source.bank(self.name)
        if bank is None:
            raise NotFound(f"Bank {self.name!r} is no longer in the source. It was not moved.")
        return bank

    async def _load(self, bank: Bank, begun: IncomingBank | None) -> Tally | None:
        """Load the records that the target lacks; return None if it has others than the source."""
        loaded = Tally(bank)
        incoming = begun or await begin(self.target, bank, digest=loaded.digest)
        async with aclosing(records(self.source, self.name)) as exported:
            while loaded.records < incoming.records and (record := await anext(exported, None)) is not None:
                loaded.add(record)
                if loaded.records % STEP == 0:
                    self.progress.show(self.name, "load", loaded.records)
            if loaded.digest != incoming.digest:
                return None
            async for page in _pages(exported, self.page):
                for record in page:
                    loaded.add(record)
                incoming = await receive(self.target, incoming, page, digest=loaded.digest)
                self.progress.show(self.name, "load", loaded.records)
        return loaded

    async def _same(self, loaded: Tally) -> bool:
        """Compare the source with what was loaded; return False if the source has changed since."""
        hidden = await self.target.bank(hidden_name(self.name))
        if hidden is None:
            raise StoreBusy(f"Another process has removed what was loaded of bank {self.name!r}. Migrate again.")
        now = await tally(
            self.source, await self._bank(), self.name, lambda done: self.progress.show(self.name, "verify", done)
        )
        if now.digest != loaded.digest:
            return False
        if (await tally(self.target, hidden, self.name)).digest != loaded.digest:
            await self.target.drop_bank(hidden_name(self.name))
            raise StoreError(
                f"Bank {self.name!r} differs in the target after loading. Its records were removed from the target, "
                "and the source is unchanged. Migrate again; if it happens twice, report it."
            )
        return True


async def _pages(exported: AsyncGenerator[RestoreRecord], size: int) -> AsyncGenerator[list[RestoreRecord]]:
    page: list[RestoreRecord] = []
    async for record in exported:
        if not fits(page, record, size):
            yield page
            page = []
        page.append(record)
    if page:
        yield page
