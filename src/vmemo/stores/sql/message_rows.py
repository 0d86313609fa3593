"""Statements over banks and messages. Functions here and beside take an open connection and a bank's number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection, Integer, Table, bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from vmemo.models import Bank, BankId, BankRevision, Message, new_id, utc_now
from vmemo.models.changes import MessageFailure
from vmemo.ports import BankNotFound
from vmemo.stores.sql import conditions
from vmemo.stores.sql.bulk import insert_rows
from vmemo.stores.sql.conditions import among, later, listed
from vmemo.stores.sql.prepared import Prepared
from vmemo.stores.sql.rows import bank_of, message_values
from vmemo.stores.sql.schema import EPISODE, banks, episode_messages, episodes, messages, metadata, notes, sources
from vmemo.stores.values import UNPROCESSED, demand_embedder, micros, storable_error, unstored

DELETION = "deletion"
"""Name of the note that rows were deleted since the last vacuum of a SQLite file."""
WRITES = "vmemo_writes"
"""The execution option of a connection that writes."""
NEW_VECTORS = 1 << 16
"""Added to `purges` when the vectors of all facts are replaced, so that no number of removals is taken for it."""


@dataclass(frozen=True)
class BankState:
    """A bank's number and identity, and its change counters.

    `purges` grows by one with every removal, and by `NEW_VECTORS` when all vectors are replaced.
    """

    seq: int
    identity: str
    revision: int
    purges: int
    dimension: int
    embedder: str

    @property
    def bank_revision(self) -> BankRevision:
        """The revision with the identity of the bank."""
        return BankRevision(self.identity, self.revision)

    def demand(self, embedder: str) -> None:
        """Refuse vectors of another embedder than the bank's."""
        demand_embedder(self.embedder, embedder)


_FIND_STATE = select(
    banks.c.seq, banks.c.identity, banks.c.revision, banks.c.purges, banks.c.dimension, banks.c.embedder
).where(banks.c.id == bindparam("bank"))
_STATE, _LOCKED = Prepared(_FIND_STATE), Prepared(_FIND_STATE.with_for_update())
_BANK = Prepared(select(banks).where(banks.c.id == bindparam("name")))
_BUMP = Prepared(
    update(banks)
    .where(banks.c.seq == bindparam("number"))
    .values(revision=banks.c.revision + 1, purges=banks.c.purges + bindparam("purged", type_=Integer))
)
_REVISION = Prepared(select(banks.c.revision).where(banks.c.seq == bindparam("number")))
_OF_BANK = messages.c.bank == bindparam("number")
_KNOWN_IDS = Prepared(select(messages.c.id).where(_OF_BANK, among(messages.c.id, later("ids"))))
_KNOWN_KEYS = Prepared(
    select(messages.c.document, messages.c.key).where(
        _OF_BANK, among(messages.c.document, later("documents")), among(messages.c.key, later("keys"))
    )
)


def bank_state(connection: Connection, bank: BankId) -> BankState:
    """Return the bank's state; raise BankNotFound if there is no such bank.

    On a connection that writes, the bank's row is locked, so that its writers take turns where a database lets several
    write. Every function that writes calls this before it reads anything else of the bank.
    """
    found = state_or_none(connection, bank)
    if found is None:
        raise BankNotFound(bank)
    return found


def state_or_none(connection: Connection, bank: BankId) -> BankState | None:
    """Return the bank's state as `bank_state` does, or None if there is no such bank."""
    writing = writes(connection)
    row = (_LOCKED if writing else _STATE).first(connection, {"bank": bank})
    if row is None and writing:
        # The bank may have been replaced while we waited for its row lock; look it up again.
        row = _LOCKED.first(connection, {"bank": bank})
    return None if row is None else BankState(*row)


def writes(connection: Connection) -> bool:
    """Return True if the connection was opened for writing."""
    return bool(connection.get_execution_options().get(WRITES, False))


def lock(connection: Connection, bank: int) -> bool:
    """Wait for the bank's other writers, as `bank_state` does; return False if the bank does not exist."""
    return connection.execute(select(banks.c.seq).where(banks.c.seq == bank).with_for_update()).first() is not None


def all_banks(connection: Connection) -> list[Bank]:
    """Return the banks by name, without hidden ones."""
    statement = select(banks).where(banks.c.replaces.is_(None)).order_by(banks.c.id)
    return [bank_of(row) for row in connection.execute(statement)]


