"""Deleting messages, facts and merges, and every copy of their text.

Everything here runs inside the caller's one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import LiteralString

from vmemo.models import FactId, MessageId
from vmemo.models.changes import Changes, NewFact
from vmemo.stores.values import UNPROCESSED
from vmemo_neo4j import bank_nodes, index
from vmemo_neo4j.connection import Transaction


async def delete_facts(tx: Transaction, bank: str, ids: Sequence[FactId]) -> None:
    """Delete facts with their relationships and confidence changes, and as evidence of other changes."""
    if not ids:
        return
    await index.drop_facts(tx, bank, ids)
    await tx.run(
        "UNWIND $ids AS id MATCH (f:Fact {bank: $bank, id: id}) "
        "OPTIONAL MATCH (c:ConfidenceChange)-[:OF]->(f) DETACH DELETE c, f",
        bank=bank,
        ids=list(ids),
    )
    await tx.run(
        "MATCH (c:ConfidenceChange {bank: $bank}) WHERE any(id IN c.evidence WHERE id IN $ids) "
        "SET c.evidence = [id IN c.evidence WHERE NOT id IN $ids], c.reason = ''",
        bank=bank,
        ids=list(ids),
    )


async def delete_messages(tx: Transaction, bank: str, ids: Sequence[MessageId]) -> None:
    """Delete messages. The facts and episodes that refer to them are deleted before."""
    if ids:
        await index.drop_messages(tx, bank, ids)
        deleted: LiteralString = "UNWIND $ids AS id MATCH (m:Message {bank: $bank, id: id}) DETACH DELETE m"
        await tx.run(deleted, bank=bank, ids=list(ids))


async def delete_merges(tx: Transaction, bank: str, ids: Sequence[str]) -> None:
    """Delete merges."""
    if ids:
        await tx.run("UNWIND $ids AS id MATCH (m:Merge {bank: $bank, id: id}) DELETE m", bank=bank, ids=list(ids))


async def drop_context(tx: Transaction, bank: str, changed: Sequence[NewFact]) -> None:
    """Remove the context of facts, from their nodes and from the word index."""
    if not changed:
        return
    known = await tx.rows(
        "UNWIND $ids AS id MATCH (f:Fact {bank: $bank, id: id}) SET f.context = '' "
        "WITH f OPTIONAL MATCH (f)-[r:CONTEXT]->() DELETE r RETURN f.id AS id",
        bank=bank,
        ids=[item.fact.id for item in changed],
    )
    ids = {row["id"] for row in known}
    bare = [replace(item, fact=item.fact.model_copy(update={"context": ""})) for item in changed]
    await index.index_again(tx, bank, [item for item in bare if item.fact.id in ids])


async def erase_copies(tx: Transaction, bank: str, changes: Changes) -> None:
    """Delete what may quote the deleted text: derived banks and errors.

    An error of several messages may quote any of them, so those that share one with a deleted message lose it too.
    """
    await bank_nodes.drop_derived(tx, bank)
    await tx.run(
        "UNWIND $ids AS id MATCH (d:Message {bank: $bank, id: id}) WHERE d.error IS NOT NULL "
        "WITH collect(DISTINCT d.error) AS errors UNWIND $states AS state "
        "MATCH (m:Message {bank: $bank, state: state}) WHERE m.timestamp IS NOT NULL AND m.error IN errors "
        "REMOVE m.error, m.failed_at",
        bank=bank,
        ids=list(changes.deleted.messages),
        states=list(UNPROCESSED),
    )
    cleared: LiteralString = "UNWIND $ids AS id MATCH (m:Message {bank: $bank, id: id}) REMOVE m.error, m.failed_at"
    await tx.run(cleared, bank=bank, ids=list(changes.requeued))
    await tx.run("MATCH (j:Job {bank: $bank}) REMOVE j.error", bank=bank)
