"""Reports of a bank: its status and counts by day."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Final, get_args

from vmemo.models import BankId, JobKind, utc_now
from vmemo.models.results import Backlog, DailyCount, ProcessingProblem, Status
from vmemo.ports import BankNotFound
from vmemo.stores.values import UNPROCESSED, instant
from vmemo_neo4j import banks
from vmemo_neo4j.banks import bank_state
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import instant_or_none, micros
from vmemo_neo4j.queue import EXCLUSIVE
from vmemo_neo4j.schema import LINK_TYPES

_KINDS: Final[tuple[JobKind, ...]] = get_args(JobKind)
_LINKS = "|".join(LINK_TYPES.values())
_COUNTS = f"""
RETURN COUNT {{ MATCH (:Message {{bank: $bank}}) }} AS messages,
COUNT {{ MATCH (m:Message {{bank: $bank}}) WHERE m.state IN $unprocessed AND m.timestamp IS NOT NULL }} AS pending,
COUNT {{ MATCH (:Episode {{bank: $bank}}) }} AS episodes,
COUNT {{ MATCH (:Fact {{bank: $bank}}) }} AS facts,
COUNT {{ MATCH (f:Fact {{bank: $bank}}) WHERE f.expired_at IS NOT NULL }} AS closed_facts,
COUNT {{ MATCH (:Entity {{bank: $bank}}) }} AS entities,
COUNT {{ MATCH (:Fact {{bank: $bank}})-[:{_LINKS}]->() }} AS links
"""


async def status(tx: Transaction, bank: BankId) -> Status:
    """Return the status of a bank."""
    state = await bank_state(tx, bank)
    counts = await tx.one(_COUNTS, bank=state.key, unprocessed=list(UNPROCESSED))
    if counts is None:
        raise BankNotFound(bank)
    return Status(
        bank=bank,
        engine="",
        embedder=state.embedder,
        dimension=state.dimension,
        **counts,
        problems=await _problems(tx, state.key),
        backlog=await _backlog(tx, state.key),
        spending=tuple(await banks.spending(tx, state.key)),
        scrub_pending=bool(await banks.dropped(tx)),
    )


async def daily_counts(tx: Transaction, bank: str) -> list[DailyCount]:
    """Return the numbers of messages and facts by the day of their mention."""
    by_day: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for place, (label, time) in enumerate((("Message", "timestamp"), ("Fact", "mentioned_at"))):
        rows = await tx.rows(
            f"MATCH (n:{label} {{bank: $bank}}) WITH datetime.truncate('day', n.{time}).epochSeconds AS day "
            "RETURN day, count(*) AS number",
            bank=bank,
        )
        for row in rows:
            by_day[row["day"]][place] = row["number"]
    return [
        DailyCount(day=datetime.fromtimestamp(day, UTC), messages=messages, facts=facts)
        for day, (messages, facts) in sorted(by_day.items())
    ]


async def _problems(tx: Transaction, bank: str) -> tuple[ProcessingProblem, ...]:
    rows = await tx.table(
        "MATCH (m:Message {bank: $bank}) WHERE m.state IN $unprocessed AND m.timestamp IS NOT NULL "
        "AND m.error IS NOT NULL WITH m.error AS error, count(m) AS messages, max(m.attempts) AS attempts, "
        "min(m.failed_at) AS since ORDER BY since, error",
        f"error, messages, attempts, {micros('since')}",
        bank=bank,
        unprocessed=list(UNPROCESSED),
    )
    return tuple(
        ProcessingProblem(error=error, messages=messages, attempts=attempts, since=instant(since))
        for error, messages, attempts, since in rows
    )


async def _backlog(tx: Transaction, bank: str) -> tuple[Backlog, ...]:
    """Return the numbers of jobs by kind, each with the latest error."""
    rows = await tx.table(
        "MATCH (j:Job {bank: $bank}) WHERE j.kind <> $exclusive "
        "WITH j, coalesce(j.until > $now, false) AS running ORDER BY j.failed_at, j.number",
        f"j.kind, running, j.error, j.failed_at IS NOT NULL, {micros('j.due')}",
        bank=bank,
        exclusive=EXCLUSIVE,
        now=utc_now(),
    )
    found: list[Backlog] = []
    for kind in _KINDS:
        jobs = [job for own, *job in rows if own == kind]
        free = [job for job in jobs if not job[0]]
        failed = sum(job[1] is not None for job in free)
        if jobs:
            found.append(
                Backlog(
                    kind=kind,
                    waiting=len(free) - failed,
                    running=len(jobs) - len(free),
                    failed=failed,
                    error=next((error for _, error, has_failed, _ in reversed(jobs) if has_failed and error), None),
                    next_at=instant_or_none(min((due for *_, due in free), default=None)),
                )
            )
    return tuple(found)


async def damage(tx: Transaction) -> list[str]:
    """Return the indexes of the graph that failed, with their state."""
    found = await tx.rows(
        "SHOW INDEXES YIELD name, state WHERE name STARTS WITH 'vmemo_' AND state = 'FAILED' RETURN name ORDER BY name"
    )
    return [f"the index {row['name']} failed" for row in found]
