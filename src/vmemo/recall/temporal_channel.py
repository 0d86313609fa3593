"""The temporal channel: what happened in the time that a question is about."""

from __future__ import annotations

from dataclasses import replace

from vmemo.models import FactId, Interval
from vmemo.models.search import EdgeQuery, Ranking, Scored, TimeQuery, VectorQuery
from vmemo.ports import Search

FLOOR = 0.4
"""Cosine that a fact inside the time must have by itself."""
FADING = 0.25
"""Share of its score that a fact at the very edge of the time loses."""
DECAY = 0.7
"""What is left of a score after a step along a temporal link."""
STARTS = 10
"""Best facts inside the time from which its neighbours are reached."""


async def moments(search: Search, query: VectorQuery, during: Interval) -> Ranking:
    """Facts inside the time by likeness and nearness to its middle, and what is linked to the best of them in time."""
    scope, space, vector = query.scope, query.space, query.vector
    found = await search.during(
        TimeQuery(scope=scope, space=space, vector=vector, during=during, limit=query.limit, floor=FLOOR, fading=FADING)
    )
    if not found.hits or scope.occurred is not None:
        return found
    starts = {hit.id: hit for hit in found.hits[:STARTS]}
    inside = replace(scope, occurred=during)
    links = await search.edges(
        EdgeQuery(scope=inside, space=space, vector=vector, facts=list(starts), kinds=frozenset({"temporal"}))
    )
    known = {hit.id for hit in found.hits}
    linked: dict[FactId, Scored] = {}
    for edge in links:
        # What is carried on is how far the start stands out, so that a linked fact never passes for unrelated.
        score = found.ground + (starts[FactId(edge.source)].score - found.ground) * edge.weight * DECAY
        least = linked[edge.target].score if edge.target in linked else found.ground
        if edge.target not in known and score > least:
            linked[edge.target] = Scored(edge.target, score, edge.tokens)
    hits = sorted([*found.hits, *linked.values()], key=lambda hit: hit.score, reverse=True)
    return Ranking(hits[: query.limit], found.ground)
