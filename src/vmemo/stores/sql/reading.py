"""Reading facts, episodes, entities and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Select, Table, bindparam, func, select, union_all

from vmemo.models import BankId, Entity, EntityId, Episode, EpisodeId, Fact, FactId, Link, Mention, MessageId
from vmemo.stores.sql.archive import chunks
from vmemo.stores.sql.clock import micros
from vmemo.stores.sql.rows import AnyRow, entity_of, episode_of, fact_of
from vmemo.stores.sql.schema import (
    BASIS,
    CONTEXT,
    EPISODE,
    MESSAGE,
    entities,
    episode_messages,
    episodes,
    facts,
    links,
    mentions,
    messages,
    sources,
)
from vmemo.stores.sql.writing import LINK_KINDS


def rows_by_id(connection: Connection, table: Table, bank: int, ids: Sequence[str]) -> list[AnyRow]:
    """Rows in the order of the ids; missing ones are left out."""
    found: dict[str, AnyRow] = {}
    for part in chunks(ids):
        rows = connection.execute(select(table).where(table.c.bank == bank, table.c.id.in_(part)))
        found.update((row.id, row) for row in rows)
    return [found[id] for id in ids if id in found]


def rows_after(connection: Connection, table: Table, bank: int, after: str | None, limit: int) -> list[AnyRow]:
    """A page of rows in the order they were stored."""
    statement = select(table).where(table.c.bank == bank)
    if after is not None:
        start = select(table.c.seq).where(table.c.bank == bank, table.c.id == after).scalar_subquery()
        statement = statement.where(table.c.seq > func.coalesce(start, -1))
    return list(connection.execute(statement.order_by(table.c.seq).limit(limit)))


def facts_of(
    connection: Connection, bank: int, name: BankId, rows: Sequence[AnyRow], vectors: Mapping[int, tuple[float, ...]]
) -> list[Fact]:
    """Facts of these rows with mentions and sources."""
    seqs = [row.seq for row in rows]
    mentioned = _mentions(connection, bank, seqs)
    origins = _sources(connection, bank, seqs)
    return [fact_of(row, name, mentioned[row.seq], origins[row.seq], vectors.get(row.seq)) for row in rows]


def _mentions(connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, list[Mention]]:
    found: dict[int, list[Mention]] = defaultdict(list)
    known: dict[str, Mention] = {}
    for part in chunks(seqs):
        statement = (
            select(mentions.c.fact, entities.c.id, entities.c.name, entities.c.type)
            .join(entities, entities.c.seq == mentions.c.entity)
            .where(mentions.c.bank == bank, mentions.c.fact.in_(part))
        )
        for fact, id, name, type in connection.execute(statement).tuples():
            if id not in known:
                known[id] = Mention.model_construct(id=EntityId(id), name=name, type=type)
            found[fact].append(known[id])
    return found


def _sources(connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[list[str], ...]]:
    found: dict[int, tuple[list[str], ...]] = defaultdict(lambda: ([], [], [], []))
    for part in chunks(seqs):
        for fact, kind, id in connection.execute(_SOURCES, {"bank": bank, "facts": list(part)}).tuples():
            found[fact][kind].append(id)
    return found


def _source_names(kind: int, table: Table) -> Select[int, int, str]:
    return (
        select(sources.c.fact, sources.c.kind, table.c.id)
        .join(table, table.c.seq == sources.c.source)
        .where(
            sources.c.bank == bindparam("bank", type_=Integer),
            sources.c.fact.in_(bindparam("facts", expanding=True)),
            sources.c.kind == kind,
        )
    )


_SOURCES = union_all(
    _source_names(MESSAGE, messages),
    _source_names(CONTEXT, messages),
    _source_names(EPISODE, episodes),
    _source_names(BASIS, facts),
)


def episodes_of(connection: Connection, bank: int, rows: Sequence[AnyRow]) -> list[Episode]:
    """Episodes of these rows with their messages in order of time."""
    members: dict[int, list[MessageId]] = defaultdict(list)
    for part in chunks([row.seq for row in rows]):
        statement = (
            select(episode_messages.c.episode, messages.c.id)
            .join(messages, messages.c.seq == episode_messages.c.message)
            .where(episode_messages.c.bank == bank, episode_messages.c.episode.in_(part))
            .order_by(messages.c.timestamp, messages.c.seq)
        )
        for episode, id in connection.execute(statement).tuples():
            members[episode].append(MessageId(id))
    return [episode_of(row, members[row.seq]) for row in rows]


def titles(connection: Connection, bank: int, ids: Sequence[EpisodeId]) -> dict[EpisodeId, str]:
    """Titles of episodes."""
    found: dict[EpisodeId, str] = {}
    for part in chunks(ids):
        statement = select(episodes.c.id, episodes.c.title).where(episodes.c.bank == bank, episodes.c.id.in_(part))
        found.update((EpisodeId(id), title) for id, title in connection.execute(statement).tuples())
    return found


def holding(connection: Connection, bank: int, message: MessageId) -> Episode | None:
    """The episode that holds a message."""
    statement = (
        select(episodes)
        .join(episode_messages, episode_messages.c.episode == episodes.c.seq)
        .join(messages, messages.c.seq == episode_messages.c.message)
        .where(episode_messages.c.bank == bank, messages.c.bank == bank, messages.c.id == message)
        .limit(1)
    )
    found = episodes_of(connection, bank, list(connection.execute(statement)))
    return found[0] if found else None


def fact_rows_of(connection: Connection, bank: int, episode: EpisodeId) -> list[AnyRow]:
    """Rows of an episode's facts."""
    statement = (
        select(facts)
        .join(sources, (sources.c.fact == facts.c.seq) & (sources.c.kind == EPISODE))
        .join(episodes, episodes.c.seq == sources.c.source)
        .where(sources.c.bank == bank, episodes.c.bank == bank, episodes.c.id == episode)
        .order_by(facts.c.seq)
    )
    return list(connection.execute(statement))


