"""Reads of messages, facts, episodes, entities and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    ScalarSelect,
    Table,
    bindparam,
    case,
    func,
    or_,
    select,
)

from vmemo.models import (
    BankId,
    Entity,
    EntityId,
    Episode,
    Fact,
    FactId,
    Link,
    Message,
    MessageId,
    RetentionScore,
    utc_now,
)
from vmemo.models.changes import EntityMention
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.stores.sql import selects, statements
from vmemo.stores.sql.entity_rows import entity_of, mentions_of
from vmemo.stores.sql.fact_rows import LINK_KINDS, fact_fields
from vmemo.stores.sql.message_rows import episode_of, message_of
from vmemo.stores.sql.schema import (
    BASIS,
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
from vmemo.stores.sql.statements import AnyRow, Cells, Prepared, among, later, listed, within
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
    found = _fact_fields(connection, bank, name, rows)
    if wanted.with_embeddings:
        vectors = embeddings(connection, bank, [row[SEQ] for row in rows])
        for row, fields in zip(rows, found, strict=True):
            fields["embedding"] = vectors.get(row[SEQ])
    return [Fact.trusted(fields) for fields in found]


def fact_fields_by_id(
    connection: Connection, bank: int, name: BankId, ids: Sequence[FactId]
) -> dict[FactId, dict[str, object]]:
    """Return the fields of facts by id; missing ones are left out."""
    rows = _rows_by_id(connection, facts, bank, ids)
    return dict(zip((row[ID] for row in rows), _fact_fields(connection, bank, name, rows), strict=True))


def _fact_fields(connection: Connection, bank: int, name: BankId, rows: Sequence[Cells]) -> list[dict[str, object]]:
    """Return the fields of facts, without their embeddings, from their rows."""
    wanted = {"bank": bank, "facts": listed([row[SEQ] for row in rows])}
    mentioned = mentions_of(_MENTIONS.cells(connection, wanted))
    origins: dict[int, tuple[list[str], ...]] = defaultdict(lambda: ([], [], [], []))
    for fact, kind, id in _SOURCES.cells(connection, wanted):
        origins[int(fact)][int(kind)].append(str(id))
    return [fact_fields(row, name, mentioned.get(row[SEQ], ()), origins[row[SEQ]]) for row in rows]


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
    .join(entities, statements.refers_to(mentions, "entity", entities))
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


def episodes_of(connection: Connection, bank: int, wanted: EpisodeSelect) -> list[Episode]:
    if wanted.ids is not None:
        return episodes_of_rows(connection, bank, _rows_by_id(connection, episodes, bank, wanted.ids))
    if wanted == EpisodeSelect(last_first=True, limit=1):
        return episodes_of_rows(connection, bank, selects.LAST_EPISODE.rows(connection, {"bank": bank}))
    return episodes_of_rows(connection, bank, list(connection.execute(selects.episode_statement(bank, wanted))))


_MEMBERS = Prepared(
    select(episode_messages.c.episode, messages.c.id)
    .join(messages, statements.refers_to(episode_messages, "message", messages))
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
        .join(origin, statements.refers_to(links, "source", origin))
        .join(target, statements.refers_to(links, "target", target))
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
    .join(mentions, statements.refers_to(mentions, "entity", entities))
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
        .join(facts, statements.refers_to(mentions, "fact", facts))
        .join(entities, statements.refers_to(mentions, "entity", entities))
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


_MICROSECOND = timedelta(microseconds=1)


def consecutive_episodes(
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
    line, member = messages.alias("line"), episode_messages.alias("opening")
    return (
        select(line.c.seq)
        .join(member, statements.refers_to(member, "message", line))
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
        .join(line, statements.refers_to(member, "message", line))
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
    rows = connection.execute(select(episodes).where(statements.by_numbers(episodes, bank, seqs))).all()
    return {row.seq: episode for row, episode in zip(rows, episodes_of_rows(connection, bank, rows), strict=True)}


def retention_scores(connection: Connection, bank: int, after: FactId | None, limit: int) -> list[RetentionScore]:
    """Return the retention scores of current world and experience facts on which no other fact rests.

    Pinned facts have none.
    """
    holder = facts.alias("holder")
    held = (
        select(holder.c.seq)
        .join(sources, statements.refers_to(sources, "fact", holder))
        .where(sources.c.bank == bank, sources.c.kind == BASIS, sources.c.source == facts.c.seq)
        .where(holder.c.expired_at.is_(None))
        .correlate(facts)
        .exists()
    )
    last_stated = (
        select(func.max(messages.c.recorded_at))
        .join(sources, statements.refers_to(sources, "source", messages))
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
