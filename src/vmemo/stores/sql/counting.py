"""Counts: what a bank holds, what troubles it, and how often its facts were recalled."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, Table, bindparam, func, select, update

from vmemo.models import BankId, FactId, Status, Trouble
from vmemo.stores.sql.archive import bank_state, find_bank
from vmemo.stores.sql.clock import instant
from vmemo.stores.sql.forgetting import SCRUB
from vmemo.stores.sql.schema import entities, episodes, facts, links, messages, notes


def touch(connection: Connection, bank: int, counts: Mapping[FactId, int]) -> None:
    """Add to access counts. The bank's revision stays: no search depends on them."""
    statement = (
        update(facts)
        .where(facts.c.bank == bank, facts.c.id == bindparam("fact"))
        .values(access_count=facts.c.access_count + bindparam("times"))
    )
    if counts:
        connection.execute(statement, [{"fact": fact, "times": times} for fact, times in counts.items()])


def status(connection: Connection, bank: BankId) -> Status:
    """What a bank holds and what is left to do."""
    number = bank_state(connection, bank).seq
    stored = find_bank(connection, bank)
    assert stored is not None
    waiting = messages.c.state == "pending"
    return Status(
        bank=bank,
        engine="",
        embedder=stored.embedder,
        dimension=stored.dimension,
        messages=_count(connection, messages, number),
        pending=connection.execute(
            select(func.count()).select_from(messages).where(messages.c.bank == number, waiting)
        ).scalar_one(),
        episodes=_count(connection, episodes, number),
        facts=_count(connection, facts, number),
        closed_facts=connection.execute(
            select(func.count()).select_from(facts).where(facts.c.bank == number, facts.c.expired_at.is_not(None))
        ).scalar_one(),
        entities=_count(connection, entities, number),
        links=_count(connection, links, number),
        troubles=_troubles(connection, number),
        scrub_pending=connection.execute(select(notes.c.value).where(notes.c.name == SCRUB)).first() is not None,
    )


def _count(connection: Connection, table: Table, bank: int) -> int:
    return connection.execute(select(func.count()).select_from(table).where(table.c.bank == bank)).scalar_one()


def _troubles(connection: Connection, bank: int) -> tuple[Trouble, ...]:
    statement = (
        select(messages.c.error, func.count(), func.max(messages.c.attempts), func.min(messages.c.failed_at))
        .where(messages.c.bank == bank, messages.c.state == "pending", messages.c.error.is_not(None))
        .group_by(messages.c.error)
        .order_by(func.min(messages.c.failed_at))
    )
    return tuple(
        Trouble(error=error, messages=count, attempts=attempts, since=instant(since))
        for error, count, attempts, since in connection.execute(statement)
    )
