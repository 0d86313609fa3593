"""Reads of maintenance: consecutive episodes that may be joined, and the retention scores of facts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    ScalarSelect,
    func,
    or_,
    select,
)

from vmemo.models import Episode, FactId, RetentionScore
from vmemo.stores.sql import conditions, reads, selects
from vmemo.stores.sql.schema import BASIS, MESSAGE, episode_messages, episodes, facts, messages, sources
from vmemo.stores.values import instant

_MICROSECOND = timedelta(microseconds=1)


def consecutive(
    connection: Connection, bank: int, *, gap: timedelta, largest: int, after: Episode | None, limit: int
) -> list[tuple[Episode, Episode]]:
    """Return pairs of processed episodes, the second of which continues the document of the first."""
    earlier, later, first = episodes.alias("earlier"), episodes.alias("later"), messages.alias("first")
    statement = (
        select(earlier.c.seq, later.c.seq)
        .select_from(later)
        .join(first, (first.c.bank == bank) & (first.c.seq == _opening(bank, later)))
        .join(earlier, (earlier.c.bank == bank) & (earlier.c.seq == _episode_before(bank, first, later, gap=gap)))
        .where(later.c.bank == bank, *selects.ended_after(later, after))
        .where(_size(bank, earlier) + _size(bank, later) <= largest)
        .where(~selects.unprocessed(bank, earlier), ~selects.unprocessed(bank, later))
        .order_by(later.c.ended_at, later.c.id)
        .limit(limit)
    )
    pairs = [(one, other) for one, other in connection.execute(statement).all()]
    found = _by_number(connection, bank, {seq for pair in pairs for seq in pair})
    return [(found[one], found[other]) for one, other in pairs]


def _opening(bank: int, episode: FromClause) -> ScalarSelect[int]:
    """Select the first message of an episode."""
    line, member = messages.alias("line"), episode_messages.alias("opening")
    return (
        select(line.c.seq)
        .join(member, conditions.points(member, "message", line))
        .where(member.c.bank == bank, member.c.episode == episode.c.seq)
        .order_by(line.c.timestamp, line.c.seq)
        .limit(1)
        .correlate(episode)
        .scalar_subquery()
    )


def _episode_before(bank: int, first: FromClause, episode: FromClause, *, gap: timedelta) -> ScalarSelect[int]:
    """Select the other episode with the nearest message before this one in the same document."""
    line, member = messages.alias("line"), episode_messages.alias("before")
    return (
        select(member.c.episode)
        .join(line, conditions.points(member, "message", line))
        .where(
            line.c.bank == bank,
            line.c.document.is_not_distinct_from(first.c.document),
            line.c.timestamp.between(first.c.timestamp - gap // _MICROSECOND, first.c.timestamp),
            or_(line.c.timestamp < first.c.timestamp, line.c.seq < first.c.seq),
            member.c.bank == bank,
            member.c.episode != episode.c.seq,
        )
        .order_by(line.c.timestamp.desc(), line.c.seq.desc())
        .limit(1)
        .correlate(first, episode)
        .scalar_subquery()
    )


def _size(bank: int, episode: FromClause) -> ScalarSelect[int]:
    member = episode_messages.alias()
    inside = member.c.bank == bank, member.c.episode == episode.c.seq
    return select(func.count()).select_from(member).where(*inside).correlate(episode).scalar_subquery()


def _by_number(connection: Connection, bank: int, seqs: Iterable[int]) -> dict[int, Episode]:
    rows = connection.execute(select(episodes).where(conditions.rows(episodes, bank, seqs))).all()
    return {row.seq: episode for row, episode in zip(rows, reads.episodes_of_rows(connection, bank, rows), strict=True)}


def retention_scores(connection: Connection, bank: int, after: FactId | None, limit: int) -> list[RetentionScore]:
    """Return the retention scores of current world and experience facts on which no other fact rests.

    Pinned facts have none.
    """
    holder = facts.alias("holder")
    held = (
        select(holder.c.seq)
        .join(sources, conditions.points(sources, "fact", holder))
        .where(sources.c.bank == bank, sources.c.kind == BASIS, sources.c.source == facts.c.seq)
        .where(holder.c.expired_at.is_(None))
        .correlate(facts)
        .exists()
    )
    last_stated = (
        select(func.max(messages.c.recorded_at))
        .join(sources, conditions.points(sources, "source", messages))
        .where(sources.c.bank == bank, sources.c.kind == MESSAGE, sources.c.fact == facts.c.seq)
        .correlate(facts)
        .scalar_subquery()
    )
    statement = (
        select(facts.c.id, facts.c.importance, facts.c.access_count, func.coalesce(last_stated, facts.c.recorded_at))
        .where(*selects.current(bank), facts.c.network.in_(("world", "experience")), ~held)
        .where(facts.c.pinned == 0, *_mentioned_after(connection, bank, after))
        .order_by(facts.c.mentioned_at, facts.c.seq)
        .limit(limit)
    )
    return [
        RetentionScore(fact=FactId(id), importance=importance, access_count=accesses, stated_at=instant(time))
        for id, importance, accesses, time in connection.execute(statement)
    ]


def _mentioned_after(connection: Connection, bank: int, mark: FactId | None) -> list[ColumnElement[bool]]:
    """Return the conditions for facts after a cursor in the order of mention; the first one uses the index."""
    place = select(facts.c.mentioned_at, facts.c.seq).where(facts.c.bank == bank, facts.c.id == mark)
    row = connection.execute(place).one_or_none() if mark is not None else None
    if row is None:
        return []
    at = facts.c.mentioned_at
    return [at >= row.mentioned_at, or_(at > row.mentioned_at, facts.c.seq > row.seq)]
