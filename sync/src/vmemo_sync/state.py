"""What a bank has in common with other copies: a hidden bank beside it, which holds ids, times and hashes, never text.

Its messages are stubs with the ids of the messages that were shared, so that what was forgotten since is known by what
the bank lacks. Its note has the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256

from pydantic import Field

from vmemo.errors import StoreBusy
from vmemo.models import Bank, BankId, FactId, Message, MessageId
from vmemo.models.changes import Changes, Deletions, NoteChange
from vmemo.models.records import Instant, Record
from vmemo.models.select import MessageSelect
from vmemo.ports import HIDDEN, Store, paged
from vmemo_sync.data import Pin

PAGE = 1000
"""Messages that are read or written together."""
_STUB = "-"


class SharedState(Record):
    """What a bank shared with other copies."""

    bank: str
    created_at: Instant = Field(description="of the bank; one that is made again under its name starts over")
    origin: str | None = Field(default=None, description="the bank that this one was forked from")
    forked_at: Instant | None = None
    revision: tuple[str, int] | None = Field(default=None, description="of the bank when its decisions were last read")
    forgotten: dict[str, Instant] = Field(default_factory=dict[str, Instant])
    edited: tuple[FactId, ...] = ()
    curated: dict[MessageId, str] = Field(
        default_factory=dict[MessageId, str], description="hash of what each curated message still states"
    )
    pins: dict[str, Pin] = Field(default_factory=dict[str, Pin])
    merges: dict[str, bool] = Field(
        default_factory=dict[str, bool], description="known merges of entities; True if undone"
    )
    profile: tuple[str, Instant] | None = Field(default=None, description="hash of the profile, and its time")
    latest: tuple[Instant, Instant, MessageId] | None = Field(
        default=None, description="place of the last shared message in the canonical order"
    )
    derived: tuple[str, int] | None = Field(
        default=None, description="revision of the bank after all its facts were derived in the canonical order"
    )
    canonical: bool = Field(default=True, description="facts were derived in the canonical order")
    machine: str | None = Field(default=None, description="the subfolder that this bank writes, in a shared folder")
    folder: str | None = None
    read: tuple[str, ...] = Field(default=(), description="files that were read or written")
    published: MessageId | None = Field(default=None, description="the message up to which all are published")
    cleaned: int = Field(default=0, description="number of ids whose text was removed from this machine's files")


@dataclass(frozen=True)
class StateStore:
    """The shared state of one bank of a store."""

    store: Store
    bank: BankId
    machine: str = ""
    """The machine of a shared folder; empty for what was shared by a fork or a merge."""

    @property
    def name(self) -> BankId:
        return BankId(f"{_prefix(self.bank)}{self.machine}")

    async def machines(self) -> list[SharedState]:
        """Return the states of all shared folders."""
        start = _prefix(self.bank)
        notes = [each.note for each in await self.store.hidden_banks() if each.bank.id.startswith(start)]
        states = [SharedState.model_validate_json(note) for note in notes]
        return [state for state in states if state.machine is not None]

    async def load(self, bank: Bank) -> SharedState:
        """Return the state, an empty one if the bank was never shared or is another of the same name."""
        hidden_banks = await self.store.hidden_banks()
        found = next((each.note for each in hidden_banks if each.bank.id == self.name), None)
        if found is not None:
            state = SharedState.model_validate_json(found)
            if state.created_at == bank.created_at:
                return state
            await self.store.drop_bank(self.name)
        empty = SharedState(bank=bank.id, created_at=bank.created_at, machine=self.machine or None)
        hidden = bank.model_copy(update={"id": self.name})
        await self.store.create_bank(hidden, note=empty.model_dump_json())
        return empty

    async def save(self, before: SharedState, after: SharedState, *, shared: Iterable[MessageId] = ()) -> None:
        """Write the state and the ids of messages that are shared from now on; raise StoreBusy if it changed."""
        for page in _pages(shared):
            stubs = [Message(id=id, content=_STUB, state="raw") for id in page]
            await self.store.append(self.name, stubs)
        gone = sorted({MessageId(id) for id in after.forgotten.keys() - before.forgotten.keys()})
        change = NoteChange(note=after.model_dump_json(), expected=before.model_dump_json())
        if not await self.store.commit(Changes(bank=self.name, note=change, deleted=Deletions(messages=gone))):
            raise StoreBusy(
                f"Another process shares the bank {self.bank!r} at the same time. What it holds is whole; run the "
                "command again."
            )

    async def shared(self, ids: Collection[MessageId]) -> set[MessageId]:
        """Return those of some ids that were shared."""
        found: set[MessageId] = set()
        for page in _pages(ids):
            found |= {each.id for each in await self.store.messages(self.name, MessageSelect(ids=page))}
        return found

    async def all_shared(self) -> set[MessageId]:
        pages = paged(lambda after: self.store.messages(self.name, MessageSelect(after=after, limit=PAGE)))
        return {message.id async for message in pages}

    async def count(self) -> int:
        return (await self.store.status(self.name)).messages


def _prefix(bank: BankId) -> str:
    return f"{HIDDEN}shared {sha256(bank.encode()).hexdigest()} "


def _pages(ids: Iterable[MessageId]) -> list[list[MessageId]]:
    every = list(ids)
    return [every[start : start + PAGE] for start in range(0, len(every), PAGE)]
