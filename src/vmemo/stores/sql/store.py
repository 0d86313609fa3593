"""The part that all SQL stores share: the methods of the port over the shared statements.

A dialect provides the transactions, the search index, and the searches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

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
    RetentionScore,
)
from vmemo.models.changes import Changes, EntityMention, Lease, MergeRecord, NewJob
from vmemo.models.results import DailyCount, Job, Status
from vmemo.models.search import ExpandRequest, Expansion
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.models.webhooks import SignedWebhook
from vmemo.ports import BankReader, HiddenBank
from vmemo.stores.sql import bank_rows, entity_rows, fact_rows, message_rows, queue, reads
from vmemo.stores.sql.bank_rows import bank_state
from vmemo.stores.sql.commit import Refused, commit
from vmemo.stores.sql.search import SearchIndex
from vmemo.stores.transactions import commit_when_free
from vmemo.stores.values import WORDLESS


class Database(Protocol):
    """Runs functions on connections to one database, each in a transaction of its own."""

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run a function that sees one state of the database."""
        ...

    async def write(self, run: Callable[[Connection], R], *, repeatable: bool = False) -> R:
        """Run a function and commit.

        One that is repeatable does no harm when it was run before: it is run again where the outcome of its commit is
        not known.
        """
        ...


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

    async def expand(self, request: ExpandRequest) -> Expansion:
        """Return edges, token vectors and revisions of candidates."""
        return await self.read(request.bank, lambda reader: reader.expand(request))

    async def _read(
        self, bank: BankId, run: Callable[Concatenate[Connection, int, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Read from a bank with a function that takes its number."""
        return await self._database.read(lambda c: run(c, bank_state(c, bank).seq, *args, **kwargs))

    async def banks(self) -> list[Bank]:
        """Return the banks by name."""
        return await self._database.read(bank_rows.all_banks)

    async def bank(self, bank: BankId) -> Bank | None:
        """Return the bank, or None."""
        return await self._database.read(lambda c: bank_rows.find_bank(c, bank))

    async def create_bank(self, bank: Bank, *, replaces: BankId | None = None, note: str = "") -> Bank:
        """Create the bank unless it exists; return the stored one."""
        return await self._database.write(lambda c: bank_rows.create(c, bank, replaces, note), repeatable=True)

    async def hidden_banks(self) -> list[HiddenBank]:
        """Return the hidden banks."""
        return await self._database.read(bank_rows.hidden)

    async def drop_bank(self, bank: BankId) -> bool:
        """Delete a bank with everything in it."""
        dropped = False

        def run(connection: Connection) -> bool:
            nonlocal dropped
            # An earlier run may have been committed after all.
            dropped = bank_rows.drop(connection, bank, self._index) or dropped
            return dropped

        return await self._database.write(run, repeatable=True)

    async def revision(self, bank: BankId) -> BankRevision:
        """Return the revision of the bank's memories."""
        return (await self._database.read(lambda c: bank_state(c, bank))).bank_revision

    async def status(self, bank: BankId) -> Status:
        """Return the status of a bank."""
        return await self._database.read(lambda c: bank_rows.status(c, bank))

    async def daily_counts(self, bank: BankId) -> list[DailyCount]:
        """Return the numbers of messages and facts by day."""
        return await self._read(bank, bank_rows.daily_counts)

    async def append(
        self, bank: BankId, messages: Sequence[Message], *, process_at: datetime | None = None
    ) -> set[MessageId]:
        """Store messages durably."""
        return await self._database.write(lambda c: self._append(c, bank, messages, process_at))

    def _append(
        self, connection: Connection, bank: BankId, messages: Sequence[Message], process_at: datetime | None
    ) -> set[MessageId]:
        number = bank_state(connection, bank).seq
        stored = message_rows.append(connection, number, messages)
        worded = [(seq, message.content) for seq, message in stored if message.state not in WORDLESS]
        self._index.add_words(connection, number, worded)
        if any(message.state == "pending" for _, message in stored):
            queue.enqueue(connection, number, [NewJob(kind="process", due=process_at)])
        return {message.id for _, message in stored}

    async def commit(self, changes: Changes) -> bool:
        """Write changes whole, or not at all, once no other process holds the bank."""
        try:
            return await commit_when_free(changes.bank, lambda: self._commit(changes))
        except Refused:
            return False

    async def _commit(self, changes: Changes) -> bool:
        return await self._database.write(lambda c: commit(c, changes, self._index))

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
        """Take the oldest free jobs."""
        taken: list[Job] = []

        def run(connection: Connection) -> list[Job]:
            # An earlier run may have been committed after all.
            queue.give_back(connection, taken)
            number = None if bank is None else bank_state(connection, bank).seq
            wanted = queue.LeaseRequest(
                bank=number, kinds=kinds, limit=limit, due=due, beside=beside, except_banks=except_banks
            )
            taken[:] = queue.lease(connection, owner, seconds, wanted)
            return taken

        return await self._database.write(run, repeatable=True)

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Extend leases; return those that are still held."""
        return [lease for lease in leases if await self._renew(lease, seconds)]

    async def _renew(self, lease: Lease, seconds: float) -> bool:
        return await self._database.write(lambda c: queue.renew(c, lease, seconds), repeatable=True)

    async def hold(self, bank: BankId, owner: str, seconds: float) -> Lease | None:
        """Hold a bank, so that the commits of others wait."""
        return await self._database.write(lambda c: queue.hold(c, bank_state(c, bank).seq, owner, seconds))

    async def jobs(self, bank: BankId, kinds: Sequence[JobKind] = ()) -> list[Job]:
        """Return the queued jobs of a bank, oldest first."""
        return await self._read(bank, queue.jobs_of, kinds)

    async def messages(self, bank: BankId, select: MessageSelect) -> list[Message]:
        """Return the messages of a selection."""
        return await self._read(bank, reads.messages_of, select)

    async def facts(self, bank: BankId, select: FactSelect) -> list[Fact]:
        """Return the facts of a selection."""
        return await self._read(bank, reads.facts_of, bank, select, self._index.embeddings)

    async def episodes(self, bank: BankId, select: EpisodeSelect) -> list[Episode]:
        """Return the episodes of a selection."""
        return await self._read(bank, reads.episodes_of, select)

    async def consecutive_episodes(
        self, bank: BankId, *, gap: timedelta, largest: int, after: Episode | None = None, limit: int = 100
    ) -> list[tuple[Episode, Episode]]:
        """Return pairs of episodes, the second of which continues the document of the first."""
        return await self._read(bank, reads.consecutive_episodes, gap=gap, largest=largest, after=after, limit=limit)

    async def entities(self, bank: BankId, select: EntitySelect) -> list[Entity]:
        """Return the entities of a selection."""
        return await self._read(bank, reads.entities_of, select)

    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        """Return for each entity those it shares a fact with."""
        return await self._read(bank, reads.cooccurring, entities)

    async def mentions(self, bank: BankId, entities: Sequence[EntityId], *, named: bool = False) -> list[EntityMention]:
        """Return the mentions of entities, in the order of their facts."""
        return await self._read(bank, reads.entity_mentions, entities, named=named)

    async def merges(self, bank: BankId) -> list[MergeRecord]:
        """Return all merges in the order they were made."""
        return await self._read(bank, entity_rows.merge_records)

    async def links(self, bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
        """Return the links that leave these facts, or all."""
        return await self._read(bank, reads.links_of, facts)

    async def confidence_changes(self, bank: BankId, opinion: FactId | None = None) -> list[ConfidenceChange]:
        """Return the confidence changes of one opinion, or of all, oldest first."""
        return await self._read(bank, fact_rows.read_confidence_changes, opinion)

    async def retention_scores(
        self, bank: BankId, *, after: FactId | None = None, limit: int = 500
    ) -> list[RetentionScore]:
        """Return the retention scores of facts in the order they were mentioned."""
        return await self._read(bank, reads.retention_scores, after, limit)

    async def former_profiles(self, bank: BankId) -> list[FormerProfile]:
        """Return the former profiles of the bank, oldest first."""
        return await self._read(bank, bank_rows.former_profiles)

    async def webhooks(self, bank: BankId) -> list[SignedWebhook]:
        """Return the webhooks of a bank, oldest first."""
        return await self._read(bank, queue.webhooks_of)
