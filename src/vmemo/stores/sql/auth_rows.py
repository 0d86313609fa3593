"""Statements over API keys, the audit log and idempotent responses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from vmemo.models import utc_now
from vmemo.models.auth import ApiKey, AuditEntry, IdempotentReply
from vmemo.stores.sql.auth_schema import api_keys, audit, replies
from vmemo.stores.sql.conditions import among
from vmemo.stores.sql.message_rows import insert_missing
from vmemo.stores.sql.rows import AnyRow, dump, instant, micros, micros_or_none

KEPT = timedelta(days=1)
"""Time for which a response is replayed."""


def add_key(connection: Connection, key: ApiKey, digest: str) -> None:
    """Insert a key."""
    values = {
        "id": key.id,
        "digest": digest,
        "name": key.name,
        "banks": dump(key.banks),
        "rights": key.permission,
        "created_at": micros(key.created_at),
        "expires_at": micros_or_none(key.expires_at),
        "revoked_at": micros_or_none(key.revoked_at),
    }
    connection.execute(insert(api_keys).values(values))


def find_key(connection: Connection, digest: str) -> ApiKey | None:
    """Return the key with this hash, or None."""
    row = connection.execute(select(api_keys).where(api_keys.c.digest == digest)).one_or_none()
    return None if row is None else _key(row)


def keys(connection: Connection) -> list[ApiKey]:
    """Return every key, oldest first."""
    return [_key(row) for row in connection.execute(select(api_keys).order_by(api_keys.c.seq))]


def _key(row: AnyRow) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        banks=tuple(json.loads(row.banks)),
        permission=row.rights,
        created_at=instant(row.created_at),
        expires_at=None if row.expires_at is None else instant(row.expires_at),
        revoked_at=None if row.revoked_at is None else instant(row.revoked_at),
    )


def revoke(connection: Connection, id: str, at: datetime) -> bool:
    """Revoke a key, once; return False if the id is unknown."""
    ended = update(api_keys).where(api_keys.c.id == id, api_keys.c.revoked_at.is_(None))
    connection.execute(ended.values(revoked_at=micros(at)))
    return connection.execute(select(api_keys.c.seq).where(api_keys.c.id == id)).first() is not None


def add_audit_entries(connection: Connection, entries: Sequence[AuditEntry]) -> None:
    """Append to the audit log."""
    rows = [
        {
            "at": micros(each.at),
            "key": each.key,
            "door": each.interface,
            "verb": each.verb,
            "bank_name": each.bank,
            "request": each.request,
            "status": each.status,
        }
        for each in entries
    ]
    connection.execute(insert(audit), rows)


def audit_entries(
    connection: Connection, banks: Sequence[str] | None, before: int | None, limit: int
) -> list[AuditEntry]:
    """Return audit entries, newest first."""
    statement = select(audit).order_by(audit.c.seq.desc()).limit(limit)
    if banks is not None:
        statement = statement.where(among(audit.c.bank_name, banks))
    if before is not None:
        statement = statement.where(audit.c.seq < before)
    return [
        AuditEntry(
            id=row.seq,
            at=instant(row.at),
            key=row.key,
            interface=row.door,
            verb=row.verb,
            bank=row.bank_name,
            request=row.request,
            status=row.status,
        )
        for row in connection.execute(statement)
    ]


def claim_idempotency_key(
    connection: Connection, owner: str, token: str, fingerprint: str, *, bank: str, stale: datetime
) -> IdempotentReply | None:
    """Claim an idempotency key, or return the reply of the request that holds it."""
    now = utc_now()
    connection.execute(delete(replies).where(replies.c.at < micros(now - KEPT)))
    abandoned = replies.c.status.is_(None), replies.c.at < micros(stale)
    connection.execute(delete(replies).where(*_named(owner, token), *abandoned))
    values = {
        "owner": owner,
        "token": token,
        "bank_name": bank,
        "fingerprint": fingerprint,
        "body": "",
        "at": micros(now),
    }
    if insert_missing(connection, replies, values):
        return None
    row = connection.execute(select(replies).where(*_named(owner, token))).one_or_none()
    # A claim that was deleted in the meantime belonged to a request that changed nothing.
    return None if row is None else IdempotentReply(fingerprint=row.fingerprint, status=row.status, body=row.body)


def _named(owner: str, token: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return replies.c.owner == owner, replies.c.token == token


def save_reply(connection: Connection, owner: str, token: str, status: int, body: str) -> None:
    """Store the response, unless the claim was deleted."""
    connection.execute(update(replies).where(*_named(owner, token)).values(status=status, body=body))


def release_idempotency_key(connection: Connection, owner: str, token: str) -> None:
    """Delete a claim."""
    connection.execute(delete(replies).where(*_named(owner, token)))


def drop_replies(connection: Connection, bank: str) -> None:
    """Delete the responses about a bank; claims without a response contain nothing of it."""
    connection.execute(delete(replies).where(replies.c.bank_name == bank, replies.c.status.is_not(None)))
