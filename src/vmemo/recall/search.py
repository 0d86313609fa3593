"""Running the channels side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from vmemo.models import Channel, Interval, Mention, utc_now
from vmemo.models.search import Encoding, Ranking, Scored, TextQuery, Vector, VectorQuery
from vmemo.ports import Context, TokenEmbedder
from vmemo.recall.fuse import Strand
from vmemo.recall.graph_channel import Spread, spread
from vmemo.recall.llm_time_resolver import TimeModel, Told
from vmemo.recall.plan import channel_weights, graph_expansions
from vmemo.recall.query import Query
from vmemo.recall.stopwatch import Stopwatch
from vmemo.recall.temporal_channel import moments
from vmemo.text.questions import MAX_QUERY_CHARS, QueryAnalysis

FLOOR = 0.3
"""Cosine under which a fact is no candidate of the semantic channel."""
PART = 0.3
"""What the rankings of all parts of a question weigh together, beside the whole question's."""
T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """What the channels found, and what they found it with."""

    strands: Sequence[Strand]
    query: Encoding
    entities: Sequence[Mention] = ()
    entries: Sequence[Scored] = ()
    """Semantic hits, where the graph starts."""
    graph: Spread = field(default_factory=Spread)
    told: Told | None = None
    """What a model said about the question's time, where it was asked."""


class Searching:
    """One recall's channels. Words are searched while the query is embedded; the rest needs its vector."""

    def __init__(
        self, query: Query, analysis: QueryAnalysis, context: Context, when: TimeModel | None, watch: Stopwatch
    ) -> None:
        self._query = query
        self._analysis = analysis
        self._context = context
        self._store = context.store
        self._embedder = context.embedder
        self._when = when
        self._weights = channel_weights(analysis.type)
        self.watch = watch

    async def run(self) -> Found:
        """Every channel of the plan but the graph, which starts from what they found."""
        if self._when is None or self._analysis.unresolved_time is None:
            return await self._search(self._analysis.during)
        # Only what needs the time waits for the model that is asked for it.
        found, told = await asyncio.gather(self._search(None), self.timed("when", partial(self._asked, self._when)))
        temporal = await self._in_time(found.query.vector, told.during or self._analysis.during)
        return replace(found, strands=[*found.strands, *temporal], told=told)

    async def _search(self, during: Interval | None) -> Found:
        encodings, (worded, entities) = await asyncio.gather(self._encode(), self._read())
        near, temporal = await asyncio.gather(self._by_meaning(encodings), self._in_time(encodings[0].vector, during))
        entries = near[0].ranking.hits if near else ()
        strands = [*(near if self._on("semantic") else ()), *worded, *temporal]
        return Found(strands, encodings[0], entities, entries)

    async def _asked(self, when: TimeModel) -> Told:
        return await when.read(self._query.scope.bank, self._query.text[:MAX_QUERY_CHARS], self._query.now or utc_now())

    async def through_graph(self, found: Found) -> Spread:
        """What the graph leads to; nothing when it is switched off."""
        if not self._on("graph"):
            return Spread()
        steps = graph_expansions(self._analysis.type, self._query.nodes)
        near = self._near(found.query.vector)
        work = partial(spread, self._store, near, found.entries, found.entities, nodes=steps)
        return await self.timed("graph", work)

    def reached(self, graph: Spread) -> list[Strand]:
        """The graph's ranking as one more strand."""
        return [Strand("graph", graph.ranking, self._weights["graph"])] if self._on("graph") else []

    def _on(self, channel: Channel) -> bool:
        return channel in self._context.settings.channels

    async def _read(self) -> tuple[list[Strand], Sequence[Mention]]:
        """What needs only the query's words, one after the other: side by side they would hold up the model."""
        texts = [self._query.text, *self._analysis.parts] if self._on("keyword") else []
        found = [await self.timed("keyword", partial(self._store.matching, self._words(text))) for text in texts]
        strands = self._strands("keyword", found)
        if self._on("verbatim"):
            said = await self.timed("verbatim", partial(self._store.verbatim, self._words(self._query.text)))
            strands.append(Strand("verbatim", said, self._weights["verbatim"]))
        if not self._on("graph"):
            return strands, ()
        named = partial(self._store.named, self._query.scope.bank, self._query.text)
        return strands, await self.timed("entities", named)

    async def _encode(self) -> Sequence[Encoding]:
        texts = [self._query.text, *self._analysis.parts]
        with self.watch.stage("embed"):
            if self._context.reranker == "late" and isinstance(self._embedder, TokenEmbedder):
                return await self._embedder.encode(texts, "query")
            return [Encoding(vector) for vector in await self._embedder.embed(texts, "query")]

    def _words(self, text: str) -> TextQuery:
        return TextQuery(scope=self._query.scope, text=text, limit=self._query.nodes)

    async def _by_meaning(self, encodings: Sequence[Encoding]) -> list[Strand]:
        """The graph channel starts from the whole question's ranking, also where that is no channel itself."""
        wanted = encodings if self._on("semantic") else encodings[:1] if self._on("graph") else ()
        found = await asyncio.gather(
            *(self.timed("semantic", partial(self._store.nearest, self._near(each.vector))) for each in wanted)
        )
        return self._strands("semantic", found)

    def _near(self, vector: Vector) -> VectorQuery:
        return VectorQuery(
            scope=self._query.scope, space=self._embedder.name, vector=vector, limit=self._query.nodes, floor=FLOOR
        )

    def _strands(self, channel: Channel, rankings: Sequence[Ranking]) -> list[Strand]:
        """The whole question's ranking and those of its parts."""
        weight, parts = self._weights[channel], max(1, len(rankings) - 1)
        return [
            Strand(channel, ranking, weight * PART / parts if number else weight)
            for number, ranking in enumerate(rankings)
        ]

    async def _in_time(self, vector: Vector, during: Interval | None) -> list[Strand]:
        if during is None or not self._on("temporal"):
            return []
        work = partial(moments, self._store, self._near(vector), during)
        return [Strand("temporal", await self.timed("temporal", work), self._weights["temporal"])]

    async def timed(self, stage: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work and note its time. It is begun here, so that none is left over when a recall is cancelled."""
        with self.watch.stage(stage):
            return await work()
