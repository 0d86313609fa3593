"""Statements over API keys, the audit log, and idempotent responses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from vmemo.errors import StoreBusy
from vmemo.models import utc_now
from vmemo.models.auth import ApiKey, AuditEntry, CompletedRequest, IdempotencyClaim, IdempotentReply
from vmemo.stores.sql.auth_schema import api_keys, audit, responses
from vmemo.stores.sql.conditions import among
from vmemo.stores.sql.message_rows import insert_missing
from vmemo.stores.sql.prepared import Prepared
from vmemo.stores.sql.rows import AnyRow
from vmemo.stores.values import dump, instant, micros, micros_or_none

KEPT = timedelta(days=1)
"""Time for which a response is replayed."""
ENDED = ""
"""The holder of the idempotency key of a request that runs no more."""
STARTED = 0
"""The status of an audit entry whose write has not ended."""

# Statements of every request are built once, which takes longer than running them.
_KEYS = Prepared(select(api_keys).order_by(api_keys.c.seq))
_KEY = Prepared(select(api_keys).where(api_keys.c.digest == bindparam("hashed")))
_BEGIN_ENTRY = Prepared(insert(audit).returning(audit.c.seq))
_FINISH_ENTRY = Prepared(update(audit).where(audit.c.seq == bindparam("entry")))
_NAMED = responses.c.owner == bindparam("by"), responses.c.token == bindparam("named")
_HELD = *_NAMED, responses.c.holder == bindparam("held_by")
# A claim of the future was made before the clock was set back.
_EXPIRED = (responses.c.at < bindparam("earliest")) | (responses.c.at > bindparam("latest"))
_DROP_OLD = Prepared(delete(responses).where(responses.c.at < bindparam("oldest")))
_DROP_EXPIRED = Prepared(delete(responses).where(*_NAMED, responses.c.status.is_(None), _EXPIRED))
_FIND_CLAIM = Prepared(select(responses, _EXPIRED.label("expired")).where(*_NAMED))
_CHANGE_HELD = Prepared(update(responses).where(*_HELD))


def add_key(connection: Connection, key: ApiKey, digest: str) -> None:
    """Insert a key, unless its hash is stored already."""
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
    insert_missing(connection, api_keys, values)


def find_key(connection: Connection, digest: str) -> ApiKey | None:
    """Return the key with this hash, or None."""
    row = _KEY.first(connection, {"hashed": digest})
    return None if row is None else _key(row)


def keys(connection: Connection) -> list[ApiKey]:
    """Return every key, oldest first."""
    return [_key(row) for row in _KEYS.rows(connection, {})]


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


def add_audit_entry(connection: Connection, entry: AuditEntry) -> int:
    """Insert an audit entry and return its id."""
    values = {
        "at": micros(entry.at),
        "key": entry.key,
        "interface": entry.interface,
        "verb": entry.verb,
        "bank_name": entry.bank,
        "request": entry.request,
        "status": entry.status or STARTED,
    }
    [(seq,)] = _BEGIN_ENTRY.rows(connection, values)
    return seq


def finish_audit_entry(connection: Connection, id: int, status: int) -> None:
    """Store the status of a write that has ended."""
    _FINISH_ENTRY.execute(connection, {"entry": id, "status": status})


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
            interface=row.interface,
            verb=row.verb,
            bank=row.bank_name,
            request=row.request,
            status=None if row.status == STARTED else row.status,
        )
        for row in connection.execute(statement)
    ]


def claim_idempotency_key(
    connection: Connection, claim: IdempotencyClaim, fingerprint: str, *, bank: str, lease: timedelta
) -> IdempotentReply | None:
    """Claim an idempotency key, or return the reply of the request that holds it."""
    now, named = utc_now(), _named(claim)
    _DROP_OLD.execute(connection, {"oldest": micros(now - KEPT)})
    lapsed = {**named, "earliest": micros(now - lease), "latest": micros(now + lease)}
    _DROP_EXPIRED.execute(connection, lapsed)
    values = {
        "owner": claim.owner,
        "token": claim.key,
        "holder": claim.holder,
        "bank_name": bank,
        "fingerprint": fingerprint,
        "body": "",
        "at": micros(now),
    }
    while not insert_missing(connection, responses, values):
        row = _FIND_CLAIM.first(connection, lapsed)
        # A claim that prevented the insertion may have been released since.
        if row is not None:
            running = row.holder != ENDED and not row.expired
            return IdempotentReply(fingerprint=row.fingerprint, status=None if running else row.status, body=row.body)
    return None


def _named(claim: IdempotencyClaim) -> dict[str, str]:
    return {"by": claim.owner, "named": claim.key}


def _held(claim: IdempotencyClaim) -> dict[str, str]:
    return {**_named(claim), "held_by": claim.holder}


def renew_idempotency_claim(connection: Connection, claim: IdempotencyClaim) -> None:
    """Extend the lease of a claim."""
    _CHANGE_HELD.execute(connection, {**_held(claim), "at": micros(utc_now())})


def complete_request(connection: Connection, completed: CompletedRequest) -> None:
    """Store the response of a request in the transaction of its effect; raise StoreBusy if its claim was lost."""
    values = {"status": completed.status, "body": completed.body}
    if _CHANGE_HELD.execute(connection, {**_held(completed.claim), **values}) != 1:
        raise StoreBusy(
            "Another process took over the request with this idempotency key, for this one stalled too long. Nothing "
            "was written; send the request again."
        )


def is_completed(connection: Connection, claim: IdempotencyClaim) -> bool:
    """Return True if the response of a claimed request is stored."""
    found = select(responses.c.token).where(*_HELD, responses.c.status.is_not(None))
    return connection.execute(found, _held(claim)).first() is not None


def save_reply(connection: Connection, completed: CompletedRequest) -> None:
    """Store the final response of a request, unless its claim was lost."""
    values = {"status": completed.status, "body": completed.body, "at": micros(utc_now()), "holder": ENDED}
    _CHANGE_HELD.execute(connection, {**_held(completed.claim), **values})


def release_idempotency_key(connection: Connection, claim: IdempotencyClaim) -> None:
    """Delete a claim; if its request has taken effect, the response that was stored with the effect is final."""
    connection.execute(delete(responses).where(*_HELD, responses.c.status.is_(None)), _held(claim))
    _CHANGE_HELD.execute(connection, {**_held(claim), "holder": ENDED})


def drop_replies(connection: Connection, bank: str) -> None:
    """Delete the responses about a bank; claims without a response contain nothing of it."""
    connection.execute(delete(responses).where(responses.c.bank_name == bank, responses.c.status.is_not(None)))
