"""Cypher of the selections: one builder for each label."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString, NamedTuple

from vmemo.models import Episode, Message, utc_now
from vmemo.models.records import TIME_ORDERED, ShortId
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.stores.values import UNPROCESSED
from vmemo.text.names.compare import fold_name

CURRENT: Final = (
    "f.expired_at IS NULL AND (f.invalid_at IS NULL OR f.invalid_at > $now) "
    "AND (f.expires_at IS NULL OR f.expires_at > $now)"
)
"""The condition of facts that are believed and true now."""


class PageStart(NamedTuple):
    """The record that a page continues after: its number, and its time in an order by time."""

    seq: int
    time: datetime | None = None


class CypherSelect:
    """A statement under construction over the records of one variable."""

    def __init__(self, variable: LiteralString, match: LiteralString, order: LiteralString) -> None:
        self.variable: LiteralString = variable
        self.match: LiteralString = match
        self.order: LiteralString = order
        self.skip: LiteralString = ""
        self.where: list[LiteralString] = []
        self.parameters: dict[str, object] = {}

    def require(self, condition: LiteralString, **parameters: object) -> None:
        """Add a condition and its parameters."""
        self.where.append(condition)
        self.parameters |= parameters

    def limit(self, limit: int | None) -> None:
        """Return no more records than this."""
        self.parameters["limit"] = limit

    @property
    def statement(self) -> LiteralString:
        """The statement without its columns. Records are ordered and limited before their relationships are read."""
        where: LiteralString = f"WHERE {' AND '.join(self.where)} " if self.where else ""
        limit: LiteralString = "" if self.parameters.get("limit") is None else "LIMIT $limit "
        return f"{self.match} {where}WITH {self.variable} ORDER BY {self.order} {self.skip}{limit}"


def _abbreviate(query: CypherSelect, short: ShortId) -> None:
    """Add the conditions of a short id; the first one can use the index of ids."""
    id: LiteralString = f"{query.variable}.id"
    negated: LiteralString = "" if short.end else "NOT "
    query.require(
        f"{id} STARTS WITH $short_start AND size({id}) = 36 AND {id} ENDS WITH $short_end "
        f"AND {negated}substring({id}, 14, 1) IN $time_ordered",
        short_start=short.start,
        short_end=short.end,
        time_ordered=list(TIME_ORDERED),
    )


def _contain(query: CypherSelect, property: LiteralString, parts: Sequence[str]) -> None:
    """Add the condition that a property contains each of these texts, in upper or lower case."""
    if parts:
        text: LiteralString = f"toLower({query.variable}.{property})"
        query.require(f"all(part IN $parts WHERE {text} CONTAINS toLower(part))", parts=list(parts))


def _follow(query: CypherSelect, after: PageStart | None, time: LiteralString | None = None) -> None:
    """Continue after a record; with the name of a time, in the order of that time, newest first."""
    seq: LiteralString = f"{query.variable}.seq"
    if time is None:
        if after is not None:
            query.require(f"{seq} > $start", start=after.seq)
        return
    at: LiteralString = f"{query.variable}.{time}"
    query.order = f"{at} DESC, {seq} DESC"
    if after is not None:
        earlier: LiteralString = f"{at} <= $start_time AND ({at} < $start_time OR {seq} < $start)"
        query.require(earlier, start=after.seq, start_time=after.time)


def messages(wanted: MessageSelect, after: PageStart | None) -> CypherSelect:
    """Return the query of a selection of messages without ids."""
    query = CypherSelect("m", "MATCH (m:Message {bank: $bank})", "m.seq DESC" if wanted.last_first else "m.seq")
    if after is not None:
        query.require("m.seq < $start" if wanted.last_first else "m.seq > $start", start=after.seq)
    if wanted.document is not None:
        query.require("m.document = $document", document=wanted.document)
    _contain(query, "content", wanted.containing)
    if wanted.state is not None:
        query.require("m.state = $state AND m.timestamp IS NOT NULL", state=wanted.state)
    if wanted.short_id is not None:
        _abbreviate(query, wanted.short_id)
    if wanted.by_time:
        query.order = "m.timestamp, m.seq"
    if wanted.preceding is not None:
        _precede(query, wanted.preceding)
    if wanted.expiring_until is not None:
        query.require("m.expires_at <= $expiring", expiring=wanted.expiring_until)
        query.order = "m.expires_at, m.seq"
    query.limit(wanted.limit)
    return query


def _precede(query: CypherSelect, message: Message) -> None:
    query.match = f"OPTIONAL MATCH (own:Message {{bank: $bank, id: $own}}) WITH own.seq AS own {query.match}"
    query.require("m.document IS NULL" if message.document is None else "m.document = $of", of=message.document)
    earlier: LiteralString = "m.timestamp <= $time AND (m.timestamp < $time OR m.seq < own)"
    query.require(earlier, own=message.id, time=message.timestamp)
    query.order = "m.timestamp DESC, m.seq DESC"


def facts(wanted: FactSelect, after: PageStart | None) -> CypherSelect:
    """Return the query of a selection of facts without ids."""
    query = CypherSelect("f", "MATCH (f:Fact {bank: $bank})", "f.seq")
    _refer(query, wanted)
    _contain(query, "text", wanted.containing)
    if wanted.networks:
        query.require("f.network IN $networks", networks=list(wanted.networks))
    if wanted.supersedes is not None:
        query.require("f.supersedes IN $superseded", superseded=list(wanted.supersedes))
    if wanted.short_id is not None:
        _abbreviate(query, wanted.short_id)
    if wanted.instructions:
        query.require("f.instruction = true")
    if wanted.pinned:
        query.require("f.pinned = true")
    if wanted.formed:
        query.require(
            "f.network = 'opinion' AND (NOT EXISTS { (f)-[:IN_EPISODE]->() } OR EXISTS { (f)-[:BASED_ON]->() })"
        )
    if wanted.current:
        query.require(CURRENT, now=utc_now())
    if wanted.closed:
        query.require("(f.expired_at IS NOT NULL OR f.invalid_at <= $now)", now=utc_now())
    if wanted.mentioned_before is not None:
        query.require("f.mentioned_at < $mentioned_before", mentioned_before=wanted.mentioned_before)
    _follow(query, after, "mentioned_at" if wanted.newest_first else None)
    query.limit(wanted.limit)
    return query


def _refer(query: CypherSelect, wanted: FactSelect) -> None:
    """Find facts by the records that they refer to, one clause for each filter."""
    episode = None if wanted.episode is None else [wanted.episode]
    filters: tuple[tuple[Sequence[str] | None, LiteralString, LiteralString, LiteralString], ...] = (
        (episode, "episodes", "IN_EPISODE", "Episode"),
        (wanted.messages, "messages", "SOURCE", "Message"),
        (wanted.context, "context", "CONTEXT", "Message"),
        (wanted.basis, "basis", "BASED_ON", "Fact"),
        (wanted.entities, "entities", "MENTIONS", "Entity"),
    )
    clauses: list[LiteralString] = []
    for ids, name, type, label in filters:
        if ids is not None:
            target: LiteralString = f"(x:{label} {{bank: $bank}}) WHERE x.id IN ${name}"
            clauses.append(f"MATCH (f:Fact)-[:{type}]->{target} WITH DISTINCT f")
            query.parameters[name] = list(ids)
    if clauses:
        query.match = " ".join(clauses)
        query.require("f.bank = $bank")


def around(query: CypherSelect, time: datetime) -> tuple[CypherSelect, CypherSelect]:
    """Return the queries for facts mentioned up to a time and after it, nearest first."""
    earlier = CypherSelect("f", query.match, "f.mentioned_at DESC, f.seq DESC")
    later = CypherSelect("f", query.match, "f.mentioned_at, f.seq")
    for part in (earlier, later):
        part.where, part.parameters = [*query.where], {**query.parameters}
    earlier.require("f.mentioned_at <= $around", around=time)
    later.require("f.mentioned_at > $around", around=time)
    return earlier, later


def episodes(wanted: EpisodeSelect, after: PageStart | None) -> CypherSelect:
    """Return the query of a selection of episodes without ids."""
    query = CypherSelect("p", "MATCH (p:Episode {bank: $bank})", "p.seq")
    if wanted.messages is not None:
        query.match = "MATCH (p:Episode)-[:CONTAINS]->(m:Message {bank: $bank}) WHERE m.id IN $messages WITH DISTINCT p"
        query.require("p.bank = $bank", messages=list(wanted.messages))
    if wanted.condensable is not None:
        query.require(
            "p.ended_at < $ended_before AND size(p.narrative) > $characters",
            ended_before=wanted.condensable.ended_before,
            characters=wanted.condensable.characters,
        )
        require_end_after(query, wanted.condensable.after)
        query.require(processed("p"), unprocessed=list(UNPROCESSED))
        query.order = "p.ended_at, p.id"
    else:
        _follow(query, after, "ended_at" if wanted.last_first else None)
    query.limit(wanted.limit)
    return query


def require_end_after(query: CypherSelect, mark: Episode | None) -> None:
    """Continue after a mark in the order of the ends of episodes; the first condition can use the index."""
    if mark is not None:
        at: LiteralString = f"{query.variable}.ended_at"
        later: LiteralString = f"{at} >= $mark_end AND ({at} > $mark_end OR {query.variable}.id > $mark)"
        query.require(later, mark_end=mark.ended_at, mark=mark.id)


def processed(episode: LiteralString) -> LiteralString:
    """Return the condition of episodes without a message that waits to be processed."""
    return f"NOT EXISTS {{ MATCH ({episode})-[:CONTAINS]->(w:Message) WHERE w.state IN $unprocessed }}"


def entities(wanted: EntitySelect, after: PageStart | None) -> CypherSelect:
    """Return the query of a selection of entities without ids."""
    query = CypherSelect("e", "MATCH (e:Entity {bank: $bank})", "e.seq")
    if wanted.names is not None or wanted.containing is not None:
        query.match = "MATCH (e:Entity)-[:KNOWN_AS]->(n:EntityName {bank: $bank}) WHERE "
        conditions: list[LiteralString] = []
        if wanted.names is not None:
            conditions.append("n.name IN $names")
            query.parameters["names"] = sorted({fold_name(name) for name in wanted.names})
        if wanted.containing is not None:
            conditions.append("n.name CONTAINS $part")
            query.parameters["part"] = fold_name(wanted.containing)
        query.match += f"{' AND '.join(conditions)} WITH DISTINCT e"
        query.require("e.bank = $bank")
    if wanted.with_not_aliases:
        query.require("size(e.not_aliases) > 0")
    _follow(query, after)
    if wanted.most_mentioned:
        query.order = "COUNT { (e)<-[:MENTIONS]-() } DESC, e.seq"
        query.skip = "SKIP $offset "
        query.parameters["offset"] = wanted.offset
    query.limit(wanted.limit)
    return query
