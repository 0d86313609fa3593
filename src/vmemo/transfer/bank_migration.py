"""Moving banks between open stores: page by page, to be gone on with after an interruption, and verified.

A bank comes in hidden, and gets its name when it was compared with its source line by line. Every page lands together
with a digest of all lines so far; who goes on later reads the source up to there, and loads only what is missing if
the digest is the same. The source is read twice, once to load and once to verify: what is equal both times was so in
between, so a bank that is written to meanwhile is noticed, and never moved as a mixture.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from vmemo.errors import InvalidInput, NotFound, StoreBusy, StoreError
from vmemo.models import Bank, BankId, JobKind
from vmemo.models.base import Record
from vmemo.models.changes import MergeRecord, RestoreRecord
from vmemo.ports import Arrival, Store
from vmemo.transfer.compare import STEP, Held, Tally, compared, empty
from vmemo.transfer.export_format import Kind, records

PAGE = 1000
"""Records that land in one transaction."""
TRIES = 3
"""How often a bank is begun, at most, because it was written to meanwhile."""
_REQUEUED: tuple[JobKind, ...] = ("process", "extract")
"""Work that is queued in the target because messages are unread there."""
Step = Literal["load", "verify"]


@dataclass(frozen=True, kw_only=True)
class MigrationProgress:
    """How many records of all banks are loaded, or verified, by now."""

    bank: str
    step: Step
    done: int
    total: int


class MovedBank(Record):
    """What became of one bank: moved, or found in the target already and equal.

    `resumed` records were there from an earlier try. `sha256` is that of the bank's export. `unread` messages are
    queued in the target; `left` are jobs of other kinds, which stay in the source.
    """

    bank: str
    state: Literal["moved", "there"]
    records: Mapping[Kind, int]
    resumed: int = 0
    sha256: str
    unread: int = 0
    left: Mapping[JobKind, int] = Field(default_factory=dict[JobKind, int])


class MigrationReport(Record):
    """What a migration did. `unfinished` are banks of other migrations that wait in the target to be gone on with."""

    banks: tuple[MovedBank, ...]
    unfinished: tuple[str, ...] = ()


OnProgress = Callable[[MigrationProgress], None]


async def move(
    source: Store, target: Store, names: Sequence[BankId], *, on_progress: OnProgress | None = None, page: int = PAGE
) -> MigrationReport:
    """Copy banks between open stores; all are compared before anything is written. `page` records land at a time."""
    found = {name: await _found(source, target, name) for name in names}
    meter = _Meter(on_progress, {name: await _size(source, name) for name in names})
    done: list[MovedBank] = []
    for name in names:
        there = found[name]
        if there is None:
            done.append(await _Moving(source, target, name, meter, page).move())
        else:
            done.append(MovedBank(bank=name, state="there", records=there.counts, sha256=there.digest))
        meter.finish(name)
    waiting = tuple(arrival.bank for arrival in await target.arrivals())
    return MigrationReport(banks=tuple(done), unfinished=waiting)


@dataclass
class _Meter:
    """Counts records of all banks, bank after bank."""

    tell: OnProgress | None
    sizes: Mapping[BankId, int]
    before: int = 0

    def show(self, bank: BankId, step: Step, done: int) -> None:
        """Tell how many records of a bank are done."""
        if self.tell is not None:
            come = self.before + min(done, self.sizes[bank])
            self.tell(MigrationProgress(bank=bank, step=step, done=come, total=sum(self.sizes.values())))

    def finish(self, bank: BankId) -> None:
        """A bank is done whole."""
        self.show(bank, "load", self.sizes[bank])
        self.show(bank, "verify", self.sizes[bank])
        self.before += self.sizes[bank]


async def _size(store: Store, bank: BankId) -> int:
    """How many records a bank has; episodes of unread messages are counted and not moved."""
    status = await store.status(bank)
    many = status.messages + status.entities + status.episodes + status.facts + status.links + len(status.spending)
    return many + sum(map(len, (await store.former_profiles(bank), await store.moves(bank), await store.merges(bank))))


async def _found(source: Store, target: Store, name: BankId) -> Tally | None:
    """The lines of a bank that the target has already; None if its name is free there."""
    ours, theirs = await source.bank(name), await target.bank(name)
    if theirs is None or ours is None:
        return None
    tally, differs = await compared(Held(source, ours), Held(target, theirs))
    if differs is None:
        return tally
    if await empty(Held(target, theirs)):
        return None
    raise InvalidInput(
        f"Bank {name!r} is in the target already, and is another than the source's: they differ from {differs} on. "
        "Nothing was changed. Forget it in the target first, or name the banks to move without it."
    )


@dataclass(frozen=True)
class _Moving:
    """One bank on its way."""

    source: Store
    target: Store
    name: BankId
    meter: _Meter
    page: int

    async def move(self) -> MovedBank:
        """Load and verify the bank and give it its name; it is begun anew if it changes meanwhile."""
        left = await self._left()
        for _ in range(TRIES):
            arrival = await self.target.arrival(self.name)
            tally = await self._load(await self._bank(), arrival)
            if tally is not None and await self._same(tally):
                await self.target.admit(self.name)
                return MovedBank(
                    bank=self.name,
                    state="moved",
                    records=tally.counts,
                    resumed=0 if arrival is None else arrival.records,
                    sha256=tally.digest,
                    unread=(await self.target.status(self.name)).pending,
                    left=left,
                )
            await self.target.dismiss(self.name)
        raise StoreBusy(
            f"Bank {self.name!r} changed in the source whenever it was being moved. It is not in the target, and the "
            "source is as it was. Stop whoever retains into it, reads it or recalls from it, and migrate again."
        )

    async def _bank(self) -> Bank:
        bank = await self.source.bank(self.name)
        if bank is None:
            raise NotFound(f"Bank {self.name!r} is no longer in the source. It was not moved.")
        return bank

    async def _left(self) -> dict[JobKind, int]:
        backlog = (await self.source.status(self.name)).backlog
        return {job.kind: job.waiting + job.running + job.failed for job in backlog if job.kind not in _REQUEUED}

    async def _load(self, bank: Bank, arrival: Arrival | None) -> Tally | None:
        """Load what the target lacks; None if what it has is not of this bank as it is now."""
        tally = Tally(bank)
        if arrival is None:
            await self._receive(bank, [], tally)
        async with aclosing(records(self.source, self.name)) as told:
            if arrival is not None and not await self._goes_on(told, tally, arrival):
                return None
            async for page in _pages(told, self.page):
                for record in page:
                    tally.add(record)
                await self._receive(bank, page, tally)
                self.meter.show(self.name, "load", tally.records)
        return tally

    async def _goes_on(self, told: AsyncGenerator[RestoreRecord], tally: Tally, arrival: Arrival) -> bool:
        """Read as many records as have come; whether they are the same."""
        while tally.records < arrival.records:
            record = await anext(told, None)
            if record is None:
                return False
            tally.add(record)
            if tally.records % STEP == 0:
                self.meter.show(self.name, "load", tally.records)
        return tally.digest == arrival.digest

    async def _receive(self, bank: Bank, page: Sequence[RestoreRecord], tally: Tally) -> None:
        after = tally.records - len(page)
        if not await self.target.receive(bank, page, after=after, digest=tally.digest):
            raise StoreBusy(
                f"Another process is moving a bank {self.name!r} into the target. Nothing of both was mixed; let it "
                "finish, or stop it and migrate again."
            )

    async def _same(self, loaded: Tally) -> bool:
        """Compare the source with what was loaded: False if the source has changed since, an error if it has not."""
        arrival = await self.target.arrival(self.name)
        hidden = None if arrival is None else await self.target.bank(arrival.hidden)
        if hidden is None:
            raise StoreBusy(f"Another process has taken what was loaded of bank {self.name!r} away. Migrate again.")
        ours, theirs = Held(self.source, await self._bank()), Held(self.target, hidden)
        tally, differs = await compared(ours, theirs, lambda done: self.meter.show(self.name, "verify", done))
        if tally.digest != loaded.digest:
            return False
        if differs is not None:
            await self.target.dismiss(self.name)
            raise StoreError(
                f"Bank {self.name!r} is not in the target as it is in the source: {differs} differs. What was loaded "
                "of it was removed, and the source is as it was. Migrate again; if it happens twice, report it."
            )
        return True


async def _pages(told: AsyncGenerator[RestoreRecord], most: int) -> AsyncGenerator[list[RestoreRecord]]:
    """The records in pages; merges refer to one another in ways that only all of them together tell."""
    page: list[RestoreRecord] = []
    async for record in told:
        both = page and isinstance(page[-1], MergeRecord) and isinstance(record, MergeRecord)
        if len(page) >= most and not both:
            yield page
            page = []
        page.append(record)
    if page:
        yield page
