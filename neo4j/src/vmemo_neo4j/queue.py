"""Statements over queued jobs and their spending.

A job is held while its lease runs. An expired lease may be taken by another worker, and is its owner's until then.
A statement that depends on the state of a job first takes the lock of its node, and then reads `properties`: they are
those of the locked node.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, LiteralString

from vmemo.models import BankId, JobKind, utc_now
from vmemo.models.changes import JobFailure, Lease, MessageFailure, NewJob
from vmemo.models.results import Job, Spending
from vmemo.stores.values import dump, instant, storable_error
from vmemo_neo4j import message_nodes
from vmemo_neo4j.connection import Row, Transaction
from vmemo_neo4j.nodes import micros
from vmemo_neo4j.numbers import next_number

EXCLUSIVE = "exclusive"
"""The kind of a job that holds the whole bank; workers are never given it."""
ROUNDS = 8
"""Attempts to lease jobs that other workers take at the same time."""


@dataclass(frozen=True, kw_only=True)
class LeaseQuery:
    """The jobs that a worker leases; as in the port, with the key of the bank."""

    bank: str | None = None
    kinds: Sequence[JobKind] = ()
    limit: int = 1
    due: bool = True
    beside: Sequence[int] = ()
    except_banks: Sequence[BankId] = ()


_JOB: Final[LiteralString] = (
    "j {.number, .kind, .key, .detail, .requests, .attempts, .error, .owner, "
    f"due: {micros('j.due')}, until: {micros('j.until')}, created_at: {micros('j.created_at')}}} AS job, b.name AS bank"
)
_MINE: Final[LiteralString] = "MATCH (j:Job {namespace: $namespace, number: $number}) WHERE j.owner = $owner "
_LOCKED: Final[LiteralString] = "SET j.locked = true REMOVE j.locked WITH j, properties(j) AS now "
_FREE: Final[LiteralString] = "j.owner = null, j.until = null"


async def hold(tx: Transaction, bank: str, owner: str, seconds: float) -> Lease | None:
    """Hold a bank that is locked for some seconds; return None if another process holds it."""
    now = utc_now()
    found = await tx.one(
        "MERGE (j:Job {bank: $bank, kind: $kind, key: ''}) WITH j WHERE coalesce(j.until <= $now, true) "
        "SET j += $values RETURN j.number AS number",
        bank=bank,
        kind=EXCLUSIVE,
        now=now,
        values={
            "namespace": tx.namespace,
            "number": next_number(),
            "detail": "{}",
            "requests": 1,
            "attempts": 0,
            "owner": owner,
            "due": now,
            "created_at": now,
            "until": now + timedelta(seconds=seconds),
        },
    )
    return None if found is None else Lease(job=found["number"], owner=owner, requests=1, seconds=seconds)


async def held_by_another(tx: Transaction, bank: str, leases: Sequence[Lease]) -> bool:
    """Return True if the bank is held by a process that has none of these leases."""
    found = await tx.one(
        "MATCH (j:Job {bank: $bank, kind: $kind, key: ''}) WHERE j.until > $now AND NOT j.number IN $own RETURN j",
        bank=bank,
        kind=EXCLUSIVE,
        now=utc_now(),
        own=[lease.job for lease in leases],
    )
    return found is not None


async def enqueue(tx: Transaction, bank: str, new: Sequence[NewJob]) -> None:
    """Queue jobs of a bank that is locked; one that waits already is requested again."""
    now = utc_now()
    rows = [
        {"kind": job.kind, "key": job.key, "detail": dump(job.detail), "due": job.due or now, "number": next_number()}
        for job in new
    ]
    if not rows:
        return
    # After a failure the job waits until it is due, however often it is requested.
    await tx.run(
        "UNWIND $rows AS row MERGE (j:Job {bank: $bank, kind: row.kind, key: row.key}) "
        "ON CREATE SET j.namespace = $namespace, j.number = row.number, j.detail = row.detail, j.requests = 1, "
        "j.attempts = 0, j.due = row.due, j.created_at = $now "
        "ON MATCH SET j.requests = j.requests + 1, "
        "j.due = CASE WHEN j.attempts > 0 OR j.due <= row.due THEN j.due ELSE row.due END",
        bank=bank,
        rows=rows,
        now=now,
    )


async def lease(tx: Transaction, owner: str, seconds: float, wanted: LeaseQuery) -> list[Job]:
    """Take the oldest free jobs; those that another worker takes meanwhile are left to it."""
    taken: list[Job] = []
    for _ in range(ROUNDS):
        beside = [*wanted.beside, *(job.id for job in taken)]
        found = await _free(tx, replace(wanted, limit=wanted.limit - len(taken), beside=beside))
        if not found:
            break
        taken += await _take(tx, found, owner, seconds)
        if len(taken) == wanted.limit:
            break
    return taken


async def _free(tx: Transaction, wanted: LeaseQuery) -> list[int]:
    """Return the numbers of the jobs that may be taken now, oldest first."""
    found = await tx.rows(
        "MATCH (j:Job {namespace: $namespace}) "
        "WHERE j.due <= $due AND coalesce(j.until <= $now, true) AND ($bank IS NULL OR j.bank = $bank) "
        "AND j.kind <> $exclusive AND ($kinds = [] OR j.kind IN $kinds) AND NOT j.number IN $beside "
        "MATCH (b:Bank {key: j.bank}) WHERE ($bank IS NOT NULL OR b.hidden IS NULL) AND NOT b.name IN $except_banks "
        "RETURN j.number AS number ORDER BY j.due, number LIMIT $limit",
        now=(now := utc_now()),
        due=now if wanted.due else now + timedelta(days=36_500),
        bank=wanted.bank,
        exclusive=EXCLUSIVE,
        kinds=list(wanted.kinds),
        beside=list(wanted.beside),
        except_banks=list(wanted.except_banks),
        limit=wanted.limit,
    )
    return [row["number"] for row in found]


async def _take(tx: Transaction, numbers: Sequence[int], owner: str, seconds: float) -> list[Job]:
    """Lease those jobs that are still free once their nodes are locked."""
    now = utc_now()
    found = await tx.rows(
        "UNWIND $numbers AS number MATCH (j:Job {namespace: $namespace, number: number}) "
        f"{_LOCKED} WHERE coalesce(now.until <= $now, true) SET j.owner = $owner, j.until = $until "
        f"WITH j MATCH (b:Bank {{key: j.bank}}) RETURN {_JOB} ORDER BY j.due, j.number",
        numbers=list(numbers),
        now=now,
        owner=owner,
        until=now + timedelta(seconds=seconds),
    )
    return [_job_of(row) for row in found]


def _job_of(row: Row) -> Job:
    job = row["job"]
    return Job(
        id=job["number"],
        bank=BankId(row["bank"]),
        kind=job["kind"],
        key=job["key"],
        detail=json.loads(job["detail"]),
        requests=job["requests"],
        attempts=job["attempts"],
        error=job["error"],
        due=instant(job["due"]),
        owner=job["owner"],
        until=None if job["until"] is None else instant(job["until"]),
        created_at=instant(job["created_at"]),
    )


async def listed(tx: Transaction, bank: str, kinds: Sequence[JobKind]) -> list[Job]:
    """Return everything queued of a bank, oldest first."""
    found = await tx.rows(
        "MATCH (j:Job {bank: $bank}) WHERE j.kind <> $exclusive AND ($kinds = [] OR j.kind IN $kinds) "
        f"MATCH (b:Bank {{key: $bank}}) RETURN {_JOB} ORDER BY j.due, j.number",
        bank=bank,
        exclusive=EXCLUSIVE,
        kinds=list(kinds),
    )
    return [_job_of(row) for row in found]


async def holds(tx: Transaction, bank: str, lease: Lease) -> bool:
    """Return True if the lease is held; it stays so until the transaction ends."""
    return await _mine(tx, bank, lease) is not None


async def _mine(tx: Transaction, bank: str, lease: Lease) -> Row | None:
    """Lock a leased job and return its properties, or None if the lease was lost."""
    return await tx.one(
        f"{_MINE}{_LOCKED} WHERE now.owner = $owner AND now.bank = $bank "
        "RETURN now.kind AS kind, now.requests AS requests",
        number=lease.job,
        owner=lease.owner,
        bank=bank,
    )


async def renew(tx: Transaction, lease: Lease, seconds: float) -> bool:
    """Extend a lease; return False if it was lost."""
    found = await tx.one(
        f"{_MINE}{_LOCKED} WHERE now.owner = $owner SET j.until = $until RETURN j.number",
        number=lease.job,
        owner=lease.owner,
        until=utc_now() + timedelta(seconds=seconds),
    )
    return found is not None


async def complete(tx: Transaction, bank: str, lease: Lease) -> bool:
    """Delete a finished job, or free it if it was requested again; return False if the lease was lost."""
    job = await _mine(tx, bank, lease)
    if job is None:
        return False
    again = job["requests"] != lease.requests
    if again or (job["kind"] == "process" and await message_nodes.any_pending_message(tx, bank)):
        await tx.run(
            f"{_MINE} SET {_FREE}, j.attempts = 0, j.error = null, j.failed_at = null, j.due = $now",
            number=lease.job,
            owner=lease.owner,
            now=utc_now(),
        )
    else:
        await tx.run(f"{_MINE} DELETE j", number=lease.job, owner=lease.owner)
    return True


async def settle(tx: Transaction, bank: str) -> None:
    """Delete the processing job once no message is pending; a worker that holds it finds nothing to do."""
    await tx.run(
        f"MATCH (j:Job {{bank: $bank, kind: 'process'}}) WHERE NOT EXISTS {{ {message_nodes.PENDING} }} "
        f"{_LOCKED} WHERE coalesce(now.until <= $now, true) DELETE j",
        bank=bank,
        now=utc_now(),
    )


async def fail(tx: Transaction, bank: str, failure: JobFailure) -> None:
    """Record the error of a job on it and on its messages, unless its lease was lost."""
    if await _mine(tx, bank, failure.lease) is None:
        return
    error = storable_error(failure.error)
    await tx.run(
        f"{_MINE} SET {_FREE}, j.attempts = j.attempts + 1, j.error = $error, j.failed_at = $now, j.due = $due",
        number=failure.lease.job,
        owner=failure.lease.owner,
        error=error,
        now=utc_now(),
        due=failure.retry_at,
    )
    await message_nodes.record_failure(tx, bank, MessageFailure(messages=failure.messages, error=error))


async def release(tx: Transaction, bank: str, lease: Lease) -> None:
    """Free a job as it was leased."""
    if await _mine(tx, bank, lease) is not None:
        await tx.run(f"{_MINE} SET {_FREE}", number=lease.job, owner=lease.owner)


async def drop(tx: Transaction, bank: str, numbers: Sequence[int]) -> None:
    """Delete jobs; workers that hold a lease on one lose it."""
    if numbers:
        await tx.run(
            "UNWIND $numbers AS number MATCH (j:Job {namespace: $namespace, number: number}) "
            "WHERE j.bank = $bank DELETE j",
            bank=bank,
            numbers=list(numbers),
        )


async def spend(tx: Transaction, bank: str, spent: Sequence[Spending]) -> None:
    """Add to the spending of a bank that is locked."""
    if spent:
        await tx.run(
            "UNWIND $rows AS row MERGE (s:Spending {bank: $bank, step: row.step, model: row.model}) "
            "SET s.calls = coalesce(s.calls, 0) + row.calls, s.failures = coalesce(s.failures, 0) + row.failures, "
            "s.input_tokens = coalesce(s.input_tokens, 0) + row.input_tokens, "
            "s.output_tokens = coalesce(s.output_tokens, 0) + row.output_tokens, "
            "s.cost = coalesce(s.cost, 0.0) + row.cost",
            bank=bank,
            rows=[item.model_dump() for item in spent],
        )