def find_bank(connection: Connection, bank: BankId) -> Bank | None:
    """Return the bank, or None."""
    row = _BANK.first(connection, {"name": bank})
    return None if row is None else bank_of(row)


def insert_missing(connection: Connection, table: Table, values: Mapping[str, str | int | None]) -> bool:
    """Insert a row unless its key exists or is being inserted by another transaction; return True if inserted."""
    return _insert_missing(table, connection.dialect.name).execute(connection, values) == 1


@cache
def _insert_missing(table: Table, dialect: str) -> Prepared:
    new = postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
    return Prepared(new.on_conflict_do_nothing().inline())


def note_deletion(connection: Connection) -> None:
    """Note that a SQLite file needs a vacuum; other databases do that by themselves."""
    if connection.dialect.name == "sqlite":
        # Another value each time, so that a vacuum that is running does not remove the note of a later deletion.
        note = sqlite.insert(notes).values(name=DELETION, value=new_id())
        connection.execute(note.on_conflict_do_update(["name"], set_={"value": note.excluded.value}))


def bump(connection: Connection, bank: int, *, purges: int = 0) -> int:
    """Count a change of the bank's facts and return the new revision."""
    _BUMP.execute(connection, {"number": bank, "purged": purges})
    [(revision,)] = _REVISION.rows(connection, {"number": bank})
    return revision


def append(connection: Connection, bank: int, new: Sequence[Message]) -> list[tuple[int, Message]]:
    """Insert messages that are not stored yet; return those inserted with their numbers."""
    fresh = unstored(new, _known(connection, bank, new))
    if not fresh:
        return []
    values = [message_values(bank, message) for message in fresh]
    seqs = insert_rows(connection, messages, values)
    return [(seqs[message.id], message) for message in fresh]


def _known(connection: Connection, bank: int, new: Sequence[Message]) -> set[object]:
    """Return the ids, and pairs of document and key, of these messages that are stored already."""
    ids = listed([message.id for message in new])
    known: set[object] = {row.id for row in _KNOWN_IDS.rows(connection, {"number": bank, "ids": ids})}
    keys = [message.key for message in new if message.key]
    if keys:
        documents = {message.document for message in new if message.document}
        wanted = {"number": bank, "documents": listed(documents), "keys": listed(keys)}
        known.update((row.document, row.key) for row in _KNOWN_KEYS.rows(connection, wanted))
    return known


def record_failure(connection: Connection, bank: int, failure: MessageFailure) -> None:
    """Note an error on messages that are still pending."""
    waiting = messages.c.bank == bank, among(messages.c.id, failure.messages), messages.c.state.in_(UNPROCESSED)
    noted = {
        "attempts": messages.c.attempts + 1,
        "error": storable_error(failure.error),
        "failed_at": micros(utc_now()),
    }
    connection.execute(update(messages).where(*waiting).values(noted))


def any_pending(connection: Connection, bank: int, documents: Sequence[str | None]) -> bool:
    """Return True if one of the documents has a pending message; None is the messages without a document."""
    if not documents:
        return False
    named = among(messages.c.document, [document for document in documents if document is not None])
    inside = named | messages.c.document.is_(None) if None in documents else named
    waiting = select(messages.c.seq).where(messages.c.bank == bank, messages.c.state == "pending", inside)
    return connection.execute(waiting.limit(1)).first() is not None


def dissolve(connection: Connection, bank: int, broken: Iterable[int]) -> None:
    """Delete episodes; an episode that followed one follows its predecessor."""
    gone = sorted(broken)
    if not gone:
        return
    for seq in gone:
        deleted = select(episodes.c.id, episodes.c.previous).where(conditions.row(episodes, bank, seq))
        row = connection.execute(deleted).one()
        following = update(episodes).where(episodes.c.bank == bank, episodes.c.previous == row.id)
        connection.execute(following.values(previous=row.previous))
    stating = sources.c.bank == bank, sources.c.kind == EPISODE, among(sources.c.source, gone)
    connection.execute(delete(sources).where(*stating))
    inside = episode_messages.c.bank == bank, among(episode_messages.c.episode, gone)
    connection.execute(delete(episode_messages).where(*inside))
    connection.execute(delete(episodes).where(conditions.rows(episodes, bank, gone)))


_OWNED = tuple(table for table in metadata.sorted_tables if "bank" in table.c)


def clear(connection: Connection, bank: int) -> None:
    """Delete all rows of a bank, and its own."""
    for table in _OWNED:
        connection.execute(delete(table).where(table.c.bank == bank))
    connection.execute(delete(banks).where(banks.c.seq == bank))
