"""Deleting messages, facts and merges, and every copy of their text.

Everything here runs inside the caller's one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, Table, delete, select, update

from vmemo.models import FactId, MessageId
from vmemo.models.changes import Changes, NewFact
from vmemo.stores.sql import bank_rows, conditions, message_rows
from vmemo.stores.sql.bulk import seqs_of
from vmemo.stores.sql.conditions import among
from vmemo.stores.sql.schema import CONTEXT, confidence_changes, facts, jobs, links, mentions, merges, messages, sources
from vmemo.stores.sql.search import SearchIndex
from vmemo.stores.values import UNPROCESSED, WORDLESS, dump, names_of


def delete_facts(connection: Connection, bank: int, ids: Sequence[FactId], index: SearchIndex) -> None:
    """Delete facts with their mentions, links and confidence changes, and as evidence of other changes."""
    numbers = list(seqs_of(connection, facts, bank, ids).values())
    if not numbers:
        return
    index.drop_facts(connection, bank, numbers)
    for column in (sources.c.fact, mentions.c.fact, links.c.source, links.c.target, confidence_changes.c.fact):
        table = column.table
        assert isinstance(table, Table)
        connection.execute(delete(table).where(table.c.bank == bank, among(column, numbers)))
    _drop_evidence(connection, bank, set(ids))
    connection.execute(delete(facts).where(conditions.rows(facts, bank, numbers)))


def _drop_evidence(connection: Connection, bank: int, ids: set[FactId]) -> None:
    known_evidence = select(confidence_changes.c.seq, confidence_changes.c.evidence)
    for seq, evidence in connection.execute(known_evidence.where(confidence_changes.c.bank == bank)).all():
        known = names_of(evidence)
        left = [id for id in known if id not in ids]
        if len(left) < len(known):
            change = update(confidence_changes).where(conditions.row(confidence_changes, bank, seq))
            connection.execute(change.values(evidence=dump(left), reason=""))


def delete_messages(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Delete messages. The facts and episodes that refer to them are deleted before."""
    numbers = list(seqs_of(connection, messages, bank, ids).values())
    if numbers:
        index.drop_messages(connection, bank, numbers)
        connection.execute(delete(messages).where(conditions.rows(messages, bank, numbers)))


def delete_merges(connection: Connection, bank: int, ids: Sequence[str]) -> None:
    """Delete merges."""
    if ids:
        connection.execute(delete(merges).where(merges.c.bank == bank, among(merges.c.id, ids)))


def requeue(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Let messages wait to be processed again; their own words are searched until facts repeat them."""
    if not ids:
        return
    found = messages.c.bank == bank, among(messages.c.id, ids)
    repeated = select(messages.c.seq, messages.c.content).where(*found, messages.c.state == "derived")
    index.add_words(connection, bank, [(seq, content) for seq, content in connection.execute(repeated).all()])
    processed = messages.c.state.not_in(("raw", "curated"))
    connection.execute(update(messages).where(*found, processed).values(state="pending"))


def drop_context(
    connection: Connection, bank: int, changed: Sequence[NewFact], revision: int, index: SearchIndex
) -> None:
    """Remove the context of facts, from their rows and from the word index."""
    known = seqs_of(connection, facts, bank, (item.fact.id for item in changed))
    if not known:
        return
    index.drop_facts(connection, bank, list(known.values()))
    own = sources.c.bank == bank, sources.c.kind == CONTEXT, among(sources.c.fact, known.values())
    connection.execute(delete(sources).where(*own))
    own_rows = conditions.rows(facts, bank, known.values())
    connection.execute(update(facts).where(own_rows).values(context="", revision=revision))
    bare = [replace(item, fact=item.fact.model_copy(update={"context": ""})) for item in changed]
    index.add_facts(connection, bank, [(known[item.fact.id], item) for item in bare if item.fact.id in known])


def curate(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Let messages be neither processed again nor searched by their words."""
    if not ids:
        return
    found = messages.c.bank == bank, among(messages.c.id, ids)
    worded = select(messages.c.id).where(*found, messages.c.state.not_in(WORDLESS))
    index.drop_words(connection, bank, [MessageId(id) for id in connection.execute(worded).scalars()])
    connection.execute(update(messages).where(*found).values(state="curated", error=None, failed_at=None))


def erase_copies(connection: Connection, bank: int, changes: Changes, index: SearchIndex) -> None:
    """Delete what may quote the deleted text: derived banks and errors.

    An error of several messages may quote any of them, so those that share one with a deleted message lose it too.
    """
    bank_rows.drop_derived(connection, bank, index)
    quoting = select(messages.c.error).where(messages.c.bank == bank, messages.c.error.is_not(None))
    shared = quoting.where(among(messages.c.id, changes.deleted.messages)).distinct()
    errors = connection.execute(shared).scalars().all()
    cleared = {"error": None, "failed_at": None}
    unread = messages.c.bank == bank, messages.c.state.in_(UNPROCESSED)
    connection.execute(update(messages).where(*unread, among(messages.c.error, errors)).values(cleared))
    requeued = messages.c.bank == bank, among(messages.c.id, changes.requeued)
    connection.execute(update(messages).where(*requeued).values(cleared))
    connection.execute(update(jobs).where(jobs.c.bank == bank, jobs.c.error.is_not(None)).values(error=None))
    message_rows.note_deletion(connection)