def last_episode(connection: Connection, bank: int) -> Episode | None:
    """The episode that ended last."""
    statement = (
        select(episodes)
        .where(episodes.c.bank == bank)
        .order_by(episodes.c.ended_at.desc(), episodes.c.seq.desc())
        .limit(1)
    )
    found = episodes_of(connection, bank, list(connection.execute(statement)))
    return found[0] if found else None


def entities_of(connection: Connection, bank: int, rows: Sequence[AnyRow]) -> list[Entity]:
    """Entities of these rows with how many facts mention each."""
    counts: dict[int, int] = {}
    for part in chunks([row.seq for row in rows]):
        statement = (
            select(mentions.c.entity, func.count())
            .where(mentions.c.bank == bank, mentions.c.entity.in_(part))
            .group_by(mentions.c.entity)
        )
        counts.update(connection.execute(statement).tuples().all())
    return [entity_of(row, counts.get(row.seq, 0)) for row in rows]


def links_of(connection: Connection, bank: int, ids: Sequence[FactId] | None) -> list[Link]:
    """Stored links that leave these facts, or all."""
    origin, target = facts.alias("origin"), facts.alias("target")
    statement = (
        select(origin.c.id, target.c.id, links.c.kind, links.c.weight)
        .join(origin, origin.c.seq == links.c.source)
        .join(target, target.c.seq == links.c.target)
        .where(links.c.bank == bank)
        .order_by(links.c.source, links.c.target, links.c.kind)
    )
    if ids is None:
        return [_link(*row) for row in connection.execute(statement).tuples()]
    return [
        _link(*row)
        for part in chunks(ids)
        for row in connection.execute(statement.where(origin.c.bank == bank, origin.c.id.in_(part))).tuples()
    ]


def _link(source: str, target: str, kind: int, weight: float) -> Link:
    return Link(source=FactId(source), target=FactId(target), kind=LINK_KINDS[kind], weight=weight)


def successors(connection: Connection, bank: int, fact: FactId) -> list[AnyRow]:
    """Rows of the facts that supersede this one."""
    statement = select(facts).where(facts.c.bank == bank, facts.c.supersedes == fact).order_by(facts.c.seq)
    return list(connection.execute(statement))


def recent(connection: Connection, bank: int, around: datetime, limit: int) -> list[AnyRow]:
    """Rows of current facts mentioned nearest to a moment, nearest first."""
    moment = micros(around)
    current = (facts.c.bank == bank, facts.c.expired_at.is_(None))
    earlier = _nearest(current, facts.c.mentioned_at <= moment, facts.c.mentioned_at.desc(), limit)
    later = _nearest(current, facts.c.mentioned_at > moment, facts.c.mentioned_at.asc(), limit)
    rows = [*connection.execute(earlier), *connection.execute(later)]
    return sorted(rows, key=lambda row: abs(row.mentioned_at - moment))[:limit]


def _nearest(
    current: tuple[ColumnElement[bool], ...], side: ColumnElement[bool], order: ColumnElement[int], limit: int
) -> Select[*tuple[Any, ...]]:
    return select(facts).where(*current, side).order_by(order).limit(limit)


def cooccurring(connection: Connection, bank: int, ids: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
    """For each entity the others that share a fact with it."""
    mine, theirs = mentions.alias("mine"), mentions.alias("theirs")
    one, other = entities.alias("one"), entities.alias("other")
    found: dict[EntityId, set[EntityId]] = {id: set() for id in ids}
    for part in chunks(ids):
        statement = (
            select(one.c.id, other.c.id)
            .join(mine, mine.c.entity == one.c.seq)
            .join(theirs, (theirs.c.bank == mine.c.bank) & (theirs.c.fact == mine.c.fact))
            .join(other, other.c.seq == theirs.c.entity)
            .where(mine.c.bank == bank, one.c.bank == bank, one.c.id.in_(part), other.c.seq != one.c.seq)
            .distinct()
        )
        for id, beside in connection.execute(statement).tuples():
            found[EntityId(id)].add(EntityId(beside))
    return found
