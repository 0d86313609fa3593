"""Banks that are loaded page by page: hidden until all of their records are there.

The note of an incoming bank says how many records it holds and the digest of them all. It changes in the commit that
adds a page, so that an interrupted transfer resumes after the last page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeVar

from vmemo.errors import InvalidInput, NotFound, StoreBusy
from vmemo.lifecycle.forget import sources_of
from vmemo.models import Bank, Entity, Episode, Link, Message
from vmemo.models.changes import Changes, MergeRecord, NewFact, NewJob, NoteChange, Rename, RestoreRecord
from vmemo.models.records import BankId, ConfidenceChange, FormerProfile, MessageId, new_id
from vmemo.models.results import Spending
from vmemo.models.select import MessageSelect
from vmemo.ports import HIDDEN, HiddenBank, Store

PAGE = 1000
LINKS = 10
"""Times as many links are committed together; a link is small."""
Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class IncomingBank:
    """A bank on its way in: its future name, the name it is hidden under, and what it holds so far."""

    bank: BankId
    hidden: BankId
    records: int
    digest: str

    @staticmethod
    def of(found: HiddenBank) -> IncomingBank:
        note = json.loads(found.note)
        return IncomingBank(
            bank=BankId(note["bank"]), hidden=BankId(found.bank.id), records=note["records"], digest=note["digest"]
        )

    @property
    def note(self) -> str:
        known = {"bank": self.bank, "records": self.records, "digest": self.digest}
        return json.dumps(known, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def hidden_name(bank: BankId) -> BankId:
    """Return the name that a migrated bank is hidden under; it is short, however long the bank's own is."""
    return BankId(f"{HIDDEN}arriving {sha256(bank.encode()).hexdigest()}")


async def incoming_banks(store: Store) -> list[IncomingBank]:
    """Return the banks whose migration has begun, by name."""
    hidden = [each for each in await store.hidden_banks() if each.bank.id.startswith(f"{HIDDEN}arriving ")]
    return sorted(map(IncomingBank.of, hidden), key=lambda bank: bank.bank)


async def find_incoming(store: Store, bank: BankId) -> IncomingBank | None:
    """Return the progress of the bank with this name; None if its migration has not begun."""
    return await _progress(store, hidden_name(bank))


async def begin(store: Store, bank: Bank, *, digest: str) -> IncomingBank:
    """Create the hidden bank, unless it exists; return its progress."""
    name = BankId(bank.id)
    new = IncomingBank(bank=name, hidden=hidden_name(name), records=0, digest=digest)
    await store.create_bank(bank.model_copy(update={"id": new.hidden}), note=new.note)
    return await find_incoming(store, name) or new


async def receive(store: Store, before: IncomingBank, page: Sequence[RestoreRecord], *, digest: str) -> IncomingBank:
    """Add the records that follow those of `before`; raise StoreBusy if the bank holds others by now.

    All merges of a bank are in one page. A page that was added already is not added again.
    """
    after = replace(before, records=before.records + len(page), digest=digest)
    added = await store.commit(page_changes(before.hidden, page, NoteChange(note=after.note, expected=before.note)))
    # A refused commit may be this page's own, whose response was lost.
    if not added and await _progress(store, before.hidden) != after:
        raise StoreBusy(
            f"Another process is loading a bank {before.bank!r}. Nothing of both was mixed; let it finish, or stop it "
            "and try again."
        )
    return after


async def _progress(store: Store, hidden: BankId) -> IncomingBank | None:
    found = (each for each in await store.hidden_banks() if each.bank.id == hidden)
    return next((IncomingBank.of(each) for each in found), None)


def page_changes(bank: BankId, page: Sequence[RestoreRecord], progress: NoteChange | None = None) -> Changes:
    def only(kind: type[Kind]) -> list[Kind]:
        return [record for record in page if isinstance(record, kind)]

    return Changes(
        bank=bank,
        note=progress,
        former_profiles=only(FormerProfile),
        messages=only(Message),
        entities=only(Entity),
        episodes=only(Episode),
        facts=only(NewFact),
        links=only(Link),
        confidence_history=only(ConfidenceChange),
        merges=only(MergeRecord),
        spending=only(Spending),
    )


