"""Reads of messages, facts, episodes, entities and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlalchemy import BigInteger, Connection, ScalarSelect, Table, bindparam, case, func, select

from vmemo.models import BankId, Entity, EntityId, Episode, Fact, FactId, Link, Message, MessageId, utc_now
from vmemo.models.changes import EntityMention
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.stores.sql import conditions, selects
from vmemo.stores.sql.batch_rows import LINK_KINDS
from vmemo.stores.sql.conditions import among, later, listed, within
from vmemo.stores.sql.prepared import Prepared
from vmemo.stores.sql.rows import AnyRow, entity_of, episode_of, fact_of, mentions_of, message_of
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
from vmemo.stores.values import instant, micros

SEQ, _, ID = range(3)
"""Positions of the number, the bank and the id in the rows of every table with ids; names cost more to look up."""
LATEST = 50
"""Facts of an entity that decide which others occur beside it."""


Embeddings = Callable[[Connection, int, Sequence[int]], Mapping[int, tuple[float, ...]]]
"""Reads the vectors of a bank's facts by number."""


def _rows_by_id(connection: Connection, table: Table, bank: int, ids: Sequence[str]) -> list[AnyRow]:
    """Return rows in the order of the ids; missing ones are left out."""
    rows = selects.by_ids(table).rows(connection, {"bank": bank, "ids": listed(ids)})
    found = {row[ID]: row for row in rows}
    return [found[id] for id in ids if id in found]


def messages_of(connection: Connection, bank: int, wanted: MessageSelect) -> list[Message]:
    """Return the messages of a selection."""
    if wanted.ids is not None:
        return [message_of(row) for row in _rows_by_id(connection, messages, bank, wanted.ids)]
    return [message_of(row) for row in _message_rows(connection, bank, wanted)]


def _message_rows(connection: Connection, bank: int, wanted: MessageSelect) -> Iterable[AnyRow]:
    before, most = wanted.preceding, wanted.limit
    if most is not None and wanted == MessageSelect.oldest_pending(most):
        return selects.OLDEST_PENDING.rows(connection, {"bank": bank, "most": most})
    if before is not None and wanted == MessageSelect(preceding=before, limit=1):
        given = {"id": before.id, "time": micros(before.timestamp), "document": before.document}
        return selects.PRECEDING_MESSAGE.rows(connection, {"bank": bank, **given})
    return connection.execute(selects.message_statement(bank, wanted))


def facts_of(connection: Connection, bank: int, name: BankId, wanted: FactSelect, embeddings: Embeddings) -> list[Fact]:
    """Return the facts of a selection with their mentions and sources."""
    rows = _fact_rows(connection, bank, wanted)
    seqs: list[int] = [row[SEQ] for row in rows]
    vectors: Mapping[int, tuple[float, ...]] = embeddings(connection, bank, seqs) if wanted.with_embeddings else {}
    mentioned = mentions_of(_MENTIONS.rows(connection, {"bank": bank, "facts": listed(seqs)}))
    origins = _sources(connection, bank, seqs)
    return [
        fact_of(row, name, mentioned[seq], origins[seq], vectors.get(seq)) for row, seq in zip(rows, seqs, strict=True)
    ]


def _fact_rows(connection: Connection, bank: int, wanted: FactSelect) -> list[AnyRow]:
    if wanted.ids is not None:
        return _rows_by_id(connection, facts, bank, wanted.ids)
    if wanted.around is None:
        return list(connection.execute(selects.fact_statement(bank, wanted)))
    time = micros(wanted.around)
    rows = _rows_around(connection, bank, wanted, time)
    return sorted(rows, key=lambda row: abs(row.mentioned_at - time))[: wanted.limit]


def _rows_around(connection: Connection, bank: int, wanted: FactSelect, time: int) -> list[AnyRow]:
    if wanted.limit is not None and wanted == FactSelect(around=wanted.around, current=True, limit=wanted.limit):
        given = {"bank": bank, "now": micros(utc_now()), "time": time, "most": wanted.limit}
        return [row for part in selects.CURRENT_AROUND for row in part.rows(connection, given)]
    parts = selects.mentioned_around(selects.fact_statement(bank, wanted), time)
    return [row for part in parts for row in connection.execute(part)]


