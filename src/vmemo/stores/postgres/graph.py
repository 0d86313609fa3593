"""Edges of the graph on PostgreSQL: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    and_,
    cast,
    false,
    func,
    literal,
    select,
    true,
    union,
    union_all,
)

from vmemo.models import FactId, LinkKind
from vmemo.models.search import Edge, EdgeQuery, RevisionEdge
from vmemo.stores.postgres.filters import one_of
from vmemo.stores.postgres.schema import fact_search
from vmemo.stores.postgres.vectors import NUMBER, cosine
from vmemo.stores.sql.batch_rows import LINK_KINDS, REVISION_KINDS
from vmemo.stores.sql.conditions import storable
from vmemo.stores.sql.rows import AnyRow, instant
from vmemo.stores.sql.schema import entities, facts, links, mentions

_OTHER_WAY: Mapping[LinkKind, LinkKind] = {"causes": "caused_by", "caused_by": "causes"}
"""The kind of a link seen from its target, where it differs."""
_ALL = frozenset(LINK_KINDS) - frozenset(REVISION_KINDS.values())
_ENTITY = -1
"""The kind of an edge between two facts that share an entity."""
LINKS = 16
"""Links of a fact that are read in each direction: a fact that very many resemble leads to all of them a little."""

LIGHTEST = 1e-4
"""Weights below this one are not distinguished."""


def find(connection: Connection, bank: int, passes: Sequence[ColumnElement[bool]], query: EdgeQuery) -> list[Edge]:
    """Return edges to facts that fulfil the conditions `passes`, all read by one statement."""
    given = _given(bank, query)
    parts = [_linked(bank, given, query, passes)] if query.facts else []
    if not query.kinds or "entity" in query.kinds:
        parts.append(_shared(bank, given, query, passes))
    if not parts:
        return []
    return list(_edges(connection.execute(union_all(*parts)).all(), query.kinds or _ALL))


def _edges(rows: Sequence[AnyRow], kinds: frozenset[LinkKind]) -> Iterator[Edge]:
    for source, target, tokens, number, onward, weight, name in rows:
        kind: LinkKind = "entity" if number == _ENTITY else LINK_KINDS[int(number)]
        kind = kind if onward else _OTHER_WAY.get(kind, kind)
        if kind in kinds:
            yield Edge(source, FactId(target), tokens, kind, weight, name)


def _given(bank: int, query: EdgeQuery) -> CTE:
    """Numbers and ids of the facts that edges leave."""
    ids = [id for id in query.facts if storable(id)]
    own = facts.alias("own").c
    return select(own.seq, own.id).where(own.bank == bank, one_of(own.id, ids)).cte("given")


def _linked(bank: int, given: CTE, query: EdgeQuery, passes: Sequence[ColumnElement[bool]]) -> Select[*tuple[Any, ...]]:
    """Stored links in both directions; from its other end a link may be of another kind."""
    ways = (("source", "target", true()), ("target", "source", false()))
    found = union_all(
        *(
            select(links.c[there].label("other"), links.c.kind, links.c.weight, onward.label("onward"))
            .where(links.c.bank == bank, links.c[here] == given.c.seq)
            .order_by(links.c[there], links.c.kind)
            .limit(LINKS)
            .correlate(given)
            .subquery()
            .select()
            for here, there, onward in ways
        )
    ).lateral("found")
    linked = (
        select(given.c.id, facts.c.id, facts.c.tokens, found.c.kind, found.c.onward, found.c.weight, literal("", Text))
        .select_from(given)
        .join(found, true())
        .join(facts, and_(facts.c.bank == bank, facts.c.seq == found.c.other))
        .where(*passes, found.c.other != given.c.seq, found.c.weight >= query.least)
    )
    if query.floor <= -1.0:
        return linked
    vectors = (fact_search.c.bank == bank) & (fact_search.c.seq == found.c.other)
    return linked.join(fact_search, vectors).where(cosine(query.vector) >= query.floor)


def revisions(
    connection: Connection, bank: int, passes: Sequence[ColumnElement[bool]], ids: Sequence[FactId]
) -> list[RevisionEdge]:
    """Return the links by which facts replace or outdate others, with an end given and both ends passing."""
    own = facts.alias("own").c
    given = select(own.seq).where(own.bank == bank, one_of(own.id, [id for id in ids if storable(id)])).cte("given")
    ways = (links.c.source, links.c.target)
    found = union(
        *(
            select(*ways, links.c.kind, links.c.weight).where(
                links.c.bank == bank, end.in_(select(given.c.seq)), links.c.kind.in_(list(REVISION_KINDS))
            )
            for end in ways
        )
    ).cte("found")
    ends = union(select(found.c.source), select(found.c.target))
    columns = facts.c.seq, facts.c.id, facts.c.tokens, facts.c.mentioned_at
    seen = select(*columns).where(*passes, facts.c.seq.in_(ends)).cte("seen")
    newer, older = seen.alias("newer"), seen.alias("older")
    statement = (
        select(newer, older, found.c.kind, found.c.weight)
        .join_from(found, newer, newer.c.seq == found.c.source)
        .join(older, older.c.seq == found.c.target)
        .order_by(found.c.source, found.c.target)
    )
    return [
        RevisionEdge(
            newer=FactId(newer_id),
            older=FactId(older_id),
            kind=REVISION_KINDS[int(kind)],
            probability=weight,
            newer_tokens=newer_tokens,
            older_tokens=older_tokens,
            mentioned_at=instant(mentioned_at),
        )
        for _, newer_id, newer_tokens, mentioned_at, _, older_id, older_tokens, _, kind, weight in connection.execute(
            statement
        )
    ]


def _shared(bank: int, given: CTE, query: EdgeQuery, passes: Sequence[ColumnElement[bool]]) -> Select[*tuple[Any, ...]]:
    """The facts of entities that are given, or that given facts mention; the rarer an entity, the more it says."""
    met = _met(bank, given, query)
    known = _weighed(bank, met, query)
    # Edges that are too light are left out before the facts of their entities are read.
    heavy = select(known).where(known.c.weight >= query.least).cte("heavy").prefix_with("MATERIALIZED")
    newest = (
        select(mentions.c.fact)
        .where(mentions.c.bank == bank, mentions.c.entity == heavy.c.entity)
        .order_by(mentions.c.fact.desc())
        .limit(query.compared)
        .correlate(heavy)
        .subquery("newest")
    )
    reached = (
        select(facts.c.id, facts.c.tokens)
        .join_from(newest, facts, (facts.c.bank == bank) & (facts.c.seq == newest.c.fact))
        .join(fact_search, (fact_search.c.bank == bank) & (fact_search.c.seq == newest.c.fact))
        .where(*passes, cosine(query.vector) >= query.floor)
        .order_by(cosine(query.vector).desc(), facts.c.seq)
        .limit(query.fan)
        .correlate(heavy)
        .lateral("reached")
    )
    # An entity that several facts mention is looked at once.
    of = select(heavy.c.entity, heavy.c.name, heavy.c.weight, reached.c.id, reached.c.tokens)
    of = of.select_from(heavy).join(reached, true()).cte("of").prefix_with("MATERIALIZED")
    return (
        select(met.c.id, of.c.id, of.c.tokens, cast(literal(_ENTITY), Integer), true(), of.c.weight, of.c.name)
        .join_from(met, of, of.c.entity == met.c.entity)
        .where(met.c.id != of.c.id)
    )


def _met(bank: int, given: CTE, query: EdgeQuery) -> CTE:
    """Entities, each with the id of the fact or the entity that edges leave."""
    of_facts = select(given.c.id, mentions.c.entity).join(
        mentions, (mentions.c.bank == bank) & (mentions.c.fact == given.c.seq)
    )
    ids = [id for id in query.entities if storable(id)]
    named = select(entities.c.id, entities.c.seq).where(entities.c.bank == bank, one_of(entities.c.id, ids))
    return union_all(of_facts, named).cte("met")


def _weighed(bank: int, met: CTE, query: EdgeQuery) -> CTE:
    """Each entity with its name and how much sharing it says; of one that says less than `least`, hardly less."""
    mentioned = mentions.alias("mentioned").c
    some = select(mentioned.fact).where(mentioned.bank == bank, mentioned.entity == entities.c.seq)
    # Facts beyond these make the edges only lighter that are too light already.
    enough = min(query.common, math.ceil(1 / max(query.least, LIGHTEST) ** 2) + 1)
    counted = some.correlate(entities).limit(enough).lateral("some")
    weighed = select((literal(1.0, NUMBER) / func.sqrt(func.greatest(func.count(), 1))).label("weight"))
    share = weighed.select_from(counted).correlate(entities).lateral("share")
    return (
        select(entities.c.seq.label("entity"), entities.c.name, share.c.weight)
        .join_from(entities, share, true())
        .where(entities.c.bank == bank, entities.c.seq.in_(select(met.c.entity)))
        .cte("known")
    )
