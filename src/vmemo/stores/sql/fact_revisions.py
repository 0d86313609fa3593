"""Updates of stored facts: closures, added sources, successors and confidence changes.

Everything here runs inside the caller's one transaction, after the batch's own facts are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import BigInteger, Connection, Integer, bindparam, func, select, update

from vmemo.errors import InvalidInput
from vmemo.models import ConfidenceChange, FactId
from vmemo.models.changes import AddedSource, Changes, FactClosure
from vmemo.stores.sql import conditions
from vmemo.stores.sql.batch_rows import number_of
from vmemo.stores.sql.bulk import Seqs, insert_all, seqs_of
from vmemo.stores.sql.conditions import among
from vmemo.stores.sql.schema import EPISODE, MESSAGE, confidence_changes, episodes, facts, messages, sources
from vmemo.stores.values import dump, instant, micros, micros_or_none, names_of


def close(connection: Connection, bank: int, closings: Sequence[FactClosure], revision: int) -> None:
    """Set when facts stopped being true or believed; an end that is not given stays as it is."""
    known = _numbers(connection, bank, (closing.fact for closing in closings))
    rows = [
        {
            "number": known[closing.fact],
            "of": bank,
            "invalid": micros_or_none(closing.invalid_at),
            "expired": micros_or_none(closing.expired_at),
            "at": revision,
        }
        for closing in closings
    ]
    if rows:
        connection.execute(_CLOSE, rows)


_CLOSE = (
    update(facts)
    .where(
        conditions.bank_of(facts) == bindparam("of", type_=BigInteger),
        facts.c.seq == bindparam("number", type_=BigInteger),
    )
    .values(
        invalid_at=func.coalesce(bindparam("invalid", type_=BigInteger), facts.c.invalid_at),
        expired_at=func.coalesce(bindparam("expired", type_=BigInteger), facts.c.expired_at),
        revision=bindparam("at", type_=Integer),
    )
)


def source(connection: Connection, bank: int, sourced: Sequence[AddedSource]) -> None:
    """Add messages and episodes that state a fact; known ones stay as they are."""
    if not sourced:
        return
    stated = _numbers(connection, bank, (item.fact for item in sourced))
    said = seqs_of(connection, messages, bank, (id for item in sourced for id in item.messages))
    held = seqs_of(connection, episodes, bank, (id for item in sourced for id in item.episodes))
    new = {
        (stated[item.fact], kind, number_of(known, what, id))
        for item in sourced
        for kind, what, known, ids in (
            (MESSAGE, "message", said, item.messages),
            (EPISODE, "episode", held, item.episodes),
        )
        for id in ids
    }
    there = select(sources.c.fact, sources.c.kind, sources.c.source).where(
        sources.c.bank == bank, among(sources.c.fact, stated.values())
    )
    new -= {(fact, kind, origin) for fact, kind, origin in connection.execute(there)}
    rows = [{"bank": bank, "fact": fact, "kind": kind, "source": origin} for fact, kind, origin in sorted(new)]
    insert_all(connection, sources, rows)


def succeed(connection: Connection, bank: int, successors: Mapping[FactId, FactId], revision: int) -> None:
    """Let stored facts supersede others; one that supersedes a fact already stays as it is."""
    known = _numbers(connection, bank, (*successors, *successors.values()))
    for new, old in successors.items():
        if new == old:
            raise InvalidInput(f"The fact {new!r} can't replace itself. Nothing was written.")
        statement = update(facts).where(conditions.row(facts, bank, known[new]), facts.c.supersedes.is_(None))
        connection.execute(statement.values(supersedes=old, revision=revision))


def reopen(connection: Connection, bank: int, reopened: Sequence[FactId], revision: int) -> None:
    """Remove the ends of facts."""
    if reopened:
        ended = facts.c.bank == bank, among(facts.c.id, reopened)
        connection.execute(update(facts).where(*ended).values(invalid_at=None, expired_at=None, revision=revision))


def rewire(connection: Connection, bank: int, rewired: Mapping[FactId, FactId | None], revision: int) -> None:
    """Let stored facts replace other facts than before, or none."""
    for new, old in rewired.items():
        statement = update(facts).where(facts.c.bank == bank, facts.c.id == new)
        connection.execute(statement.values(supersedes=old, revision=revision))


def mark(connection: Connection, bank: int, changes: Changes, revision: int) -> None:
    """Pin and unpin facts, and set their expiry."""
    for id, pinned in changes.pinned.items():
        connection.execute(update(facts).where(facts.c.bank == bank, facts.c.id == id).values(pinned=int(pinned)))
    for id, time in changes.expiries.items():
        limited = update(facts).where(facts.c.bank == bank, facts.c.id == id)
        connection.execute(limited.values(expires_at=micros_or_none(time), revision=revision))


def move(connection: Connection, bank: int, new: Sequence[ConfidenceChange]) -> None:
    """Record confidence changes and set the confidence of their opinions."""
    if not new:
        return
    known = _numbers(connection, bank, (id for step in new for id in (step.opinion, *step.evidence)))
    _demand_opinions(connection, bank, [(step.opinion, known[step.opinion]) for step in new])
    insert_all(connection, confidence_changes, [_history_row(bank, known[step.opinion], step) for step in new])
    for step in new:
        opinion = update(facts).where(conditions.row(facts, bank, known[step.opinion]))
        connection.execute(opinion.values(confidence=step.after))


def record_history(connection: Connection, bank: int, past: Sequence[ConfidenceChange]) -> None:
    """Record earlier confidence changes: the opinions have their confidence already, and evidence may be deleted."""
    opinions = seqs_of(connection, facts, bank, (step.opinion for step in past))
    rows = [_history_row(bank, number_of(opinions, "fact", step.opinion), step) for step in past]
    insert_all(connection, confidence_changes, rows)


def _history_row(bank: int, opinion: int, step: ConfidenceChange) -> dict[str, int | float | str | None]:
    return {
        "bank": bank,
        "fact": opinion,
        "stance": step.stance,
        "before": step.before,
        "after": step.after,
        "evidence": dump(step.evidence),
        "reason": step.reason,
        "at": micros(step.at),
    }


def read_confidence_changes(connection: Connection, bank: int, opinion: FactId | None) -> list[ConfidenceChange]:
    """Return the confidence changes of one opinion or of all, oldest first."""
    statement = (
        select(facts.c.id, confidence_changes)
        .join(facts, conditions.points(confidence_changes, "fact", facts))
        .where(confidence_changes.c.bank == bank)
        .order_by(confidence_changes.c.at, confidence_changes.c.seq)
    )
    if opinion is not None:
        statement = statement.where(facts.c.bank == bank, facts.c.id == opinion)
    return [
        ConfidenceChange(
            opinion=FactId(row.id),
            stance=row.stance,
            before=row.before,
            after=row.after,
            evidence=tuple(FactId(id) for id in names_of(row.evidence)),
            reason=row.reason,
            at=instant(row.at),
        )
        for row in connection.execute(statement)
    ]


def _numbers(connection: Connection, bank: int, ids: Iterable[FactId]) -> Seqs:
    """Return the numbers of facts; raise InvalidInput if one does not exist."""
    wanted = list(ids)
    known = seqs_of(connection, facts, bank, wanted)
    for id in wanted:
        number_of(known, "fact", id)
    return known


def _demand_opinions(connection: Connection, bank: int, of: Sequence[tuple[FactId, int]]) -> None:
    moved = conditions.rows(facts, bank, [seq for _, seq in of])
    wrong = set(connection.execute(select(facts.c.seq).where(moved, facts.c.network != "opinion")).scalars())
    for id, seq in of:
        if seq in wrong:
            raise InvalidInput(f"The fact {id!r} is no opinion, so it has no confidence to move. Nothing was written.")