def pages(records: Iterable[RestoreRecord], size: int = PAGE) -> Iterator[list[RestoreRecord]]:
    page: list[RestoreRecord] = []
    for record in records:
        if not fits(page, record, size):
            yield page
            page = []
        page.append(record)
    if page:
        yield page


def fits(page: Sequence[RestoreRecord], record: RestoreRecord, size: int) -> bool:
    """Return True if a record belongs on the page; merges refer to one another, and stay together."""
    if len(page) < size:
        return True
    if isinstance(record, Link):
        return len(page) < size * LINKS
    return isinstance(page[-1], MergeRecord) and isinstance(record, MergeRecord)


async def activate(store: Store, incoming: IncomingBank) -> None:
    """Give a hidden bank its name, unless another import has begun under it, and queue its pending messages."""
    bank, hidden = incoming.bank, incoming.hidden
    if await store.bank(hidden) is None:
        raise NotFound(f"No bank {bank!r} is on its way in. Nothing was changed.")
    await require_free(store, bank)
    jobs = [NewJob(kind="process")] if await store.messages(hidden, MessageSelect.oldest_pending(1)) else []
    if not await store.commit(Changes(bank=hidden, note=_unchanged(incoming), jobs=jobs, rename=Rename(to=bank))):
        await require_free(store, bank)
        raise StoreBusy(f"Bank {bank!r} changed while it was being replaced. Nothing was changed; try again.")


def _unchanged(incoming: IncomingBank) -> NoteChange:
    return NoteChange(note=incoming.note, expected=incoming.note)


async def require_free(store: Store, bank: BankId) -> None:
    """Raise InvalidInput if a bank of this name holds messages."""
    if await store.bank(bank) is not None and await store.messages(bank, MessageSelect(limit=1)):
        raise InvalidInput(f"Bank {bank!r} holds messages already; import into another name or forget it first.")


def _watched(records: Iterable[RestoreRecord], processed: set[MessageId]) -> Iterator[RestoreRecord]:
    """Yield records, and collect the messages that are exported as pending though others are derived from them.

    They were processed while they were exported. Processing them again would double their facts.
    """
    pending = set[MessageId]()
    for record in records:
        match record:
            case Message(state="pending"):
                pending.add(record.id)
            case Episode():
                processed |= pending.intersection(record.messages)
            case NewFact():
                processed |= pending & sources_of([record.fact])
            case _:
                pass
        yield record


async def load_bank(store: Store, bank: Bank, records: Iterator[RestoreRecord], *, size: int = PAGE) -> None:
    """Load an exported bank into a store, whole or not at all; a bank that holds messages is refused."""
    name = BankId(bank.id)
    await require_free(store, name)
    hidden = BankId(f"{HIDDEN}importing {sha256(name.encode()).hexdigest()}")
    # An interrupted import of the same name starts over; one that still runs is refused with its next page.
    await store.drop_bank(hidden)
    # The digest distinguishes this import from another of the same name.
    incoming = IncomingBank(bank=name, hidden=hidden, records=0, digest=new_id())
    processed = set[MessageId]()
    await store.create_bank(bank.model_copy(update={"id": hidden}), note=incoming.note)
    try:
        loaded, waiting = incoming, pages(_watched(records, processed), size)
        # Reading a file blocks, so it is done in a thread.
        while (page := await asyncio.to_thread(next, waiting, None)) is not None:
            loaded = await receive(store, loaded, page, digest=loaded.digest)
        if processed:
            derived = sorted(processed)
            await store.commit(Changes(bank=hidden, note=_unchanged(loaded), pending=derived, becomes="extracted"))
        await activate(store, loaded)
    except BaseException:
        found = await _progress(store, hidden)
        if found is not None and found.digest == incoming.digest:
            await store.drop_bank(hidden)
        raise