_MENTIONS = Prepared(
    select(mentions.c.fact, entities.c.id, entities.c.name, entities.c.type, mentions.c.name_in_text)
    .join(entities, conditions.points(mentions, "entity", entities))
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
_SOURCES = Prepared(
    select(sources.c.fact, sources.c.kind, _ORIGIN)
    .where(sources.c.bank == bindparam("bank", type_=BigInteger), among(sources.c.fact, later("facts")))
    .order_by(sources.c.fact, sources.c.kind, sources.c.source)
)


def _sources(connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[list[str], ...]]:
    """Return the ids of the sources of each fact by kind: messages, context, episodes, facts that it rests on."""
    found: dict[int, tuple[list[str], ...]] = defaultdict(lambda: ([], [], [], []))
    for fact, kind, id in _SOURCES.rows(connection, {"bank": bank, "facts": listed(seqs)}):
        found[int(fact)][int(kind)].append(str(id))
    return found


def episodes_of(connection: Connection, bank: int, wanted: EpisodeSelect) -> list[Episode]:
    """Return the episodes of a selection."""
    if wanted.ids is not None:
        return episodes_of_rows(connection, bank, _rows_by_id(connection, episodes, bank, wanted.ids))
    if wanted == EpisodeSelect(last_first=True, limit=1):
        return episodes_of_rows(connection, bank, selects.LAST_EPISODE.rows(connection, {"bank": bank}))
    return episodes_of_rows(connection, bank, list(connection.execute(selects.episode_statement(bank, wanted))))


_MEMBERS = Prepared(
    select(episode_messages.c.episode, messages.c.id)
    .join(messages, conditions.points(episode_messages, "message", messages))
    .where(
        episode_messages.c.bank == bindparam("bank", type_=BigInteger),
        among(episode_messages.c.episode, later("episodes")),
    )
    .order_by(messages.c.timestamp, messages.c.seq)
)


def episodes_of_rows(connection: Connection, bank: int, rows: Sequence[AnyRow]) -> list[Episode]:
    """Return the episodes of rows, with their messages in order of time."""
    members: dict[int, list[MessageId]] = defaultdict(list)
    wanted = {"bank": bank, "episodes": listed([row.seq for row in rows])}
    for episode, id in _MEMBERS.rows(connection, wanted):
        members[episode].append(MessageId(id))
    return [episode_of(row, members[row.seq]) for row in rows]


def entities_of(connection: Connection, bank: int, wanted: EntitySelect) -> list[Entity]:
    """Return the entities of a selection, with the number of facts that mention each unless it is not wanted."""
    if wanted.ids is not None:
        rows = _rows_by_id(connection, entities, bank, wanted.ids)
    else:
        rows = list(connection.execute(selects.entity_statement(bank, wanted)))
    counts = _mentioning(connection, bank, [row.seq for row in rows]) if wanted.counted else {}
    return [entity_of(row, counts.get(row.seq, 0)) for row in rows]


def _mentioning(connection: Connection, bank: int, numbers: Sequence[int]) -> dict[int, int]:
    """Return the number of facts that mention each entity, by number."""
    statement = (
        select(mentions.c.entity, func.count())
        .where(mentions.c.bank == bank, among(mentions.c.entity, numbers))
        .group_by(mentions.c.entity)
    )
    return dict(connection.execute(statement).all())


def links_of(connection: Connection, bank: int, ids: Sequence[FactId] | None) -> list[Link]:
    """Return the stored links that leave these facts, or all."""
    return [_link(*row) for row in connection.execute(link_statement(bank, ids)).all()]


def link_statement(bank: int, ids: Sequence[FactId] | None) -> selects.AnySelect:
    """Return the statement of the links that leave some facts, or all, in the order of their facts."""
    origin, target = facts.alias("origin"), facts.alias("target")
    statement = (
        select(origin.c.id, target.c.id, links.c.kind, links.c.weight)
        .join(origin, conditions.points(links, "source", origin))
        .join(target, conditions.points(links, "target", target))
        .where(links.c.bank == bank)
        .order_by(links.c.source, links.c.target, links.c.kind)
    )
    if ids is not None:
        statement = statement.where(within(links.c.source, selects.numbers_of(facts, bank, ids)))
    return statement


def _link(source: str, target: str, kind: int, weight: float) -> Link:
    return Link(source=FactId(source), target=FactId(target), kind=LINK_KINDS[kind], weight=weight)


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
    .join(mentions, conditions.points(mentions, "entity", entities))
    .where(
        mentions.c.bank == bindparam("bank", type_=BigInteger),
        mentions.c.fact.in_(_LATEST_FACTS.scalar_subquery()),
        entities.c.seq != _OWN,
    )
    .distinct()
)


def cooccurring(connection: Connection, bank: int, ids: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
    """Return for each entity the others that share one of its latest facts."""
    return {
        id: {EntityId(found) for found in connection.execute(_BESIDE, {"bank": bank, "entity": id}).scalars().all()}
        for id in ids
    }


def entity_mentions(
    connection: Connection, bank: int, wanted: Sequence[EntityId], *, named: bool
) -> list[EntityMention]:
    """Return the mentions of entities, in the order of their facts; with `named`, those by another name only."""
    statement = (
        select(facts.c.id, facts.c.mentioned_at, entities.c.id.label("entity"), mentions.c.name_in_text)
        .join(facts, conditions.points(mentions, "fact", facts))
        .join(entities, conditions.points(mentions, "entity", entities))
        .where(mentions.c.bank == bank, entities.c.bank == bank, among(entities.c.id, wanted))
        .order_by(mentions.c.fact, mentions.c.entity)
    )
    if named:
        statement = statement.where(mentions.c.name_in_text.is_not(None))
    return [
        EntityMention(
            fact=FactId(row.id),
            entity=EntityId(row.entity),
            name_in_text=row.name_in_text or "",
            mentioned_at=instant(row.mentioned_at),
        )
        for row in connection.execute(statement)
    ]
