"""Synchronize a bank with copies on other machines through a shared folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.models import Message, MessageId, new_id
from vmemo.models.records import Record, counted
from vmemo.models.select import FactSelect, MessageSelect
from vmemo_sync.branches import without_undone
from vmemo_sync.data import BankData, canonical_order, union
from vmemo_sync.folder import BankFolder, Cipher, DamagedFile, LogFile
from vmemo_sync.read import Observed, observe_decisions, observe_new, stored_bank, with_data
from vmemo_sync.state import SharedState, StateStore
from vmemo_sync.write import derive, write


class Synced(Record):
    """The result of one synchronization."""

    bank: str
    machine: str
    published: int = 0
    """Messages that this machine added to the folder."""
    received: int = 0
    """Messages that other machines had added."""
    forgotten: int = 0
    """Messages and edits that other machines had forgotten."""
    derived: int = 0
    waiting: tuple[str, ...] = ()
    """Files that are left for later, each with the reason."""

    def __str__(self) -> str:
        line = (
            f"{self.bank}: {counted(self.published, 'message')} published, {self.received:,} received, "
            f"{self.forgotten:,} forgotten, {counted(self.derived, 'fact')} derived"
        )
        return "\n".join([line, *(f"  left for later: {each}" for each in self.waiting)])


async def sync(
    memory: Memory, folder: Path, *, key: str | bytes | None = None, exact: bool = False, anew: bool = False
) -> Synced:
    """Publish what is new in a bank to a folder, and add what other machines have published there.

    Facts are derived from what is new, and from all messages in the canonical order if other machines have said
    something in between or the user decided something; with `exact` also if messages were only added at the end.

    With a key, files are encrypted, and files that are not are refused. `anew` publishes everything again, after the
    files of this machine were lost.
    """
    await memory.open()
    cipher = None if key is None else Cipher(key.encode() if isinstance(key, str) else key)
    files = BankFolder.of(folder, memory.name, cipher)
    files.require_readable()
    states = await _states(memory, files, anew=anew)
    session = _Session(memory, files, states, exact)
    before = await states.load(await stored_bank(memory))
    files.clean(states.machine)
    published, state = await session.publish(before)
    return await session.receive(published, state)


async def _states(memory: Memory, files: BankFolder, *, anew: bool) -> StateStore:
    """Return the state of this machine in a folder; it is found by its subfolder, wherever the folder is."""
    created = (await stored_bank(memory)).created_at
    known = [] if anew else await StateStore(memory.store, memory.name).machines()
    states = [(state, str(state.machine)) for state in known if state.created_at == created]
    for _, machine in states:
        if (files.path / machine).is_dir():
            return StateStore(memory.store, memory.name, machine)
    for state, machine in states:
        if state.folder != str(files.path):
            continue
        if any(name.startswith(f"{machine}/") for name in state.read):
            raise InvalidInput(
                f"{files.path} lacks the files that this machine wrote there as {machine}. Nothing was changed. Mount "
                "or restore the folder, or pass --anew to publish everything again."
            )
        return StateStore(memory.store, memory.name, machine)
    return StateStore(memory.store, memory.name, new_id())


@dataclass(frozen=True)
class _Incoming:
    """What files of other machines hold."""

    data: BankData
    files: Sequence[tuple[LogFile, BankData]]
    damaged: Sequence[str]


@dataclass(frozen=True)
class _Session:
    memory: Memory
    files: BankFolder
    states: StateStore
    exact: bool

    async def publish(self, before: SharedState) -> tuple[Observed, SharedState]:
        """Write what is new here to a file of this machine, and note that; return it with the state."""
        machine = self.states.machine
        observed = await observe_new(self.memory, before)
        # The first file, which may be empty, shows the others that there is one more machine.
        announced = (self.files.path / machine).is_dir()
        written = [self.files.write(machine, observed.data).name] if observed.data or not announced else []
        added = observed.data.messages.values()
        first, last = _ends(added)
        in_order = observed.in_order and (first is None or before.latest is None or first > before.latest)
        after = observed.state.model_copy(
            update={
                "folder": str(self.files.path),
                "read": (*before.read, *written),
                "latest": max((at for at in (before.latest, last) if at is not None), default=None),
                "canonical": before.canonical and in_order and not (observed.data.decides or (self.exact and added)),
            }
        )
        await self.states.save(before, after, shared=observed.data.messages)
        return observed, after

    async def receive(self, published: Observed, state: SharedState) -> Synced:
        """Add what other machines have published, and derive facts from it."""
        incoming = await self._read(state)
        memory, machine = self.memory, self.states.machine
        known = await self.states.shared(incoming.data.messages)
        fresh = {id: each for id, each in incoming.data.messages.items() if id not in known}
        new = replace(incoming.data, messages=fresh)
        present = await observe_decisions(memory, state) if new else BankData()
        data = without_undone(union(present, new), state)
        gone = {id: at for id, at in data.forgotten.items() if id not in state.forgotten}
        others = any(file.path.parent.name != machine for file in self.files.files())
        first, _ = _ends(data.messages.values())
        in_order = not (self.exact and data.messages) and (
            first is None or state.latest is None or first > state.latest
        )
        canonical = state.canonical and in_order and not _decided(state, present, data, gone)
        derived, missing = 0, set[MessageId]()
        if new:
            data = await self._write(data, gone)
            missing = await self._missing(data)
            # A pin may have come before the message of its fact.
            data = replace(await self._applied(data, missing), pins={**state.pins, **data.pins})
        if new or not canonical:
            derived = await derive(memory, data, again=others and not canonical)
        waiting = [file.name for file, part in incoming.files if _decided_on(part) & missing]
        listed = {file.name for file in self.files.files()}
        read = {*state.read, *(file.name for file, _ in incoming.files)} - set(waiting)
        after = with_data(state, data) if new else state
        _, last = _ends(data.messages.values())
        after = after.model_copy(
            update={
                "read": tuple(sorted(read & listed)),
                "latest": max((at for at in (state.latest, last) if at is not None), default=None),
                "canonical": canonical or others,
                # The order of storage is another one after everything was derived again.
                "published": state.published if canonical or not others else None,
                "revision": None,
            }
        )
        await self.states.save(state, after, shared=data.messages)
        # A file of this machine that was not read is an old one that has come back.
        returned = any(file.path.parent.name == machine for file, _ in incoming.files)
        if returned or len(after.forgotten) != after.cleaned:
            await self._clean(after)
        late = [f"{name} waits for messages that another file holds" for name in waiting]
        return Synced(
            bank=memory.name,
            machine=machine,
            published=len(published.data.messages),
            received=len(data.messages),
            forgotten=len(gone),
            derived=derived,
            waiting=(*incoming.damaged, *late),
        )

    async def _read(self, state: SharedState) -> _Incoming:
        """Read the files that are not read yet; one that is not whole is left for later."""
        data, found, damaged = BankData(), list[tuple[LogFile, BankData]](), list[str]()
        read = set(state.read)
        for file in self.files.files():
            if file.name in read:
                continue
            try:
                part = self.files.read(file)
            except DamagedFile as error:
                damaged.append(str(error))
                continue
            found.append((file, part))
            data = union(data, part)
        return _Incoming(data, found, damaged)

    async def _write(self, data: BankData, gone: object) -> BankData:
        """Write data into the bank; lines that it was given under another id get one id. Return what was written."""
        left = await write(self.memory, data)
        if not left:
            return data
        twins: dict[MessageId, Message] = {}
        keys = {(message.document, message.key) for message in left}
        for document in {message.document for message in left}:
            stored = await self.memory.store.messages(self.memory.name, MessageSelect(document=document))
            twins |= {message.id: message for message in stored if (message.document, message.key) in keys}
        joined = union(replace(data, messages={**data.messages, **twins}), BankData())
        await write(self.memory, joined)
        return joined

    async def _missing(self, data: BankData) -> set[MessageId]:
        """Return the messages that decisions are about and that no file has brought yet."""
        ids = sorted(_decided_on(data) - data.forgotten.keys())
        stored = await self.memory.store.messages(self.memory.name, MessageSelect(ids=ids)) if ids else []
        return set(ids) - {message.id for message in stored}

    async def _applied(self, data: BankData, missing: set[MessageId]) -> BankData:
        """Return the data that the bank holds by now; what waits for messages would count as forgotten otherwise."""
        ids = sorted(data.edited)
        stored = await self.memory.store.facts(self.memory.name, FactSelect(ids=ids)) if ids else []
        held = {fact.id for fact in stored}
        return replace(
            data,
            curated={id: keys for id, keys in data.curated.items() if id not in missing},
            derived={key: fact for key, fact in data.derived.items() if missing.isdisjoint(fact.messages)},
            edited={id: fact for id, fact in data.edited.items() if id in held},
        )

    async def _clean(self, state: SharedState) -> None:
        """Remove forgotten text from the files of this machine."""
        written = self.files.remove_forgotten(self.states.machine, state.forgotten)
        names = {file.name for file in self.files.files()}
        read = {name for name in (*state.read, *(file.name for file in written)) if name in names}
        cleaned = {"cleaned": len(state.forgotten), "read": tuple(sorted(read))}
        await self.states.save(state, state.model_copy(update=cleaned))


def _ends(messages: Iterable[Message]) -> tuple[tuple[object, ...] | None, tuple[object, ...] | None]:
    """Return the places of the first and the last message in the canonical order."""
    places = [canonical_order(message) for message in messages]
    return min(places, default=None), max(places, default=None)


def _decided(state: SharedState, present: BankData, data: BankData, gone: object) -> bool:
    """Return True if there are decisions that the bank did not hold."""
    one, other = with_data(state, present), with_data(state, data)
    unpinned = any(not pin.pinned and state.pins.get(key) != pin for key, pin in data.pins.items())
    changed = (getattr(one, name) != getattr(other, name) for name in ("curated", "edited", "merges"))
    return bool(gone) or unpinned or any(changed)


def _decided_on(data: BankData) -> set[MessageId]:
    return {*data.curated, *(message for fact in data.derived.values() for message in fact.messages)}
