"""Rows of webhooks, and the deliveries that a commit queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, select, update

from vmemo.models.changes import Changes, NewJob
from vmemo.models.fact_events import delivery_jobs, events_of
from vmemo.models.webhooks import SignedWebhook
from vmemo.stores.sql.conditions import among
from vmemo.stores.sql.message_rows import insert_missing
from vmemo.stores.sql.schema import jobs, webhooks
from vmemo.stores.values import dump, instant, micros, micros_or_none, names_of

_LISTED = select(webhooks).where(webhooks.c.bank == bindparam("of_bank")).order_by(webhooks.c.seq)


def listed(connection: Connection, bank: int) -> list[SignedWebhook]:
    """Return the webhooks of a bank, oldest first."""
    rows = connection.execute(_LISTED, {"of_bank": bank})
    return [
        SignedWebhook.of(
            {
                "id": row.id,
                "url": row.url,
                "secret": row.secret,
                "events": names_of(row.events),
                "created_at": instant(row.created_at),
                "disabled_at": None if row.disabled_at is None else instant(row.disabled_at),
            }
        )
        for row in rows
    ]


def save(connection: Connection, bank: int, changes: Changes) -> None:
    """Add, disable and delete webhooks."""
    _add(connection, bank, changes.webhooks)
    _disable(connection, bank, changes.disabled_webhooks)
    if changes.deleted.webhooks:
        gone = webhooks.c.bank == bank, among(webhooks.c.id, changes.deleted.webhooks)
        connection.execute(delete(webhooks).where(*gone))


def _add(connection: Connection, bank: int, new: Sequence[SignedWebhook]) -> None:
    for webhook in new:
        values = {
            "bank": bank,
            "id": webhook.id,
            "url": webhook.url,
            "secret": webhook.secret,
            "events": dump(webhook.events),
            "created_at": micros(webhook.created_at),
            "disabled_at": micros_or_none(webhook.disabled_at),
        }
        insert_missing(connection, webhooks, values)


def _disable(connection: Connection, bank: int, disabled: Mapping[str, datetime]) -> None:
    for id, at in disabled.items():
        same = webhooks.c.bank == bank, webhooks.c.id == id
        connection.execute(update(webhooks).where(*same).values(disabled_at=micros(at)))


def deliveries(connection: Connection, bank: int, changes: Changes) -> list[NewJob]:
    """Return the jobs that notify the bank's webhooks of changes. Hidden banks have no webhooks."""
    events = events_of(changes)
    return delivery_jobs(listed(connection, bank), events) if events else []


def hand_over(connection: Connection, bank: int, replaced: int) -> None:
    """Give a bank the webhooks of the one it replaces, with the deliveries that are queued."""
    connection.execute(update(webhooks).where(webhooks.c.bank == replaced).values(bank=bank))
    queued = jobs.c.bank == replaced, jobs.c.kind == "webhook"
    connection.execute(update(jobs).where(*queued).values(bank=bank))
