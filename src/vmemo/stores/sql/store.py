"""The part that all SQL stores share: the methods of the port over the shared statements, and the commit.

A dialect provides the transactions, the search index, and the searches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, select, update

from vmemo.models import (
    Bank,
    BankId,
    BankRevision,
    ConfidenceChange,
    Entity,
    EntityId,
    Episode,
    Fact,
    FactId,
    FormerProfile,
    JobKind,
    Link,
    Message,
    MessageId,
)
from vmemo.models.changes import Changes, EntityMention, Lease, MergeRecord, NewEmbeddings, NewJob
from vmemo.models.results import DailyCount, Job, Status
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.models.webhooks import SignedWebhook
from vmemo.ports import BankNotFound, BankReader, HiddenBank
from vmemo.stores.search import SearchIndex
from vmemo.stores.sql import bank_rows, migrate, queue, reads, rows
from vmemo.stores.sql.bank_rows import BankState, bank_state
from vmemo.stores.sql.schema import banks, episodes, facts
from vmemo.stores.sql.statements import Cell, listed, seqs_of
from vmemo.stores.transactions import BankHeld, commit_when_free
from vmemo.stores.values import demand_vectors


class Refused(Exception):
    """A precondition does not hold. The transaction is rolled back; other writes that share it are repeated."""


def commit_changes(connection: Connection, changes: Changes, index: SearchIndex) -> bool:
    """Write changes; raise Refused if a precondition does not hold.

    Return False if the bank was deleted with the jobs that this would have ended.
    """
    if changes.rename is not None:
        # Where two banks are locked, the visible one comes first.
        bank_rows.state_or_none(connection, changes.rename.to)
    state = bank_rows.state_or_none(connection, changes.bank)
    if state is None:
        if changes.leases or changes.failed or changes.released:
            # The jobs went with their bank, and so did their leases.
            return False
        raise BankNotFound(changes.bank)
    if changes.embedder is not None:
        state.demand(changes.embedder)
    if changes.derives and queue.held_by_another(connection, state.seq, changes.leases):
        raise BankHeld
    embeddings = changes.embeddings
    if not _allowed(connection, state, changes) or (
        embeddings is not None and not _replace_embeddings(connection, state.seq, embeddings, index)
    ):
        raise Refused
    _save_records(connection, state, changes, index)
    _save_notes(connection, state.seq, changes)
    _save_queue(connection, state.seq, changes)
    if changes.rename is not None and not bank_rows.rename(connection, state, changes.rename, index):
        raise Refused
    return True


def _save_records(connection: Connection, state: BankState, changes: Changes, index: SearchIndex) -> None:
    """Write messages and memories. Memories refer to new messages, which may repeat the line of a deleted one."""
    if not changes.deleted.messages:
        rows.append_messages(connection, state.seq, changes.messages, index)
    if changes.derives:
        _save_memories(connection, state, changes, index)
    if changes.deleted.messages:
        rows.append_messages(connection, state.seq, changes.messages, index)


def _allowed(connection: Connection, state: BankState, changes: Changes) -> bool:
    """Check the preconditions; the state of pending messages is set at once."""
    if changes.revision is not None and changes.revision != state.bank_revision:
        return False
    if not all(queue.holds(connection, state.seq, lease) for lease in changes.leases):
        return False
    if rows.any_pending(connection, state.seq, changes.without_pending):
        return False
    if changes.profile is not None and not bank_rows.save_profile(connection, state.seq, changes.profile):
        return False
    if changes.note is not None and not bank_rows.save_note(connection, state.seq, changes.note):
        return False
    return rows.claim(connection, state.seq, changes)


def _replace_embeddings(connection: Connection, bank: int, new: NewEmbeddings, index: SearchIndex) -> bool:
    """Replace the vectors of all facts; return False if one has no new vector."""
    demand_vectors(new.vectors.values(), new.dimension)
    stored = dict(connection.execute(select(facts.c.id, facts.c.seq).where(facts.c.bank == bank)).all())
    if not stored.keys() <= new.vectors.keys():
        return False
    index.replace_vectors(connection, bank, {seq: new.vectors[FactId(id)] for id, seq in stored.items()})
    values = {"embedder": new.embedder, "dimension": new.dimension}
    connection.execute(update(banks).where(banks.c.seq == bank).values(values))
    return True


def _save_memories(connection: Connection, state: BankState, changes: Changes, index: SearchIndex) -> None:
    bank, new = state.seq, [item.fact for item in changes.facts]
    demand_vectors((item.encoding for item in changes.facts), state.dimension)
    deleted = changes.deleted
    removed = deleted.mentions or deleted.entities or deleted.facts or changes.without_context
    purged = bool(removed or changes.mentions or changes.erase or changes.embeddings)
    revision = bank_rows.bump(connection, bank, purges=int(purged))
    undone = any(merge.undone_at is not None for merge in changes.merges)
    numbers = rows.reserved_numbers(connection, bank) if undone else {}
    rows.save_entities(connection, bank, changes.entities, numbers, revision)
    rows.save_episodes(connection, bank, changes.episodes)
    seqs = rows.save_facts(connection, bank, new, revision)
    rows.save_links(connection, bank, changes.links, seqs)
    changed = rows.add_sources(connection, bank, changes.sources)
    rows.update_facts(connection, bank, changes, revision)
    rows.change_confidence(connection, bank, changes.confidence, revision)
    rows.record_confidence_history(connection, bank, changes.confidence_history)
    if changes.erase:
        bank_rows.erase_copies(connection, bank, changes, index)
    changed |= _delete(connection, bank, changes, index)
    if changed:
        rows.rewrite_records(connection, bank, changed, revision)
    rows.requeue(connection, bank, changes.requeued, index)
    rows.drop_context(connection, bank, changes.without_context, revision, index)
    index.add_facts(connection, bank, [(seqs[item.fact.id], item) for item in changes.facts])
    if changes.pending and changes.becomes == "derived":
        unrepeated = frozenset(changes.unrepeated)
        index.drop_words(connection, bank, [id for id in changes.pending if id not in unrepeated])
    rows.curate(connection, bank, changes.curated, index)


def _delete(connection: Connection, bank: int, changes: Changes, index: SearchIndex) -> set[int]:
    """Delete records, and write the mentions and merges that depend on the order of deletions.

    Return the numbers of the facts whose sources or mentions have changed.
    """
    deleted = changes.deleted
    changed = rows.remove_mentions(connection, bank, deleted.mentions)
    changed |= rows.add_mentions(connection, bank, changes.mentions)
    rows.save_merges(connection, bank, changes.merges)
    rows.delete_merges(connection, bank, deleted.merges)
    changed |= rows.delete_facts(connection, bank, deleted.facts, index)
    changed |= rows.delete_entities(connection, bank, deleted.entities)
    episode_numbers = seqs_of(connection, episodes, bank, deleted.episodes)
    changed |= rows.dissolve(connection, bank, episode_numbers.values())
    rows.delete_messages(connection, bank, deleted.messages, index)
    return changed


def _save_notes(connection: Connection, bank: int, changes: Changes) -> None:
    """Write records that no search depends on: failures, former profiles, access counts, spending and webhooks."""
    for failure in changes.failures:
        rows.record_failure(connection, bank, failure)
    bank_rows.keep_profiles(connection, bank, changes.former_profiles)
    bank_rows.count_accesses(connection, bank, changes.accesses)
    queue.spend(connection, bank, changes.spending)
    queue.save_webhooks(connection, bank, changes)


def _save_queue(connection: Connection, bank: int, changes: Changes) -> None:
    queue.drop(connection, bank, changes.deleted.jobs)
    for lease in changes.finished:
        queue.complete(connection, bank, lease)
    if changes.pending and not changes.finished:
        queue.settle(connection, bank)
    for failure in changes.failed:
        queue.fail(connection, bank, failure)
    for lease in changes.released:
        queue.release(connection, bank, lease)
    queue.enqueue(connection, bank, [*changes.jobs, *queue.webhook_deliveries(connection, bank, changes)])


class Database(Protocol):
    """Runs functions on connections to one database, each in a transaction of its own that sees one state of it.

    A write that is repeatable does no harm when it was run before: it is run again where the outcome of its commit is
    not known.
    """

    async def read(self, run: Callable[[Connection], R]) -> R: ...
    async def write(self, run: Callable[[Connection], R], *, repeatable: bool = False) -> R: ...


D = TypeVar("D", bound=Database)
P = ParamSpec("P")
R = TypeVar("R")


class SqlStore(ABC, Generic[D]):
    """The shared part of every SQL store."""

    def __init__(self, database: D, index: SearchIndex) -> None:
        self._connections = database
        self._index = index
        self._ready = False

    @property
    def _database(self) -> D:
        # A call after close() must not open connections again.
        assert self._ready, "the store is not open"
        return self._connections

    @abstractmethod
    async def open(self, *, as_is: bool = False) -> None:
        """Connect, and create or upgrade the schema."""

    async def run_read(self, run: Callable[[Connection], R]) -> R:
        """Run a function in one read transaction of the database, which may hold tables of other programs."""
        return await self._database.read(run)

    async def run_write(self, run: Callable[[Connection], R], *, repeatable: bool = False) -> R:
        """Run a function in one write transaction of the database; see `Database.write`."""
        return await self._database.write(run, repeatable=repeatable)

    @abstractmethod
    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction of a bank."""

    async def _read(
        self, bank: BankId, run: Callable[Concatenate[Connection, int, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Read from a bank with a function that takes its number."""
        return await self._database.read(lambda c: run(c, bank_state(c, bank).seq, *args, **kwargs))

    async def banks(self) -> list[Bank]:
        return await self._database.read(bank_rows.all_banks)

    async def bank(self, bank: BankId) -> Bank | None:
        return await self._database.read(lambda c: bank_rows.find_bank(c, bank))

    async def create_bank(self, bank: Bank, *, replaces: BankId | None = None, note: str = "") -> Bank:
        return await self._database.write(lambda c: bank_rows.create(c, bank, replaces, note), repeatable=True)

    async def hidden_banks(self) -> list[HiddenBank]:
        return await self._database.read(bank_rows.hidden)

    async def drop_bank(self, bank: BankId) -> bool:
        dropped = False

        def run(connection: Connection) -> bool:
            nonlocal dropped
            # An earlier run may have been committed after all.
            dropped = bank_rows.drop(connection, bank, self._index) or dropped
            return dropped

        return await self._database.write(run, repeatable=True)

    async def revision(self, bank: BankId) -> BankRevision:
        return (await self._database.read(lambda c: bank_state(c, bank))).bank_revision

    async def status(self, bank: BankId) -> Status:
        return await self._database.read(lambda c: bank_rows.status(c, bank))

    async def daily_counts(self, bank: BankId) -> list[DailyCount]:
        return await self._read(bank, bank_rows.daily_counts)

    async def append(
        self, bank: BankId, messages: Sequence[Message], *, process_at: datetime | None = None
    ) -> set[MessageId]:
        return await self._database.write(lambda c: self._append(c, bank, messages, process_at))

    def _append(
        self, connection: Connection, bank: BankId, messages: Sequence[Message], process_at: datetime | None
    ) -> set[MessageId]:
        number = bank_state(connection, bank).seq
        stored = rows.append_messages(connection, number, messages, self._index)
        if any(message.state == "pending" for message in stored):
            queue.enqueue(connection, number, [NewJob(kind="process", due=process_at)])
        return {message.id for message in stored}

    async def commit(self, changes: Changes) -> bool:
        """Write changes whole, or not at all, once no other process holds the bank."""
        try:
            return await commit_when_free(changes.bank, lambda: self._commit(changes))
        except Refused:
            return False

    async def _commit(self, changes: Changes) -> bool:
        return await self._database.write(lambda c: commit_changes(c, changes, self._index))

    async def lease(  # noqa: PLR0913 - each narrows the selection
        self,
        owner: str,
        seconds: float,
        *,
        bank: BankId | None = None,
        kinds: Sequence[JobKind] = (),
        limit: int = 1,
        due: bool = True,
        beside: Sequence[int] = (),
        except_banks: Sequence[BankId] = (),
    ) -> list[Job]:
        taken: list[Job] = []

        def run(connection: Connection) -> list[Job]:
            # An earlier run may have been committed after all.
            queue.give_back(connection, taken)
            lists = {"kinds": kinds, "beside": beside, "except_banks": except_banks}
            wanted: dict[str, Cell] = {name: listed(values) for name, values in lists.items() if values}
            if bank is not None:
                wanted["of_bank"] = bank_state(connection, bank).seq
            taken[:] = queue.lease(connection, owner, seconds, {**wanted, "most": limit}, due=due)
            return taken

        return await self._database.write(run, repeatable=True)

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        write = self._database.write
        return [
            each for each in leases if await write(partial(queue.renew, lease=each, seconds=seconds), repeatable=True)
        ]

    async def hold(self, bank: BankId, owner: str, seconds: float) -> Lease | None:
        return await self._database.write(lambda c: queue.hold(c, bank_state(c, bank).seq, owner, seconds))

    async def schema_version(self) -> str:
        return await self._database.read(migrate.current) or "none"

    async def jobs(self, bank: BankId, kinds: Sequence[JobKind] = ()) -> list[Job]:
        return await self._read(bank, queue.jobs_of, kinds)

    async def messages(self, bank: BankId, select: MessageSelect) -> list[Message]:
        return await self._read(bank, reads.messages_of, select)

    async def facts(self, bank: BankId, select: FactSelect) -> list[Fact]:
        return await self._read(bank, reads.facts_of, bank, select, self._index.embeddings)

    async def episodes(self, bank: BankId, select: EpisodeSelect) -> list[Episode]:
        return await self._read(bank, reads.episodes_of, select)

    async def entities(self, bank: BankId, select: EntitySelect) -> list[Entity]:
        return await self._read(bank, reads.entities_of, select)

    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        return await self._read(bank, reads.cooccurring, entities)

    async def mentions(self, bank: BankId, entities: Sequence[EntityId], *, named: bool = False) -> list[EntityMention]:
        return await self._read(bank, reads.entity_mentions, entities, named=named)

    async def merges(self, bank: BankId) -> list[MergeRecord]:
        return await self._read(bank, rows.merge_records)

    async def links(self, bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
        return await self._read(bank, reads.links_of, facts)

    async def confidence_changes(self, bank: BankId, opinion: FactId | None = None) -> list[ConfidenceChange]:
        return await self._read(bank, rows.read_confidence_changes, opinion)

    async def former_profiles(self, bank: BankId) -> list[FormerProfile]:
        return await self._read(bank, bank_rows.former_profiles)

    async def webhooks(self, bank: BankId) -> list[SignedWebhook]:
        return await self._read(bank, queue.webhooks_of)
