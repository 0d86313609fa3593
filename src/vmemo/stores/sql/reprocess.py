"""A second derivation of a bank: a bank of its own beside the first, filled with its messages, until it takes its
place.

Nothing is moved then but the first one's name: the shadow's rows keep their numbers and are the bank's from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    case,
    exists,
    insert,
    literal,
    null,
    select,
    update,
)

from vmemo.models import BankId, utc_now
from vmemo.models.changes import ForgetTarget, NewJob
from vmemo.models.results import Spending
from vmemo.stores.sql import forget, message_rows, profiles, queue, reprocess_carryover
from vmemo.stores.sql.rows import AnyRow
from vmemo.stores.sql.schema import banks, jobs, messages, spending
from vmemo.stores.sql.timestamps import micros

Unindex = Callable[[Connection, int, forget.Removal], None]
PART = 2000
"""Messages that are copied in one transaction, so that other writers wait for a moment only."""
_COPIED = ("id", "role", "speaker", "content", "timestamp", "document", "key", "tags", "metadata", "recorded_at")


@dataclass(frozen=True, kw_only=True)
class Making:
    """Who derives a shadow, and the space of its vectors."""

    engine: str
    embedder: str
    dimension: int


def name(bank: int) -> BankId:
    """The name of a bank's shadow. Names that users give hold no such character."""
    return BankId(f"\x1freprocess {bank}")


def find(connection: Connection, bank: int) -> AnyRow | None:
    """The row of the bank's shadow, locked after its bank's, or None."""
    return connection.execute(select(banks).where(banks.c.shadow_of == bank).with_for_update()).one_or_none()


def ensure(connection: Connection, bank: int, making: Making, unindex: Unindex) -> int:
    """The number of the shadow made like this: the one begun before, or a new one in place of any other."""
    found = find(connection, bank)
    if found is not None and Making(engine=found.engine, embedder=found.embedder, dimension=found.dimension) == making:
        return found.seq
    drop(connection, bank, unindex)
    own = connection.execute(select(banks.c.profile).where(banks.c.seq == bank)).scalar_one()
    values = {"id": name(bank), "profile": own, "shadow_of": bank, "created_at": micros(utc_now())}
    made = {"engine": making.engine, "embedder": making.embedder, "dimension": making.dimension}
    statement = insert(banks).values({**values, **made}).returning(banks.c.seq)
    seq = connection.execute(statement).scalar_one()
    reprocess_carryover.seed(connection, bank, seq)
    return seq


def drop(connection: Connection, bank: int, unindex: Unindex) -> None:
    """Remove the bank's shadow, if it has one, with all that was derived in it."""
    found = find(connection, bank)
    if found is not None:
        unindex(connection, found.seq, forget.plan(connection, found.seq, ForgetTarget(bank=True)))
        message_rows.clear(connection, found.seq)


def copy(connection: Connection, bank: int, shadow: int, after: int) -> tuple[int | None, list[tuple[int, str]]]:
    """Copy the next messages after a number that the shadow lacks, to be read anew.

    The number to go on after is returned, or None at the end, and the texts of the copies by number.
    """
    waiting = _lacking(bank, shadow) & (messages.c.seq > after)
    seqs = (
        connection.execute(select(messages.c.seq).where(waiting).order_by(messages.c.seq).limit(PART)).scalars().all()
    )
    if not seqs:
        return None, []
    state = case((messages.c.state == "raw", "raw"), else_="pending")
    own = [messages.c[name] for name in _COPIED]
    part = (
        select(literal(shadow, BigInteger), state, *own)
        .where(waiting, messages.c.seq <= seqs[-1])
        .order_by(messages.c.seq)
    )
    copied = insert(messages).from_select(["bank", "state", *_COPIED], part, include_defaults=False)
    rows = connection.execute(copied.returning(messages.c.seq, messages.c.content)).all()
    return (seqs[-1] if len(seqs) == PART else None), [(seq, content) for seq, content in rows]


def wake(connection: Connection, bank: int) -> None:
    """Queue the reading of a bank's unread messages, if there are any."""
    if _any(connection, messages.c.bank, bank, messages.c.state == "pending"):
        queue.enqueue(connection, bank, [NewJob(kind="process")])


def _lacking(bank: int, shadow: int) -> ColumnElement[bool]:
    """Whether a row of messages is one of the bank's that the shadow has no copy of."""
    copies = messages.alias("copies")
    copied = exists().where(copies.c.bank == shadow, copies.c.id == messages.c.id)
    return (messages.c.bank == bank) & ~copied


def whole(connection: Connection, bank: int, shadow: int) -> bool:
    """Whether the shadow has all messages of the bank and has read them."""
    lacking = connection.execute(select(messages.c.seq).where(_lacking(bank, shadow)).limit(1)).first()
    unread = _any(connection, messages.c.bank, shadow, messages.c.state.in_(message_rows.UNREAD))
    queued = _any(connection, jobs.c.bank, shadow, jobs.c.kind.in_(("process", "extract")))
    return lacking is None and not unread and not queued


def _any(connection: Connection, bank: Column[int], number: int, condition: ColumnElement[bool]) -> bool:
    return connection.execute(select(bank).where(bank == number, condition).limit(1)).first() is not None


def replace(connection: Connection, bank: int, shadow: int) -> None:
    """Remove the bank's rows and give its name, profiles, age and costs to the shadow.

    The counters go on beyond those of both, so that no batch begun before lands, and every index is read anew.
    """
    queue.spend(connection, shadow, _spent(connection, bank))
    profiles.hand_on(connection, bank, shadow)
    old, new = (connection.execute(select(banks).where(banks.c.seq == seq)).one() for seq in (bank, shadow))
    message_rows.clear(connection, bank)
    values = {
        "id": old.id,
        "profile": old.profile,
        "created_at": old.created_at,
        "revision": max(old.revision, new.revision),
        "purges": max(old.purges, new.purges),
        "shadow_of": null(),
        "engine": null(),
    }
    connection.execute(update(banks).where(banks.c.seq == shadow).values(values))
    message_rows.bump(connection, shadow, purge=True)


def _spent(connection: Connection, bank: int) -> list[Spending]:
    rows = connection.execute(select(spending).where(spending.c.bank == bank)).mappings()
    return [Spending.of({name: value for name, value in row.items() if name != "bank"}) for row in rows]
