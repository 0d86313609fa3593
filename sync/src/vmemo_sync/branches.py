"""Fork, compare and merge banks."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from vmemo import Memory
from vmemo.errors import InvalidInput, StoreBusy
from vmemo.memory.session import bank_id
from vmemo.models import Bank, BankId, Fact, Message, MessageId, new_id, utc_now
from vmemo.models.changes import RestoreRecord
from vmemo.models.records import Instant, Record, counted, shortened
from vmemo.models.select import FactSelect
from vmemo.ports import HIDDEN, paged
from vmemo.transfer.files import records
from vmemo.transfer.incoming import PAGE, IncomingBank, activate, fits, receive, require_free
from vmemo_sync.data import BankData, EntityDecision, fact_key, union
from vmemo_sync.read import Observed, observe_all, stored_bank
from vmemo_sync.state import SharedState, StateStore
from vmemo_sync.write import derive, write

TRIES = 3
"""Times that a bank is copied until it does not change meanwhile."""


class Forked(Record):
    """A bank that was copied under another name."""

    origin: str
    bank: str
    at: Instant
    messages: int

    def __str__(self) -> str:
        return f"Bank {self.bank!r} is a copy of {self.origin!r} with {counted(self.messages, 'message')}."


async def fork(memory: Memory, name: str) -> Forked:
    """Copy a bank with all its records under a new name in the same database, and note where it came from.

    No model is called. Webhooks and queued jobs other than pending messages stay with the origin.
    """
    stored, branch = await stored_bank(memory), bank_id(name)
    await require_free(memory.store, branch)
    origin_states = StateStore(memory.store, memory.name)
    before = await origin_states.load(stored)
    at = utc_now()
    for _ in range(TRIES):
        revision = await memory.store.revision(memory.name)
        observed = await observe_all(memory, before)
        await _copy(memory, stored.model_copy(update={"id": branch, "created_at": at}))
        if await memory.store.revision(memory.name) == revision:
            break
        await memory.store.drop_bank(branch)
    else:
        raise StoreBusy(f"Bank {memory.name!r} changed during each of {TRIES} attempts. Nothing was copied; try again.")
    shared = observed.data.messages.keys()
    await origin_states.save(before, observed.state, shared=shared)
    copies = memory.bank(branch)
    states = StateStore(memory.store, branch)
    empty = await states.load(await stored_bank(copies))
    own = {"bank": branch, "created_at": at, "origin": memory.name, "forked_at": at, "revision": None}
    await states.save(empty, observed.state.model_copy(update=own), shared=shared)
    return Forked(origin=memory.name, bank=branch, at=at, messages=len(shared))


async def _copy(memory: Memory, bank: Bank) -> None:
    """Copy all records page by page into a hidden bank, which then gets its name."""
    store, name = memory.store, BankId(bank.id)
    hidden = BankId(f"{HIDDEN}forking {sha256(name.encode()).hexdigest()}")
    await store.drop_bank(hidden)
    incoming = IncomingBank(bank=name, hidden=hidden, records=0, digest=new_id())
    await store.create_bank(bank.model_copy(update={"id": hidden}), note=incoming.note)
    try:
        page: list[RestoreRecord] = []
        async for record in records(store, memory.name):
            if not fits(page, record, PAGE):
                incoming, page = await receive(store, incoming, page, digest=incoming.digest), []
            page.append(record)
        await activate(store, await receive(store, incoming, page, digest=incoming.digest))
    except BaseException:
        await store.drop_bank(hidden)
        raise


class BranchSide(Record):
    """What only one of two banks holds."""

    bank: str
    messages: tuple[Message, ...] = ()
    facts: tuple[Fact, ...] = ()
    closed: tuple[Fact, ...] = ()
    """Facts that both hold and that only this one closed."""
    edited: tuple[Fact, ...] = ()
    """Facts that the user wrote."""
    pinned: tuple[Fact, ...] = ()
    merges: tuple[EntityDecision, ...] = ()

    def __bool__(self) -> bool:
        return any((self.messages, self.facts, self.closed, self.edited, self.pinned, self.merges))

    def lines(self) -> list[str]:
        kinds = {
            "message": [f"{each.timestamp:%Y-%m-%d} {each.voice}: {each.content}" for each in self.messages],
            "fact": [each.text for each in self.facts],
            "closed fact": [each.text for each in self.closed],
            "edit": [each.text for each in self.edited],
            "pinned fact": [each.text for each in self.pinned],
            "merge": [_merge_text(each) for each in self.merges],
        }
        found = [f"  {kind}: {shortened(text)}" for kind, texts in kinds.items() for text in texts]
        return [f"only in {self.bank}:", *found] if found else []


def _merge_text(merge: EntityDecision) -> str:
    undone = "" if merge.undone_at is None else ", undone"
    return f"{merge.absorb.name} into {merge.keep.name}{undone}"


class BankDiff(Record):
    """The differences of two banks. A fact is the same in both if its messages and its text are."""

    first: BranchSide
    second: BranchSide
    profiles_differ: bool = False

    def __bool__(self) -> bool:
        """Return True if there is a difference."""
        return bool(self.first or self.second or self.profiles_differ)

    def __str__(self) -> str:
        profiles = ["The profiles differ."] if self.profiles_differ else []
        lines = [*self.first.lines(), *self.second.lines(), *profiles]
        return "\n".join(lines) or f"{self.first.bank} and {self.second.bank} hold the same."


async def diff(first: Memory, second: Memory) -> BankDiff:
    """Return what only one of two banks holds; nothing is changed."""
    one, other = await _Held.read(first), await _Held.read(second)
    return BankDiff(
        first=one.beside(other),
        second=other.beside(one),
        profiles_differ=one.profile != other.profile,
    )


class _Held(Record):
    """The records of a bank by what they have in common with those of another copy; of equal facts the current one."""

    bank: str
    profile: str
    messages: dict[MessageId, Message]
    facts: dict[str, Fact]
    edited: dict[str, Fact]
    merges: dict[str, EntityDecision]

    @staticmethod
    async def read(memory: Memory) -> _Held:
        stored = await stored_bank(memory)
        nothing = SharedState(bank=stored.id, created_at=stored.created_at)
        data = (await observe_all(memory, nothing)).data
        pages = paged(lambda after: memory.store.facts(memory.name, FactSelect(after=after, limit=PAGE)))
        facts = sorted([fact async for fact in pages], key=lambda fact: fact.expired_at is None)
        return _Held(
            bank=memory.name,
            profile=stored.profile.model_dump_json(),
            messages=dict(data.messages),
            facts={fact_key(fact): fact for fact in facts},
            edited={fact_key(fact): fact for fact in data.edited.values()},
            merges=dict(data.merges),
        )

    def beside(self, other: _Held) -> BranchSide:
        """Return what this bank holds and the other one does not."""
        facts = {key: fact for key, fact in self.facts.items() if key not in self.edited}
        both = {key: fact for key, fact in self.facts.items() if key in other.facts}
        undone = {id for id, merge in other.merges.items() if merge.undone_at is not None}
        return BranchSide(
            bank=self.bank,
            messages=tuple(message for id, message in self.messages.items() if id not in other.messages),
            facts=tuple(fact for key, fact in facts.items() if key not in other.facts),
            closed=tuple(f for k, f in both.items() if f.expired_at and other.facts[k].expired_at is None),
            edited=tuple(fact for key, fact in self.edited.items() if key not in other.edited),
            pinned=tuple(
                fact
                for key, fact in self.facts.items()
                if fact.pinned and fact.expired_at is None and not (key in both and other.facts[key].pinned)
            ),
            merges=tuple(
                merge
                for id, merge in self.merges.items()
                if id not in other.merges or (merge.undone_at is not None and id not in undone)
            ),
        )


class Merged(Record):
    """What a merge added to a bank."""

    bank: str
    source: str
    messages: int = 0
    forgotten: int = 0
    derived: int = 0
    """Facts that were derived, again where the order of messages mattered."""

    def __str__(self) -> str:
        added, gone = counted(self.messages, "message"), counted(self.forgotten, "message")
        return (
            f"{self.source} into {self.bank}: {added} added, {gone} forgotten, {counted(self.derived, 'fact')} derived."
        )


async def merge(source: Memory, target: Memory) -> Merged:
    """Add the messages and decisions of one bank to another one, and derive facts from all in the canonical order.

    The source is not changed. With a language model only new messages are derived. A later decision wins over an
    earlier one, and what one of them forgot since they had it in common is in neither.
    """
    stored = {memory: await stored_bank(memory) for memory in (source, target)}
    if source.store is target.store and source.name == target.name:
        raise InvalidInput(f"Bank {source.name!r} can't be merged with itself. Nothing was changed.")
    states = {memory: StateStore(memory.store, memory.name) for memory in (source, target)}
    before = {memory: await states[memory].load(stored[memory]) for memory in (source, target)}
    found = {memory: await observe_all(memory, before[memory]) for memory in (source, target)}
    data = without_undone(union(found[source].data, found[target].data), found[source].state, found[target].state)
    derived, now = 0, tuple(await target.store.revision(target.name))
    if now != before[target].derived or any(_differ(data, each.data) for each in found.values()):
        await write(target, data)
        derived = await derive(target, data, again=True)
    await _save(target, states[target], before[target], data, found[source].state)
    await states[source].save(before[source], found[source].state, shared=found[source].data.messages)
    had = found[target].data.messages
    return Merged(
        bank=target.name,
        source=source.name,
        messages=len(data.messages.keys() - had.keys()),
        forgotten=len(had.keys() - data.messages.keys()),
        derived=derived,
    )


def _differ(one: BankData, other: BankData) -> bool:
    """Return True if the data differs in more than times of decisions and ids of derived facts."""
    return _compared(one) != _compared(other)


def _compared(data: BankData) -> tuple[object, ...]:
    ends = {key: (fact.invalid_at, fact.expired_at) for key, fact in data.derived.items()}
    return (
        data.messages,
        data.curated,
        ends,
        data.edited,
        data.merges,
        {k for k, pin in data.pins.items() if pin.pinned},
    )


def without_undone(data: BankData, *states: SharedState) -> BankData:
    """Return data without merges of entities that a copy has undone; its bank does not hold them any more."""
    undone = {id for state in states for id, each in state.merges.items() if each}
    kept = {id: each for id, each in data.merges.items() if id not in undone or each.undone_at is not None}
    return replace(data, merges=kept)


async def _save(memory: Memory, states: StateStore, before: SharedState, data: BankData, other: SharedState) -> None:
    """Write the state of a bank that holds the data by now."""
    observed: Observed = await observe_all(memory, before)
    state = observed.state.model_copy(
        update={
            "forgotten": {**data.forgotten, **observed.state.forgotten},
            "pins": {**data.pins, **observed.state.pins},
            "merges": {**{id: True for id, undone in other.merges.items() if undone}, **observed.state.merges},
            "derived": tuple(await memory.store.revision(memory.name)),
        }
    )
    await states.save(before, state, shared=observed.data.messages)
