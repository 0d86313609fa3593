"""Nodes of webhooks, and the deliveries that a commit queues."""

from __future__ import annotations

from vmemo.models.changes import Changes, NewJob
from vmemo.models.fact_events import delivery_jobs, events_of
from vmemo.models.webhooks import SignedWebhook
from vmemo.stores.values import instant
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import micros
from vmemo_neo4j.numbers import next_number


async def listed(tx: Transaction, bank: str) -> list[SignedWebhook]:
    """Return the webhooks of a bank, oldest first."""
    found = await tx.rows(
        "MATCH (w:Webhook {bank: $bank}) RETURN w {.id, .url, .secret, .events, "
        f"created_at: {micros('w.created_at')}, disabled_at: {micros('w.disabled_at')}}} AS webhook ORDER BY w.seq",
        bank=bank,
    )
    nodes = [row["webhook"] for row in found]
    return [
        SignedWebhook.of(
            {
                **node,
                "created_at": instant(node["created_at"]),
                "disabled_at": None if node["disabled_at"] is None else instant(node["disabled_at"]),
            }
        )
        for node in nodes
    ]


async def save(tx: Transaction, bank: str, changes: Changes) -> None:
    """Add, disable and delete webhooks."""
    if changes.webhooks:
        rows = [
            {
                "id": webhook.id,
                "url": webhook.url,
                "secret": webhook.secret,
                "events": list(webhook.events),
                "created_at": webhook.created_at,
                "disabled_at": webhook.disabled_at,
                "seq": next_number(),
            }
            for webhook in changes.webhooks
        ]
        await tx.run(
            "UNWIND $rows AS row MERGE (w:Webhook {bank: $bank, id: row.id}) ON CREATE SET w += row",
            bank=bank,
            rows=rows,
        )
    if changes.disabled_webhooks:
        rows = [{"id": id, "at": at} for id, at in changes.disabled_webhooks.items()]
        await tx.run(
            "UNWIND $rows AS row MATCH (w:Webhook {bank: $bank, id: row.id}) SET w.disabled_at = row.at",
            bank=bank,
            rows=rows,
        )
    if changes.deleted.webhooks:
        ids = list(changes.deleted.webhooks)
        await tx.run("UNWIND $ids AS id MATCH (w:Webhook {bank: $bank, id: id}) DELETE w", bank=bank, ids=ids)


async def deliveries(tx: Transaction, bank: str, changes: Changes) -> list[NewJob]:
    """Return the jobs that notify the bank's webhooks of changes. Hidden banks have no webhooks."""
    events = events_of(changes)
    return delivery_jobs(await listed(tx, bank), events) if events else []


async def hand_over(tx: Transaction, bank: str, replaced: str) -> None:
    """Give a bank the webhooks of the one it replaces, with the deliveries that are queued."""
    await tx.run("MATCH (w:Webhook {bank: $replaced}) SET w.bank = $bank", bank=bank, replaced=replaced)
    queued = "MATCH (j:Job {bank: $replaced, kind: 'webhook'}) SET j.bank = $bank"
    await tx.run(queued, bank=bank, replaced=replaced)
