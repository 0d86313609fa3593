"""Statistics of a bank: its records, problems, backlog and spending, and the access counts of its facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, LiteralString, get_args

from vmemo.models import BankId, FactId, JobKind, utc_now
from vmemo.models.results import Backlog, DailyCount, ProcessingProblem, Status
from vmemo.ports import BankNotFound
from vmemo.stores.values import UNPROCESSED, instant
from vmemo_neo4j import bank_nodes
from vmemo_neo4j.bank_state import bank_state
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import micros
from vmemo_neo4j.queue import EXCLUSIVE
from vmemo_neo4j.schema import LINK_TYPES

_KINDS: Final[tuple[JobKind, ...]] = get_args(JobKind)
_LINKS: LiteralString = "|".join(LINK_TYPES.values())
_COUNTS: LiteralString = f"""
RETURN COUNT {{ MATCH (:Message {{bank: $bank}}) }} AS messages,
COUNT {{ MATCH (m:Message {{bank: $bank}}) WHERE m.state IN $unprocessed AND m.timestamp IS NOT NULL }} AS pending,
COUNT {{ MATCH (:Episode {{bank: $bank}}) }} AS episodes,
COUNT {{ MATCH (:Fact {{bank: $bank}}) }} AS facts,
COUNT {{ MATCH (f:Fact {{bank: $bank}}) WHERE f.expired_at IS NOT NULL }} AS closed_facts,
COUNT {{ MATCH (:Entity {{bank: $bank}}) }} AS entities,
COUNT {{ MATCH (:Fact {{bank: $bank}})-[:{_LINKS}]->() }} AS links
"""


async def touch(tx: Transaction, bank: str, counts: Mapping[FactId, int]) -> None:
    """Add to access counts. The bank's revision stays: no search depends on them."""
    if counts:
        await tx.run(
            "UNWIND $rows AS row MATCH (f:Fact {bank: $bank, id: row[0]}) SET f.access_count = f.access_count + row[1]",
            bank=bank,
            rows=[[fact, times] for fact, times in counts.items()],
        )


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
        spending=tuple(await bank_nodes.spending(tx, state.key)),
        scrub_pending=bool(await bank_nodes.dropped(tx)),
    )


async def daily_counts(tx: Transaction, bank: str) -> list[DailyCount]:
    """Return the numbers of messages and facts by the day of their mention."""
    by_day: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    statements: tuple[LiteralString, LiteralString] = (
        "MATCH (n:Message {bank: $bank}) WITH datetime.truncate('day', n.timestamp).epochSeconds AS day "
        "RETURN day, count(*) AS number",
        "MATCH (n:Fact {bank: $bank}) WITH datetime.truncate('day', n.mentioned_at).epochSeconds AS day "
        "RETURN day, count(*) AS number",
    )
    for place, statement in enumerate(statements):
        for row in await tx.rows(statement, bank=bank):
            by_day[row["day"]][place] = row["number"]
    return [
        DailyCount(day=datetime.fromtimestamp(day, UTC), messages=messages, facts=facts)
        for day, (messages, facts) in sorted(by_day.items())
    ]


async def _problems(tx: Transaction, bank: str) -> tuple[ProcessingProblem, ...]:
    rows = await tx.rows(
        "MATCH (m:Message {bank: $bank}) WHERE m.state IN $unprocessed AND m.timestamp IS NOT NULL "
        "AND m.error IS NOT NULL WITH m.error AS error, count(m) AS messages, max(m.attempts) AS attempts, "
        f"min(m.failed_at) AS since RETURN error, messages, attempts, {micros('since')} AS since ORDER BY since, error",
        bank=bank,
        unprocessed=list(UNPROCESSED),
    )
    return tuple(
        ProcessingProblem(
            error=row["error"], messages=row["messages"], attempts=row["attempts"], since=instant(row["since"])
        )
        for row in rows
    )


async def _backlog(tx: Transaction, bank: str) -> tuple[Backlog, ...]:
    rows = await tx.rows(
        "MATCH (j:Job {bank: $bank}) WHERE j.kind <> $exclusive "
        "WITH j, j.until IS NOT NULL AND j.until > $now AS running ORDER BY j.failed_at, j.number "
        "WITH j.kind AS kind, sum(CASE WHEN NOT running AND j.error IS NULL THEN 1 ELSE 0 END) AS waiting, "
        "sum(CASE WHEN running THEN 1 ELSE 0 END) AS running, "
        "sum(CASE WHEN NOT running AND j.error IS NOT NULL THEN 1 ELSE 0 END) AS failed, "
        "collect(CASE WHEN j.failed_at IS NOT NULL THEN j.error END) AS errors, "
        "min(CASE WHEN NOT running THEN j.due END) AS due "
        f"RETURN kind, waiting, running, failed, errors[-1] AS error, {micros('due')} AS due",
        bank=bank,
        exclusive=EXCLUSIVE,
        now=utc_now(),
    )
    found = [
        Backlog(
            kind=row["kind"],
            waiting=row["waiting"],
            running=row["running"],
            failed=row["failed"],
            error=row["error"],
            next_at=None if row["due"] is None else instant(row["due"]),
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda backlog: _KINDS.index(backlog.kind)))
