"""Queued jobs, spending, and webhooks with the deliveries that a commit queues.

A job is held while its lease runs. An expired lease may be taken by another worker, and is its owner's until then.
A transaction that changes several jobs locks their bank first or skips locked rows; any other changes a single job.
This order prevents deadlocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache

from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, case, delete, func, insert, select, update

from vmemo.models import BankId, JobKind, utc_now
from vmemo.models.changes import Changes, JobFailure, Lease, MessageFailure, NewJob, delivery_jobs, events_of
from vmemo.models.results import Job, Spending
from vmemo.models.webhooks import SignedWebhook
from vmemo.stores.sql import rows, statements
from vmemo.stores.sql.schema import banks, jobs, messages, spending, webhooks
from vmemo.stores.sql.statements import AnyRow, AnySelect, Cell, among, later, listed, of_bank, record_of, row_values
from vmemo.stores.values import dump, micros, storable_error

CHANNEL = "vmemo_work"
"""The PostgreSQL channel that announces queued jobs."""
_FREED = {"owner": None, "until": None}
_NEW = insert(jobs)


def held(now: int | ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a job is leased; never NULL, so that it can be negated."""
    return func.coalesce(jobs.c.until, 0) > now


def _mine(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return jobs.c.seq == lease.job, jobs.c.owner == lease.owner


EXCLUSIVE = "exclusive"
"""The kind of a row that holds the whole bank; workers are never given it."""


def hold(connection: Connection, bank: int, owner: str, seconds: float) -> Lease | None:
    """Hold the bank for some seconds; return None if another process holds it."""
    now = utc_now()
    own = jobs.c.bank == bank, jobs.c.kind == EXCLUSIVE
    if connection.execute(select(jobs.c.seq).where(*own, held(micros(now)))).first() is not None:
        return None
    connection.execute(delete(jobs).where(*own))
    values = {"bank": bank, "kind": EXCLUSIVE, "key": "", "detail": "{}", "requests": 1, "owner": owner}
    times = {"due": micros(now), "created_at": micros(now), "until": micros(now + timedelta(seconds=seconds))}
    seq = connection.execute(insert(jobs).values({**values, **times}).returning(jobs.c.seq)).scalar_one()
    return Lease(job=seq, owner=owner, requests=1, seconds=seconds)


def held_by_another(connection: Connection, bank: int, leases: Sequence[Lease]) -> bool:
    """Return True if the bank is held by a process that has none of these leases."""
    found = {row.seq for row in connection.execute(_HOLDING, {"of_bank": bank, "now": micros(utc_now())}).all()}
    return bool(found - {lease.job for lease in leases})


_OF_BANK, _NOW = of_bank(jobs), bindparam("now", type_=BigInteger)
_HOLDING = select(jobs.c.seq).where(_OF_BANK, jobs.c.kind == EXCLUSIVE, held(_NOW))
_SETTLED = delete(jobs).where(_OF_BANK, jobs.c.kind == "process", ~held(_NOW))

_PENDING = select(messages.c.seq).where(of_bank(messages), messages.c.state == "pending").limit(1)

_LISTED = (
    select(jobs, banks.c.id.label("name"))
    .join(banks, banks.c.seq == jobs.c.bank)
    .where(jobs.c.kind != EXCLUSIVE)
    .order_by(jobs.c.due, jobs.c.seq)
)

_OF_KINDS = among(jobs.c.kind, later("kinds"))
_ALL_OF_BANK, _OF_BANK_AND_KINDS = _LISTED.where(_OF_BANK), _LISTED.where(_OF_BANK, _OF_KINDS)
_AT = bindparam("at", type_=BigInteger)

_ASK = (
    update(jobs)
    .where(of_bank(jobs), jobs.c.kind == bindparam("what"), jobs.c.key == bindparam("which"))
    .values(
        requests=jobs.c.requests + 1,
        # After a failure the job waits until it is due, however often it is requested.
        due=case((jobs.c.attempts > 0, jobs.c.due), (jobs.c.due > _AT, _AT), else_=jobs.c.due),
    )
)


def enqueue(connection: Connection, bank: int, new: Sequence[NewJob]) -> None:
    """Queue jobs; one that waits already is requested again. Idle workers are notified of new jobs that are due."""
    now, fresh = micros(utc_now()), False
    for job in new:
        due = now if job.due is None else micros(job.due)
        known = {"of_bank": bank, "what": job.kind, "which": job.key, "at": due}
        if connection.execute(_ASK, known).rowcount == 0:
            values = {"bank": bank, "kind": job.kind, "key": job.key, "detail": dump(job.detail)}
            connection.execute(_NEW, {**values, "requests": 1, "due": due, "created_at": now})
            fresh |= due <= now
    # A job that waits already was notified, or its worker finds that it was requested again. PostgreSQL commits
    # transactions that notify one at a time, so notifications are kept to those needed.
    if fresh:
        notify(connection)


def notify(connection: Connection) -> None:
    """Wake idle workers when the transaction is committed, where the database can."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_notify(CHANNEL, "")))


def give_back(connection: Connection, taken: Sequence[Job]) -> None:
    """Free jobs that were leased by a transaction of unknown outcome; other leases stay."""
    for job in taken:
        assert job.until is not None
        mine = jobs.c.seq == job.id, jobs.c.owner == job.owner, jobs.c.until == micros(job.until)
        connection.execute(update(jobs).where(*mine).values(_FREED))


def lease(connection: Connection, owner: str, seconds: float, wanted: Mapping[str, Cell], *, due: bool) -> list[Job]:
    """Take the oldest free jobs, skipping rows that another transaction has locked; `wanted` are those of `_free`."""
    now = utc_now()
    until = now + timedelta(seconds=seconds)
    rows = connection.execute(_free(frozenset(wanted), due=due), {**wanted, "now": micros(now)}).all()
    if rows:
        taken = {"numbers": listed([row.seq for row in rows]), "owner": owner, "until": micros(until)}
        connection.execute(_TAKE, taken)
    return [_job_of(row).model_copy(update={"owner": owner, "until": until}) for row in rows]


_TAKE = update(jobs).where(among(jobs.c.seq, later("numbers")))


@cache
def _free(given: frozenset[str], *, due: bool) -> AnySelect:
    """Return the statement of the free jobs for the parameters that are given; `most` is the limit."""
    statement = _LISTED.where(~held(_NOW))
    statement = statement.where(_OF_BANK if "of_bank" in given else banks.c.replaces.is_(None))
    if due:
        statement = statement.where(jobs.c.due <= _NOW)
    if "kinds" in given:
        statement = statement.where(_OF_KINDS)
    if "beside" in given:
        statement = statement.where(~among(jobs.c.seq, later("beside")))
    if "except_banks" in given:
        statement = statement.where(~among(banks.c.id, later("except_banks")))
    most = bindparam("most", type_=BigInteger)
    return statement.limit(most).with_for_update(of=jobs, skip_locked=True)


def _job_of(row: AnyRow) -> Job:
    return record_of(Job, jobs, row, id=row.seq, bank=BankId(row.name))


def jobs_of(connection: Connection, bank: int, kinds: Sequence[JobKind]) -> list[Job]:
    given = {"of_bank": bank, "kinds": listed(kinds)} if kinds else {"of_bank": bank}
    return [_job_of(row) for row in connection.execute(_OF_BANK_AND_KINDS if kinds else _ALL_OF_BANK, given).all()]


def holds(connection: Connection, bank: int, lease: Lease) -> bool:
    """Return True if the lease is held; it stays so until the transaction ends."""
    statement = select(jobs.c.seq).where(jobs.c.bank == bank, *_mine(lease)).with_for_update()
    return connection.execute(statement).first() is not None


def renew(connection: Connection, lease: Lease, seconds: float) -> bool:
    """Extend a lease; return False if it was lost."""
    until = micros(utc_now() + timedelta(seconds=seconds))
    return connection.execute(update(jobs).where(*_mine(lease)).values(until=until)).rowcount > 0


def complete(connection: Connection, bank: int, lease: Lease) -> bool:
    """Delete a finished job, or free it if it was requested again; return False if the lease was lost."""
    mine = jobs.c.bank == bank, *_mine(lease)
    row = connection.execute(select(jobs.c.kind, jobs.c.requests).where(*mine).with_for_update()).one_or_none()
    if row is None:
        return False
    again = row.requests != lease.requests or (row.kind == "process" and _any_pending(connection, bank))
    if again:
        fresh = {"attempts": 0, "error": None, "failed_at": None, "due": micros(utc_now())}
        connection.execute(update(jobs).where(*mine).values(**_FREED, **fresh))
    else:
        connection.execute(delete(jobs).where(*mine))
    return True


def settle(connection: Connection, bank: int) -> None:
    """Delete the processing job once no message is pending; a worker that holds it finds nothing to do."""
    if not _any_pending(connection, bank):
        connection.execute(_SETTLED, {"of_bank": bank, "now": micros(utc_now())})


def _any_pending(connection: Connection, bank: int) -> bool:
    return connection.execute(_PENDING, {"of_bank": bank}).first() is not None


def fail(connection: Connection, bank: int, failure: JobFailure) -> None:
    """Record the error of a job on it and on its messages, unless its lease was lost."""
    error = storable_error(failure.error)
    noted = {"attempts": jobs.c.attempts + 1, "error": error, "failed_at": micros(utc_now())}
    failed = update(jobs).where(jobs.c.bank == bank, *_mine(failure.lease))
    if connection.execute(failed.values(**noted, due=micros(failure.retry_at), **_FREED)).rowcount:
        rows.record_failure(connection, bank, MessageFailure(messages=failure.messages, error=error))


def release(connection: Connection, bank: int, lease: Lease) -> None:
    freed = update(jobs).where(jobs.c.bank == bank, *_mine(lease)).values(_FREED)
    if connection.execute(freed).rowcount:
        notify(connection)


def drop(connection: Connection, bank: int, numbers: Sequence[int]) -> None:
    if numbers:
        connection.execute(delete(jobs).where(jobs.c.bank == bank, among(jobs.c.seq, numbers)))


_COUNTED = ("calls", "failures", "input_tokens", "output_tokens", "cost")

_ADD = (
    update(spending)
    .where(of_bank(spending), spending.c.step == bindparam("on"), spending.c.model == bindparam("by"))
    .values({name: spending.c[name] + bindparam(f"more_{name}") for name in _COUNTED})
)


def spend(connection: Connection, bank: int, spent: Sequence[Spending]) -> None:
    for item in spent:
        counts = item.model_dump(include=set(_COUNTED))
        known = {"of_bank": bank, "on": item.step, "by": item.model}
        if connection.execute(_ADD, {**known, **{f"more_{name}": counts[name] for name in _COUNTED}}).rowcount == 0:
            connection.execute(insert(spending).values(bank=bank, step=item.step, model=item.model, **counts))


_WEBHOOKS = select(webhooks).where(of_bank(webhooks)).order_by(webhooks.c.seq)


def webhooks_of(connection: Connection, bank: int) -> list[SignedWebhook]:
    rows = connection.execute(_WEBHOOKS, {"of_bank": bank})
    return [record_of(SignedWebhook, webhooks, row) for row in rows]


def save_webhooks(connection: Connection, bank: int, changes: Changes) -> None:
    for webhook in changes.webhooks:
        statements.insert_missing(connection, webhooks, row_values(webhooks, bank, webhook))
    for id, at in changes.disabled_webhooks.items():
        same = webhooks.c.bank == bank, webhooks.c.id == id
        connection.execute(update(webhooks).where(*same).values(disabled_at=micros(at)))
    if changes.deleted.webhooks:
        gone = webhooks.c.bank == bank, among(webhooks.c.id, changes.deleted.webhooks)
        connection.execute(delete(webhooks).where(*gone))


def webhook_deliveries(connection: Connection, bank: int, changes: Changes) -> list[NewJob]:
    """Return the jobs that notify the bank's webhooks of changes. Hidden banks have no webhooks."""
    events = events_of(changes)
    return delivery_jobs(webhooks_of(connection, bank), events) if events else []


def hand_over_webhooks(connection: Connection, bank: int, replaced: int) -> None:
    """Give a bank the webhooks of the one it replaces, with the deliveries that are queued."""
    connection.execute(update(webhooks).where(webhooks.c.bank == replaced).values(bank=bank))
    queued = jobs.c.bank == replaced, jobs.c.kind == "webhook"
    connection.execute(update(jobs).where(*queued).values(bank=bank))
