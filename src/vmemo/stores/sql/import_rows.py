"""Loading an exported bank: records in the order of the export, all in one transaction or page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TypeVar

from sqlalchemy import Connection, insert

from vmemo.errors import InvalidInput
from vmemo.models import Bank, BankId, ConfidenceChange, Entity, Episode, FormerProfile, Link, Message
from vmemo.models.changes import MergeRecord, NewFact, RestoreRecord
from vmemo.models.results import Spending
from vmemo.stores.sql import batch_rows, merge_rows, message_rows, profiles, queue, reprocess
from vmemo.stores.sql.message_rows import BankState
from vmemo.stores.sql.rows import dump
from vmemo.stores.sql.schema import facts, moves
from vmemo.stores.sql.search_index import Indexed
from vmemo.stores.sql.timestamps import micros

IndexFacts = Callable[[Connection, int, Sequence[Indexed]], None]
IndexWords = Callable[[Connection, int, Sequence[tuple[int, str]]], None]
Kind = TypeVar("Kind")
PART = 500


def restore(
    connection: Connection,
    bank: Bank,
    records: Iterator[RestoreRecord],
    index_facts: IndexFacts,
    index_words: IndexWords,
) -> None:
    """Create the bank, load its records and queue what is unread; a bank that holds anything is refused."""
    while not message_rows.insert_bank(connection, bank):
        make_room(connection, BankId(bank.id))
    state = message_rows.bank_state(connection, BankId(bank.id))
    load(connection, state, records, index_facts, index_words)
    reprocess.wake(connection, state.seq)


def load(
    connection: Connection,
    state: BankState,
    records: Iterable[RestoreRecord],
    index_facts: IndexFacts,
    index_words: IndexWords,
) -> None:
    """Add records to a bank; what they refer to is there, or among them and before them."""
    revision = message_rows.bump(connection, state.seq)
    loading = _Loading(connection, state.seq, state.dimension, revision, index_facts, index_words)
    for _, run in groupby(records, type):
        while part := list(islice(run, PART)):
            loading.load(part)


def make_room(connection: Connection, bank: BankId) -> None:
    """Remove the bank of this name, if there is one; one that holds messages is refused."""
    existing = message_rows.state_or_none(connection, bank)
    if existing is None:
        return
    if message_rows.page(connection, existing.seq, None, None, 1):
        raise InvalidInput(f"Bank {bank!r} holds messages already; import into another name or forget it first.")
    shadow = reprocess.find(connection, existing.seq)
    if shadow is not None:
        message_rows.clear(connection, shadow.seq)
    message_rows.clear(connection, existing.seq)


@dataclass(frozen=True)
class _Loading:
    """A bank that is being loaded."""

    connection: Connection
    bank: int
    dimension: int
    revision: int
    index_facts: IndexFacts
    index_words: IndexWords

    def load(self, part: Sequence[RestoreRecord]) -> None:
        """Load records of one kind."""
        connection, bank = self.connection, self.bank
        match part[0]:
            case FormerProfile():
                profiles.keep(connection, bank, _only(FormerProfile, part))
            case Message():
                self._messages(_only(Message, part))
            case NewFact():
                self._facts(_only(NewFact, part))
            case Episode():
                batch_rows.save_episodes(connection, bank, _only(Episode, part))
            case Entity():
                batch_rows.save_entities(connection, bank, _only(Entity, part))
            case Link():
                batch_rows.save_links(connection, bank, _only(Link, part), {})
            case ConfidenceChange():
                _save_moves(connection, bank, _only(ConfidenceChange, part))
            case MergeRecord():
                merge_rows.save_records(connection, bank, _only(MergeRecord, part), reserve=True)
            case Spending():
                queue.spend(connection, bank, _only(Spending, part))

    def _messages(self, items: Sequence[Message]) -> None:
        stored = message_rows.append(self.connection, self.bank, items)
        words = [(seq, message.content) for seq, message in stored if message.state != "derived"]
        self.index_words(self.connection, self.bank, words)

    def _facts(self, items: Sequence[NewFact]) -> None:
        new = [item.fact for item in items]
        batch_rows.demand_vectors((item.encoding for item in items), self.dimension)
        seqs = batch_rows.save_facts(self.connection, self.bank, items, self.revision)
        batch_rows.save_sources(self.connection, self.bank, new, seqs)
        batch_rows.save_mentions(self.connection, self.bank, new, seqs, {})
        self.index_facts(self.connection, self.bank, [(seqs[item.fact.id], item) for item in items])


def _only(kind: type[Kind], part: Iterable[object]) -> list[Kind]:
    return [item for item in part if isinstance(item, kind)]


def _save_moves(connection: Connection, bank: int, new: Sequence[ConfidenceChange]) -> None:
    """Insert steps as they were: the opinions have the confidence they led to, and evidence may be gone by now."""
    opinions = batch_rows.seqs_of(connection, facts, bank, (step.opinion for step in new))
    rows = [
        {
            "bank": bank,
            "fact": batch_rows.number_of(opinions, "fact", step.opinion),
            "stance": step.stance,
            "before": step.before,
            "after": step.after,
            "evidence": dump(step.evidence),
            "reason": step.reason,
            "at": micros(step.at),
        }
        for step in new
    ]
    connection.execute(insert(moves), rows)
