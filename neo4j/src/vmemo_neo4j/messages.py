"""Messages and their states. Functions here and beside take the key of a bank that is locked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vmemo.models import Message, MessageId, utc_now
from vmemo.models.changes import Changes, MessageFailure
from vmemo.stores.values import UNPROCESSED, WORDLESS, storable_error, unstored
from vmemo_neo4j import index
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import message_properties
from vmemo_neo4j.schema import NUMBERED

_BY_ID: Final = "UNWIND $ids AS id MATCH (m:Message {bank: $bank, id: id}) "
PENDING: Final = "MATCH (m:Message {bank: $bank, state: 'pending'}) WHERE m.timestamp IS NOT NULL"
"""Finds the messages that wait to be processed and are in no episode yet."""


async def append(tx: Transaction, bank: str, new: Sequence[Message]) -> list[Message]:
    """Store messages that are not stored yet, and their words; return those stored."""
    fresh = unstored(new, await _known(tx, bank, new)) if new else []
    if fresh:
        rows = [message_properties(message) for message in fresh]
        await tx.run(NUMBERED + "CREATE (m:Message {bank: $bank, seq: seq}) SET m += row", bank=bank, rows=rows)
        searched = [(message.id, message.content) for message in fresh if message.state not in WORDLESS]
        await index.add_message_words(tx, bank, searched)
    return fresh


async def _known(tx: Transaction, bank: str, new: Sequence[Message]) -> set[object]:
    """Return the ids, and pairs of document and key, of these messages that are stored already."""
    found = await tx.table(
        "UNWIND $rows AS row OPTIONAL MATCH (m:Message {bank: $bank, id: row[0]}) "
        "OPTIONAL MATCH (k:Message {bank: $bank, document: row[1], key: row[2]}) "
        "WITH m, k WHERE m IS NOT NULL OR k IS NOT NULL",
        "m.id, k.document, k.key",
        bank=bank,
        rows=[[message.id, message.document, message.key] for message in new],
    )
    return {id for id, _, _ in found} | {(document, key) for _, document, key in found}


async def claim(tx: Transaction, bank: str, changes: Changes) -> bool:
    """Give pending messages their new state; return False if one of them is no longer pending."""
    if not changes.pending:
        return True
    # A message that is only grouped keeps the note of why it could not be processed.
    settled = "" if changes.becomes == "grouped" else "REMOVE m.error, m.failed_at "
    row = await tx.one(
        f"{_BY_ID} WHERE m.state IN $states SET m.state = $becomes {settled} RETURN count(m) AS claimed",
        bank=bank,
        ids=list(changes.pending),
        states=["pending"] if changes.becomes == "grouped" else list(UNPROCESSED),
        becomes=changes.becomes,
    )
    if row is None or row["claimed"] != len(changes.pending):
        return False
    if changes.unrepeated:
        await tx.run(_BY_ID + "SET m.state = 'extracted'", bank=bank, ids=list(changes.unrepeated))
    return True


async def record_failure(tx: Transaction, bank: str, failure: MessageFailure) -> None:
    """Note an error on messages that are still pending."""
    await tx.run(
        _BY_ID + "WHERE m.state IN $waiting SET m.attempts = m.attempts + 1, m.error = $error, m.failed_at = $now",
        bank=bank,
        ids=list(failure.messages),
        waiting=list(UNPROCESSED),
        error=storable_error(failure.error),
        now=utc_now(),
    )


async def any_pending(tx: Transaction, bank: str, documents: Sequence[str | None] | None = None) -> bool:
    """Return True if the bank, or one of the documents, has a pending message; None is no document."""
    wanted = documents or []
    found = await tx.one(
        f"{PENDING} AND ($all OR m.document IN $named OR ($unnamed AND m.document IS NULL)) RETURN 1 AS one LIMIT 1",
        bank=bank,
        all=documents is None,
        named=[document for document in wanted if document is not None],
        unnamed=None in wanted,
    )
    return found is not None


async def requeue(tx: Transaction, bank: str, ids: Sequence[MessageId]) -> None:
    """Let messages wait to be processed again; their own words are searched until facts repeat them."""
    if ids:
        repeated = await tx.table(f"{_BY_ID} WHERE m.state = 'derived'", "m.id, m.content", bank=bank, ids=list(ids))
        await index.add_message_words(tx, bank, [(MessageId(id), content) for id, content in repeated])
        processed = "WHERE NOT m.state IN ['raw', 'curated'] SET m.state = 'pending'"
        await tx.run(_BY_ID + processed, bank=bank, ids=list(ids))


async def curate(tx: Transaction, bank: str, ids: Sequence[MessageId]) -> None:
    """Let messages be neither processed again nor searched by their words."""
    if ids:
        await index.save_words(tx, bank, "message", dict.fromkeys(ids))
        await tx.run(_BY_ID + "SET m.state = 'curated' REMOVE m.error, m.failed_at", bank=bank, ids=list(ids))
