"""Queued jobs, the spending of a bank, and webhooks with the deliveries that a commit queues.

A job is held while its lease runs. An expired lease may be taken by another worker, and is its owner's until then.
A statement that depends on the state of a job first takes the lock of its node, and then reads `properties`: they are
those of the locked node.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from datetime import timedelta
from threading import Lock
from typing import Final

from vmemo.models import BankId, JobKind, utc_now
from vmemo.models.changes import Changes, JobFailure, Lease, MessageFailure, NewJob, delivery_jobs, events_of
from vmemo.models.results import Job, Spending
from vmemo.models.webhooks import SignedWebhook
from vmemo.stores.values import dump, instant, storable_error
from vmemo_neo4j import messages
from vmemo_neo4j.connection import Row, Transaction
from vmemo_neo4j.nodes import Cells, instant_or_none, micros

EXCLUSIVE = "exclusive"
"""The kind of a job that holds the whole bank; workers are never given it."""
NUMBERS_PER_MICROSECOND = 4
_lock = Lock()
_last = 0
ROUNDS = 8
"""Attempts to lease jobs that other workers take at the same time."""


def next_number() -> int:
    """Return a number that is larger than all before it in this process, and that hardly any other process has.

    It comes from the clock, so that no counter makes transactions wait for one another, and stays below 2**53, where
    other languages begin to round.
    """
    global _last
    with _lock:
        now = time.time_ns() // 1000 * NUMBERS_PER_MICROSECOND
        _last = max(_last + 1, now + random.randrange(NUMBERS_PER_MICROSECOND))
        return _last


_JOB: Final = (
    "j {.kind, .key, .requests, .attempts, .error, .owner}, j.number, b.name, j.detail, "
    f"{micros('j.due')}, {micros('j.until')}, {micros('j.created_at')}"
)
_AMOUNTS: Final = ("calls", "failures", "input_tokens", "output_tokens", "cost")
_MINE: Final = "MATCH (j:Job {namespace: $namespace, number: $number}) WHERE j.owner = $owner "
_LOCKED: Final = "SET j.locked = true REMOVE j.locked WITH j, properties(j) AS now "
_FREE: Final = "j.owner = null, j.until = null"


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


async def lease(  # noqa: PLR0913 - each narrows the selection
    tx: Transaction,
    owner: str,
    seconds: float,
    *,
    bank: str | None,
    kinds: Sequence[JobKind],
    limit: int,
    due: bool,
    beside: Sequence[int],
    except_banks: Sequence[BankId],
) -> list[Job]:
    """Take the oldest free jobs; those that another worker takes meanwhile are left to it."""
    taken: list[Job] = []
    for _ in range(ROUNDS):
        now = utc_now()
        found = await tx.table(
            "MATCH (j:Job {namespace: $namespace}) "
            "WHERE j.due <= $due AND coalesce(j.until <= $now, true) AND ($bank IS NULL OR j.bank = $bank) "
            "AND j.kind <> $exclusive AND ($kinds = [] OR j.kind IN $kinds) AND NOT j.number IN $beside "
            "MATCH (b:Bank {key: j.bank}) WHERE ($bank IS NOT NULL OR b.hidden IS NULL) AND NOT b.name IN $others "
            f"WITH j ORDER BY j.due, j.number LIMIT $limit {_LOCKED} "
            "WITH j, now, coalesce(now.until <= $now, true) AS free "
            "FOREACH (one IN CASE WHEN free THEN [1] ELSE [] END | SET j.owner = $owner, j.until = $until) "
            "WITH j, free MATCH (b:Bank {key: j.bank}) WITH j, b, free ORDER BY j.due, j.number",
            f"free, {_JOB}",
            now=now,
            due=now if due else now + timedelta(days=36_500),
            bank=bank,
            exclusive=EXCLUSIVE,
            kinds=list(kinds),
            beside=[*beside, *(job.id for job in taken)],
            others=list(except_banks),
            limit=limit - len(taken),
            owner=owner,
            until=now + timedelta(seconds=seconds),
        )
        taken += [_job_of(job) for free, *job in found if free]
        if not found or len(taken) == limit:
            break
    return taken


def _job_of(row: Cells) -> Job:
    job, number, bank, detail, due, until, created_at = row
    return Job(
        **job,
        id=number,
        bank=BankId(bank),
        detail=json.loads(detail),
        due=instant(due),
        until=instant_or_none(until),
        created_at=instant(created_at),
    )


async def listed(tx: Transaction, bank: str, kinds: Sequence[JobKind]) -> list[Job]:
    """Return everything queued of a bank, oldest first."""
    found = await tx.table(
        "MATCH (j:Job {bank: $bank}) WHERE j.kind <> $exclusive AND ($kinds = [] OR j.kind IN $kinds) "
        "MATCH (b:Bank {key: $bank}) WITH j, b ORDER BY j.due, j.number",
        _JOB,
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
    if again or (job["kind"] == "process" and await messages.any_pending(tx, bank)):
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
        f"MATCH (j:Job {{bank: $bank, kind: 'process'}}) WHERE NOT EXISTS {{ {messages.PENDING} }} "
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
    await messages.record_failure(tx, bank, MessageFailure(messages=failure.messages, error=error))


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
        added = ", ".join(f"s.{name} = coalesce(s.{name}, 0) + row.{name}" for name in _AMOUNTS)
        await tx.run(
            f"UNWIND $rows AS row MERGE (s:Spending {{bank: $bank, step: row.step, model: row.model}}) SET {added}",
            bank=bank,
            rows=[item.model_dump() for item in spent],
        )


async def webhooks(tx: Transaction, bank: str) -> list[SignedWebhook]:
    """Return the webhooks of a bank, oldest first."""
    found = await tx.table(
        "MATCH (w:Webhook {bank: $bank}) WITH w ORDER BY w.seq",
        f"w {{.id, .url, .secret, .events}}, {micros('w.created_at')}, {micros('w.disabled_at')}",
        bank=bank,
    )
    return [
        SignedWebhook.of({**webhook, "created_at": instant(created), "disabled_at": instant_or_none(disabled)})
        for webhook, created, disabled in found
    ]


async def save_webhooks(tx: Transaction, bank: str, changes: Changes) -> None:
    """Add, disable and delete webhooks."""
    webhook = "UNWIND $rows AS row MATCH (w:Webhook {bank: $bank, id: row[0]}) "
    if changes.webhooks:
        rows = [{**dict(webhook), "events": list(webhook.events), "seq": next_number()} for webhook in changes.webhooks]
        added = "UNWIND $rows AS row MERGE (w:Webhook {bank: $bank, id: row.id}) ON CREATE SET w += row"
        await tx.run(added, bank=bank, rows=rows)
    if changes.disabled_webhooks:
        rows = [[id, at] for id, at in changes.disabled_webhooks.items()]
        await tx.run(webhook + "SET w.disabled_at = row[1]", bank=bank, rows=rows)
    if changes.deleted.webhooks:
        await tx.run(webhook + "DELETE w", bank=bank, rows=[[id] for id in changes.deleted.webhooks])


async def deliveries(tx: Transaction, bank: str, changes: Changes) -> list[NewJob]:
    """Return the jobs that notify the bank's webhooks of changes. Hidden banks have no webhooks."""
    events = events_of(changes)
    return delivery_jobs(await webhooks(tx, bank), events) if events else []


async def hand_over_webhooks(tx: Transaction, bank: str, replaced: str) -> None:
    """Give a bank the webhooks of the one it replaces, with the deliveries that are queued."""
    await tx.run("MATCH (w:Webhook {bank: $replaced}) SET w.bank = $bank", bank=bank, replaced=replaced)
    queued = "MATCH (j:Job {bank: $replaced, kind: 'webhook'}) SET j.bank = $bank"
    await tx.run(queued, bank=bank, replaced=replaced)
