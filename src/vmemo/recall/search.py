"""Running the channels side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from vmemo.models import Channel
from vmemo.ports import Embedder, Ranking, Search, TextQuery, VectorQuery
from vmemo.recall.query import Query
from vmemo.recall.stopwatch import Stopwatch

FLOOR = 0.3
"""Cosine under which a fact is no candidate of the semantic channel."""


async def search(query: Query, store: Search, embedder: Embedder, watch: Stopwatch) -> dict[Channel, Ranking]:
    """Every channel's ranking. Keyword search runs while the query is embedded."""
    words = TextQuery(scope=query.scope, text=query.text, limit=query.nodes)
    semantic, keyword, verbatim = await asyncio.gather(
        _semantic(query, store, embedder, watch),
        _timed("keyword", store.matching(words), watch),
        _timed("verbatim", store.verbatim(words), watch),
    )
    return {"semantic": semantic, "keyword": keyword, "verbatim": verbatim}


async def _timed(stage: str, work: Awaitable[Ranking], watch: Stopwatch) -> Ranking:
    with watch.stage(stage):
        return await work


async def _semantic(query: Query, store: Search, embedder: Embedder, watch: Stopwatch) -> Ranking:
    with watch.stage("embed"):
        vectors = await embedder.embed([query.text], "query")
    with watch.stage("semantic"):
        return await store.nearest(
            VectorQuery(scope=query.scope, space=embedder.name, vector=vectors[0], limit=query.nodes, floor=FLOOR)
        )
