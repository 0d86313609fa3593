"""Statements over API keys, the audit log, and idempotent responses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString

from vmemo.errors import StoreBusy
from vmemo.models import utc_now
from vmemo.models.auth import ApiKey, AuditEntry, CompletedRequest, IdempotencyClaim, IdempotentReply
from vmemo.stores.values import instant
from vmemo_neo4j.connection import Row, Transaction
from vmemo_neo4j.nodes import micros
from vmemo_neo4j.numbers import next_number

KEPT = timedelta(days=1)
"""Time for which a response is replayed."""
_KEY: Final[LiteralString] = (
    f"k {{.id, .name, .banks, .permission, created_at: {micros('k.created_at')}, "
    f"expires_at: {micros('k.expires_at')}, revoked_at: {micros('k.revoked_at')}}} AS key"
)
_HELD: Final[LiteralString] = (
    "MATCH (r:Reply {namespace: $namespace, owner: $owner, token: $token}) "
    "SET r.locked = true REMOVE r.locked WITH r, properties(r) AS now WHERE now.holder = $holder "
)
"""The reply of a claim that is held, locked; a request that runs no more has no holder."""


async def add_key(tx: Transaction, key: ApiKey, digest: str) -> None:
    """Add a key, unless its hash is stored already."""
    await tx.run(
        "MERGE (k:ApiKey {namespace: $namespace, digest: $digest}) ON CREATE SET k += $values",
        digest=digest,
        values={
            "id": key.id,
            "number": next_number(),
            "name": key.name,
            "banks": list(key.banks),
            "permission": key.permission,
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            "revoked_at": key.revoked_at,
        },
    )


async def find_key(tx: Transaction, digest: str) -> ApiKey | None:
    """Return the key with this hash, or None."""
    found = await tx.one(f"MATCH (k:ApiKey {{namespace: $namespace, digest: $digest}}) RETURN {_KEY}", digest=digest)
    return None if found is None else _key(found)


async def keys(tx: Transaction) -> list[ApiKey]:
    """Return every key, oldest first."""
    return [
        _key(row)
        for row in await tx.rows(
            f"MATCH (k:ApiKey {{namespace: $namespace}}) WHERE k.id > '' RETURN {_KEY} ORDER BY k.number"
        )
    ]


def _key(row: Row) -> ApiKey:
    node = row["key"]
    times = {
        name: None if node[name] is None else instant(node[name]) for name in ("created_at", "expires_at", "revoked_at")
    }
    return ApiKey.model_validate({**node, "banks": tuple(node["banks"]), **times})


async def revoke(tx: Transaction, id: str, at: datetime) -> bool:
    """Revoke a key, once; return False if the id is unknown."""
    found = await tx.one(
        "MATCH (k:ApiKey {namespace: $namespace, id: $id}) SET k.revoked_at = coalesce(k.revoked_at, $at) RETURN k.id",
        id=id,
        at=at,
    )
    return found is not None


async def add_audit_entry(tx: Transaction, entry: AuditEntry) -> int:
    """Add an audit entry and return its id."""
    number = next_number()
    await tx.run(
        "CREATE (a:AuditEntry {namespace: $namespace}) SET a += $values",
        values={
            "number": number,
            "at": entry.at,
            "key": entry.key,
            "interface": entry.interface,
            "verb": entry.verb,
            "bank_name": entry.bank,
            "request": entry.request,
            "status": entry.status,
        },
    )
    return number


async def finish_audit_entry(tx: Transaction, id: int, status: int) -> None:
    """Store the status of a write that has ended."""
    await tx.run(
        "MATCH (a:AuditEntry {namespace: $namespace, number: $id}) SET a.status = $status", id=id, status=status
    )


async def audit_entries(
    tx: Transaction, banks: Sequence[str] | None, before: int | None, limit: int
) -> list[AuditEntry]:
    """Return audit entries, newest first."""
    found = await tx.rows(
        "MATCH (a:AuditEntry {namespace: $namespace}) "
        "WHERE a.number < $before AND ($banks IS NULL OR a.bank_name IN $banks) "
        "RETURN a {.number, .key, .interface, .verb, .bank_name, .request, .status, "
        f"at: {micros('a.at')}}} AS entry ORDER BY a.number DESC LIMIT $limit",
        before=2**63 - 1 if before is None else before,
        banks=None if banks is None else list(banks),
        limit=limit,
    )
    nodes = [row["entry"] for row in found]
    return [
        AuditEntry(
            id=node["number"],
            at=instant(node["at"]),
            key=node["key"],
            interface=node["interface"],
            verb=node["verb"],
            bank=node["bank_name"],
            request=node["request"],
            status=node["status"],
        )
        for node in nodes
    ]


async def claim_idempotency_key(
    tx: Transaction, claim: IdempotencyClaim, fingerprint: str, *, bank: str, lease: timedelta
) -> IdempotentReply | None:
    """Claim an idempotency key, or return the reply of the request that holds it."""
    now = utc_now()
    await tx.run("MATCH (r:Reply) WHERE r.at < $old AND r.namespace = $namespace DELETE r", old=now - KEPT)
    found = await tx.one(
        # MERGE locks the node, or the absence of one.
        "MERGE (r:Reply {namespace: $namespace, owner: $owner, token: $token}) SET r.locked = true REMOVE r.locked "
        "WITH r, properties(r) AS now WITH r, now, now.at < $expired OR now.at > $future AS expired "
        "WITH r, now, expired, now.at IS NULL OR (now.status IS NULL AND expired) AS free "
        "FOREACH (_ IN CASE WHEN free THEN [1] ELSE [] END | SET r += $values) "
        "RETURN free, now.fingerprint AS fingerprint, now.body AS body, "
        "CASE WHEN now.holder IS NOT NULL AND NOT expired THEN null ELSE now.status END AS status",
        owner=claim.owner,
        token=claim.key,
        expired=now - lease,
        # A claim of the future was made before the clock was set back.
        future=now + lease,
        values={"holder": claim.holder, "bank_name": bank, "fingerprint": fingerprint, "body": "", "at": now},
    )
    assert found is not None
    if found["free"]:
        return None
    return IdempotentReply(fingerprint=found["fingerprint"], status=found["status"], body=found["body"])


def _named(claim: IdempotencyClaim) -> dict[str, str]:
    return {"owner": claim.owner, "token": claim.key, "holder": claim.holder}


async def renew_idempotency_claim(tx: Transaction, claim: IdempotencyClaim) -> None:
    """Extend the lease of a claim."""
    await tx.run(f"{_HELD} SET r.at = $now", **_named(claim), now=utc_now())


async def complete_request(tx: Transaction, completed: CompletedRequest) -> None:
    """Store the response of a request in the transaction of its effect; raise StoreBusy if its claim was lost."""
    found = await tx.one(
        f"{_HELD} SET r.status = $status, r.body = $body RETURN r.token",
        **_named(completed.claim),
        status=completed.status,
        body=completed.body,
    )
    if found is None:
        raise StoreBusy(
            "Another process took over the request with this idempotency key, for this one stalled too long. Nothing "
            "was written; send the request again."
        )


async def is_completed(tx: Transaction, claim: IdempotencyClaim) -> bool:
    """Return True if the response of a claimed request is stored."""
    found = await tx.one(
        "MATCH (r:Reply {namespace: $namespace, owner: $owner, token: $token}) "
        "WHERE r.holder = $holder AND r.status IS NOT NULL RETURN r.token",
        **_named(claim),
    )
    return found is not None


async def save_reply(tx: Transaction, completed: CompletedRequest) -> None:
    """Store the final response of a request, unless its claim was lost."""
    await tx.run(
        f"{_HELD} SET r.status = $status, r.body = $body, r.at = $now, r.holder = null",
        **_named(completed.claim),
        status=completed.status,
        body=completed.body,
        now=utc_now(),
    )


async def release_idempotency_key(tx: Transaction, claim: IdempotencyClaim) -> None:
    """Delete a claim; if its request has taken effect, the response that was stored with the effect is final."""
    await tx.run(
        f"{_HELD} FOREACH (_ IN CASE WHEN now.status IS NULL THEN [1] ELSE [] END | DELETE r) "
        "FOREACH (_ IN CASE WHEN now.status IS NULL THEN [] ELSE [1] END | SET r.holder = null)",
        **_named(claim),
    )


async def drop_replies(tx: Transaction, bank: str) -> None:
    """Delete the responses about a bank; claims without a response contain nothing of it."""
    await tx.run(
        "MATCH (r:Reply {namespace: $namespace, bank_name: $bank}) WHERE r.status IS NOT NULL DELETE r", bank=bank
    )
