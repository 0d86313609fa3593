"""Reading facts, episodes, entities and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, ScalarSelect, Select, Table, bindparam, case, func, select

from vmemo.models import BankId, Entity, EntityId, Episode, EpisodeId, Fact, FactId, Link, MessageId, Network, utc_now
from vmemo.models.changes import EntityMention
from vmemo.stores.sql import row_conditions
from vmemo.stores.sql.batch_rows import LINK_KINDS
from vmemo.stores.sql.in_list import among, later, listed
from vmemo.stores.sql.rows import AnyRow, entity_of, episode_of, fact_of, mentions_of
from vmemo.stores.sql.schema import (
    BASIS,
    EPISODE,
    entities,
    episode_messages,
    episodes,
    facts,
    links,
    mentions,
    messages,
    sources,
)
from vmemo.stores.sql.timestamps import instant, micros

SEQ, _, ID = range(3)
"""Places of the number, the bank and the id in the rows of every table that has ids; names cost more to look up."""
LATEST = 50
"""Facts of an entity that tell which others it is found beside."""


@cache
def _by_id(table: Table) -> Select[*tuple[Any, ...]]:
    return select(table).where(table.c.bank == bindparam("bank", type_=BigInteger), among(table.c.id, later("ids")))


def rows_by_id(connection: Connection, table: Table, bank: int, ids: Sequence[str]) -> list[AnyRow]:
    """Rows in the order of the ids; missing ones are left out."""
    rows = connection.execute(_by_id(table), {"bank": bank, "ids": listed(ids)}).all()
    found = {row[ID]: row for row in rows}
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
    seqs: list[int] = [row[SEQ] for row in rows]
    mentioned = mentions_of(connection.execute(_MENTIONS, {"bank": bank, "facts": listed(seqs)}).all())
    origins = _sources(connection, bank, seqs)
    return [
        fact_of(row, name, mentioned[seq], origins[seq], vectors.get(seq)) for row, seq in zip(rows, seqs, strict=True)
    ]


_MENTIONS = (
    select(mentions.c.fact, entities.c.id, entities.c.name, entities.c.type, mentions.c.said)
    .join(entities, row_conditions.points(mentions, "entity", entities))
    .where(mentions.c.bank == bindparam("bank", type_=BigInteger), among(mentions.c.fact, later("facts")))
    .order_by(mentions.c.fact, mentions.c.entity)
)


def _name(table: Table) -> ScalarSelect[str]:
    """The id of a source. The bank is given once more, so that PostgreSQL knows the part of the table in advance."""
    same = table.c.bank == bindparam("bank", type_=BigInteger), table.c.seq == sources.c.source
    return select(table.c.id).where(*same).scalar_subquery()


_ORIGIN = case(
    (sources.c.kind == EPISODE, _name(episodes)), (sources.c.kind == BASIS, _name(facts)), else_=_name(messages)
)
_SOURCES = (
    select(sources.c.fact, sources.c.kind, _ORIGIN)
    .where(sources.c.bank == bindparam("bank", type_=BigInteger), among(sources.c.fact, later("facts")))
    .order_by(sources.c.fact, sources.c.kind, sources.c.source)
)


def _sources(connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[list[str], ...]]:
    """Ids of what each fact comes from, by kind: messages, context, episodes, facts behind it."""
    found: dict[int, tuple[list[str], ...]] = defaultdict(lambda: ([], [], [], []))
    for fact, kind, id in connection.execute(_SOURCES, {"bank": bank, "facts": listed(seqs)}).all():
        found[int(fact)][int(kind)].append(str(id))
    return found


def episodes_of(connection: Connection, bank: int, rows: Sequence[AnyRow]) -> list[Episode]:
    """Episodes of these rows with their messages in order of time."""
    statement = (
        select(episode_messages.c.episode, messages.c.id)
        .join(messages, row_conditions.points(episode_messages, "message", messages))
        .where(episode_messages.c.bank == bank, among(episode_messages.c.episode, [row.seq for row in rows]))
        .order_by(messages.c.timestamp, messages.c.seq)
    )
    members: dict[int, list[MessageId]] = defaultdict(list)
    for episode, id in connection.execute(statement).all():
        members[episode].append(MessageId(id))
    return [episode_of(row, members[row.seq]) for row in rows]


def holding(connection: Connection, bank: int, message: MessageId) -> Episode | None:
    """The episode that holds a message."""
    statement = (
        select(episodes)
        .join(episode_messages, row_conditions.points(episode_messages, "episode", episodes))
        .join(messages, row_conditions.points(episode_messages, "message", messages))
        .where(episode_messages.c.bank == bank, messages.c.bank == bank, messages.c.id == message)
        .limit(1)
    )
    found = episodes_of(connection, bank, list(connection.execute(statement)))
    return found[0] if found else None


def fact_rows_of(connection: Connection, bank: int, episode: EpisodeId) -> list[AnyRow]:
    """Rows of an episode's facts."""
    statement = (
        select(facts)
        .join(sources, row_conditions.points(sources, "fact", facts) & (sources.c.kind == EPISODE))
        .join(episodes, row_conditions.points(sources, "source", episodes))
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
    statement = (
        select(mentions.c.entity, func.count())
        .where(mentions.c.bank == bank, among(mentions.c.entity, [row.seq for row in rows]))
        .group_by(mentions.c.entity)
    )
    counts = dict(connection.execute(statement).all())
    return [entity_of(row, counts.get(row.seq, 0)) for row in rows]


def links_of(connection: Connection, bank: int, ids: Sequence[FactId] | None) -> list[Link]:
    """Stored links that leave these facts, or all."""
    origin, target = facts.alias("origin"), facts.alias("target")
    statement = (
        select(origin.c.id, target.c.id, links.c.kind, links.c.weight)
        .join(origin, row_conditions.points(links, "source", origin))
        .join(target, row_conditions.points(links, "target", target))
        .where(links.c.bank == bank)
        .order_by(links.c.source, links.c.target, links.c.kind)
    )
    if ids is not None:
        statement = statement.where(origin.c.bank == bank, among(origin.c.id, ids))
    return [_link(*row) for row in connection.execute(statement).all()]


def _link(source: str, target: str, kind: int, weight: float) -> Link:
    return Link(source=FactId(source), target=FactId(target), kind=LINK_KINDS[kind], weight=weight)


def successors(connection: Connection, bank: int, fact: FactId) -> list[AnyRow]:
    """Rows of the facts that supersede this one."""
    statement = select(facts).where(facts.c.bank == bank, facts.c.supersedes == fact).order_by(facts.c.seq)
    return list(connection.execute(statement))


def current(bank: int) -> tuple[ColumnElement[bool], ...]:
    """What a bank's facts that are believed and true now fulfil."""
    still_true = facts.c.invalid_at.is_(None) | (facts.c.invalid_at > micros(utc_now()))
    return facts.c.bank == bank, facts.c.expired_at.is_(None), still_true


def recent(connection: Connection, bank: int, around: datetime, limit: int) -> list[AnyRow]:
    """Rows of current facts mentioned nearest to a moment, nearest first."""
    moment, found = micros(around), select(facts).where(*current(bank)).limit(limit)
    at, seq = facts.c.mentioned_at, facts.c.seq
    earlier = found.where(at <= moment).order_by(at.desc(), seq.desc())
    later = found.where(at > moment).order_by(at, seq)
    rows = [*connection.execute(earlier), *connection.execute(later)]
    return sorted(rows, key=lambda row: abs(row.mentioned_at - moment))[:limit]


def about(connection: Connection, bank: int, entity: EntityId, limit: int) -> list[AnyRow]:
    """Rows of current world and experience facts that mention an entity, newest first."""
    statement = (
        select(facts)
        .join(mentions, row_conditions.points(mentions, "fact", facts))
        .join(entities, row_conditions.points(mentions, "entity", entities))
        .where(mentions.c.bank == bank, entities.c.bank == bank, entities.c.id == entity)
        .where(*current(bank), facts.c.network.in_(("world", "experience")))
        .order_by(facts.c.mentioned_at.desc(), facts.c.seq.desc())
        .limit(limit)
    )
    return list(connection.execute(statement))


def believed(connection: Connection, bank: int, network: Network) -> list[AnyRow]:
    """Rows of current facts of a network in the order they were stored."""
    statement = select(facts).where(*current(bank), facts.c.network == network).order_by(facts.c.seq)
    return list(connection.execute(statement))


_OWN = (
    select(entities.c.seq)
    .where(entities.c.bank == bindparam("bank", type_=BigInteger), entities.c.id == bindparam("entity"))
    .scalar_subquery()
)
_LATEST_FACTS = (
    select(mentions.c.fact)
    .where(mentions.c.bank == bindparam("bank", type_=BigInteger), mentions.c.entity == _OWN)
    .order_by(mentions.c.fact.desc())
    .limit(LATEST)
)
_BESIDE = (
    select(entities.c.id)
    .join(mentions, row_conditions.points(mentions, "entity", entities))
    .where(
        mentions.c.bank == bindparam("bank", type_=BigInteger),
        mentions.c.fact.in_(_LATEST_FACTS.scalar_subquery()),
        entities.c.seq != _OWN,
    )
    .distinct()
)


def cooccurring(connection: Connection, bank: int, ids: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
    """For each entity the others that share one of its latest facts."""
    return {
        id: {EntityId(found) for found in connection.execute(_BESIDE, {"bank": bank, "entity": id}).scalars().all()}
        for id in ids
    }


def entity_mentions(connection: Connection, bank: int, wanted: Sequence[EntityId]) -> list[EntityMention]:
    """Return the mentions of entities, in the order of their facts."""
    statement = (
        select(facts.c.id, facts.c.mentioned_at, entities.c.id.label("entity"), mentions.c.said)
        .join(facts, row_conditions.points(mentions, "fact", facts))
        .join(entities, row_conditions.points(mentions, "entity", entities))
        .where(mentions.c.bank == bank, entities.c.bank == bank, among(entities.c.id, wanted))
        .order_by(mentions.c.fact, mentions.c.entity)
    )
    return [
        EntityMention(
            fact=FactId(row.id),
            entity=EntityId(row.entity),
            said=row.said or "",
            mentioned_at=instant(row.mentioned_at),
        )
        for row in connection.execute(statement)
    ]
