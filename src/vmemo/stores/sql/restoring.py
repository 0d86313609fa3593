"""Loading an exported bank: records in the order of the export, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice

from sqlalchemy import Connection

from vmemo.errors import InvalidInput
from vmemo.models import Bank, BankId, Entity, Episode, Link, Message
from vmemo.ports import NewFact, RestoreRecord
from vmemo.stores.sql import archive, forgetting, writing

Indexed = tuple[int, NewFact]
IndexFacts = Callable[[Connection, Sequence[Indexed]], None]
IndexWords = Callable[[Connection, int, Sequence[tuple[int, str]]], None]
PART = 500


def restore(
    connection: Connection,
    bank: Bank,
    records: Iterator[RestoreRecord],
    index_facts: IndexFacts,
    index_words: IndexWords,
) -> None:
    """Create the bank and load its records; a bank that holds anything is refused."""
    if archive.find_bank(connection, BankId(bank.id)) is not None:
        existing = archive.bank_state(connection, BankId(bank.id)).seq
        if archive.page(connection, existing, None, None, 1):
            raise InvalidInput(f"Bank {bank.id!r} holds messages already; import into another name or forget it first.")
        forgetting.remove_bank(connection, existing)
    archive.create_bank(connection, bank)
    number = archive.bank_state(connection, BankId(bank.id)).seq
    revision = archive.bump(connection, number)
    for kind, run in groupby(records, type):
        while part := list(islice(run, PART)):
            if kind is Message:
                stored = archive.append(connection, number, [item for item in part if isinstance(item, Message)])
                index_words(connection, number, [(s, m.content) for s, m in stored if m.state != "derived"])
            elif kind is NewFact:
                writing.demand_vectors((x.encoding for x in part if isinstance(x, NewFact)), bank.dimension)
                _facts(connection, number, [x for x in part if isinstance(x, NewFact)], revision, index_facts)
            elif kind is Episode:
                writing.save_episodes(connection, number, [x for x in part if isinstance(x, Episode)])
            elif kind is Entity:
                writing.save_entities(connection, number, [x for x in part if isinstance(x, Entity)])
            else:
                writing.save_links(connection, number, [x for x in part if isinstance(x, Link)], {})


def _facts(connection: Connection, bank: int, items: Sequence[NewFact], revision: int, index_facts: IndexFacts) -> None:
    new = [item.fact for item in items]
    seqs = writing.save_facts(connection, bank, items, revision)
    writing.save_sources(connection, bank, new, seqs)
    writing.save_mentions(connection, bank, new, seqs, {})
    index_facts(connection, [(seqs[item.fact.id], item) for item in items])
