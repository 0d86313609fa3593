"""A recall from query to result. It only reads; access counts are collected by the caller and written later."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from vmemo.models import (
    Channel,
    ChannelPlacement,
    EpisodeId,
    Fact,
    FactId,
    Hit,
    Interval,
    MessageId,
    Reranking,
    utc_now,
)
from vmemo.models.recalled import Explanation, Recalled
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    Encoding,
    ExpandRequest,
    Expansion,
    SearchRequest,
    SearchResult,
    TokenVectors,
)
from vmemo.models.timings import StageTimer
from vmemo.ports import Context, TokenEmbedder
from vmemo.recall.budget import pack, weigh
from vmemo.recall.channels import ChannelResults, Channels, channel_weights
from vmemo.recall.fuse import ChannelRanking, Fused, Fuser, placements
from vmemo.recall.graph_channel import GraphActivation, GraphRanking, max_expansions
from vmemo.recall.llm_time_resolver import LLMResolvedTime, LLMTimeResolver
from vmemo.recall.query import Query
from vmemo.recall.rerank import Reranked, RerankScores, late_shortlist, reorder, score_texts, score_tokens
from vmemo.text.questions import MAX_QUERY_CHARS, QueryAnalysis, analyse_query

_STAGES = {"edges": "graph", "token_vectors": "rerank"}
"""Stages of a recall by the store's part of them."""


async def recall(query: Query, context: Context, resolver: LLMTimeResolver | None = None) -> Recalled:
    """Analyse the question, search, fuse, follow the graph, rerank, weigh and pack.

    `resolver` resolves times that the rules can't.
    """
    timer = StageTimer()
    with timer.stage("analyse"):
        analysis = await _analyse(query, context, report_unresolved=resolver is not None)
    channels = Channels(query, analysis, context.settings.channels, context.embedder.name)
    run = _Run(query, context, channels, timer)
    encodings = await run.embed()
    results, resolved = await run.search(encodings, resolver)
    ranked = await run.rank(results)
    with timer.stage("load"):
        hits, titles = await run.load(ranked)
    explanation = None
    if query.explain:
        hits = _explained(hits, ranked)
        explanation = run.explain(results, ranked, resolved)
    return Recalled.model_construct(
        query=query.text,
        hits=tuple(hits),
        tokens=sum(hit.fact.tokens for hit in hits),
        at_time=query.scope.at_time,
        known_at=query.scope.known_at,
        titles=titles,
        timings=timer.timings,
        explanation=explanation,
    )


async def _analyse(query: Query, context: Context, *, report_unresolved: bool) -> QueryAnalysis:
    if not context.settings.analysis:
        return QueryAnalysis(type="general", during=None)
    now = query.now or utc_now()
    report_unresolved = report_unresolved and "temporal" in context.settings.channels
    analysis = analyse_query(query.text, now, report_unresolved=report_unresolved)
    if context.time_reader is None:
        return analysis
    foreign = (await asyncio.to_thread(context.time_reader, query.text, now))[:1]
    if foreign and analysis.unresolved_time is not None and analysis.unresolved_time.foreign:
        analysis = replace(analysis, unresolved_time=None)
    found = [*foreign, *filter(None, [analysis.during])]
    # The shorter interval is the better reading: the English rules know only "2024" in "4. März 2024".
    return replace(analysis, during=min(found, key=_length), type="temporal") if found else analysis


def _length(time: Interval) -> timedelta:
    return time.end - time.start if time.start is not None and time.end is not None else timedelta.max


@dataclass(frozen=True, kw_only=True)
class _Ranked:
    """The candidates before and after reranking, and the rankings that they come from."""

    rankings: Sequence[ChannelRanking]
    graph: GraphRanking = field(default_factory=GraphRanking)
    fused: Sequence[Fused]
    reranked: Reranked


@dataclass(frozen=True)
class _Run:
    """The stages of one recall that need the store or a model, in the order in which they run."""

    query: Query
    context: Context
    channels: Channels
    timer: StageTimer

    @property
    def now(self) -> datetime:
        return self.query.now or utc_now()

    async def embed(self) -> Sequence[Encoding]:
        """Embed the question and its parts."""
        texts = [self.query.text, *self.channels.analysis.parts]
        embedder = self.context.embedder
        with self.timer.stage("embed"):
            if self.context.reranker == "late" and isinstance(embedder, TokenEmbedder):
                return await embedder.encode(texts, "query")
            return [Encoding(vector) for vector in await embedder.embed(texts, "query")]

    async def search(
        self, encodings: Sequence[Encoding], resolver: LLMTimeResolver | None
    ) -> tuple[ChannelResults, LLMResolvedTime | None]:
        """Search all channels but the graph, which starts from their results."""
        analysis, resolved = self.channels.analysis, None
        if resolver is None or analysis.unresolved_time is None:
            request = self.channels.request(encodings, analysis.during)
            result = await self._search(request)
            rankings = self.channels.rankings(request, result)
        else:
            # Only the temporal channel waits for the model.
            request = self.channels.request(encodings, None)
            result, resolved = await asyncio.gather(self._search(request), self._resolve_time(resolver))
            timed = self.channels.temporal_request(encodings[0], resolved.during or analysis.during)
            rankings = self.channels.rankings(request, result)
            if timed.temporal is not None:
                rankings += self.channels.rankings(timed, await self._search(timed))
        entries = result.semantic[0].hits if result.semantic else ()
        found = ChannelResults(rankings=rankings, question=encodings[0], entities=result.entities, entries=entries)
        return found, resolved

    async def _search(self, request: SearchRequest) -> SearchResult:
        with self.timer.stage("search"):
            result = await self.context.store.search(request)
        self.timer.add(result.timings)
        return result

    async def _resolve_time(self, resolver: LLMTimeResolver) -> LLMResolvedTime:
        with self.timer.stage("resolve_time"):
            return await resolver.resolve(self.query.scope.bank, self.query.text[:MAX_QUERY_CHARS], self.now)

    async def rank(self, found: ChannelResults) -> _Ranked:
        """Fuse the rankings, follow the graph, and rerank."""
        fuser = Fuser(self.context.settings.fusion)
        with self.timer.stage("fuse"):
            fuser.add(found.rankings)
            first = fuser.order()
        graph, scores = await self._expand(found, first)
        graph_ranking = self.channels.graph_ranking(graph.ranking)
        with self.timer.stage("fuse"):
            fuser.add(graph_ranking)
            fused = fuser.order()
        if self.channels.analysis.type == "multi-hop":
            # The answer may be a fact that only the graph leads to.
            seen = {candidate.id for candidate in first}
            new = [candidate for candidate in fused if candidate.id not in seen]
            scores = scores.merge(await self._rerank_more(new, found))
        return _Ranked(
            rankings=[*found.rankings, *graph_ranking], graph=graph, fused=fused, reranked=reorder(fused, scores)
        )

    async def _expand(self, found: ChannelResults, first: Sequence[Fused]) -> tuple[GraphRanking, RerankScores]:
        """Follow the graph and rerank the first candidates; one request fetches what both begin with."""
        activation = self._activation(found)
        edges, ids = activation.next_query(), self._late_shortlist(first, found)
        expansion = Expansion()
        if edges is not None or ids:
            request = ExpandRequest(bank=self.query.scope.bank, edges=edges, token_vectors=ids)
            expansion = await self.context.store.expand(request)
            self.timer.add({_STAGES[name]: milliseconds for name, milliseconds in expansion.timings.items()})
        return await asyncio.gather(
            self._follow_graph(activation, expansion.edges),
            self._rerank(first, found, ids, expansion.token_vectors),
        )

    def _activation(self, found: ChannelResults) -> GraphActivation:
        scope, question = self.query.scope, found.question
        base = EdgeQuery(scope=scope, space=self.context.embedder.name, vector=question.vector)
        enabled = "graph" in self.channels.enabled
        expansions = max_expansions(self.channels.analysis.type, self.query.nodes) if enabled else 0
        return GraphActivation(base, found.entries, found.entities, expansions=expansions)

    def _late_shortlist(self, candidates: Sequence[Fused], found: ChannelResults) -> list[FactId]:
        compares_tokens = self.context.reranker == "late" and found.question.tokens is not None
        return late_shortlist(candidates, self.query) if compares_tokens else []

    async def _follow_graph(self, activation: GraphActivation, edges: Sequence[Edge]) -> GraphRanking:
        if "graph" not in self.channels.enabled:
            return GraphRanking()
        with self.timer.stage("graph"):
            activation.follow(edges)
            while (query := activation.next_query()) is not None:
                request = ExpandRequest(bank=self.query.scope.bank, edges=query)
                activation.follow((await self.context.store.expand(request)).edges)
            return activation.result(self.query.nodes)

    async def _rerank(
        self,
        candidates: Sequence[Fused],
        found: ChannelResults,
        ids: Sequence[FactId],
        vectors: Sequence[TokenVectors | None],
    ) -> RerankScores:
        """Score candidates by the reranker; `ids` and `vectors` are what late interaction compares."""
        reranker, question = self.context.reranker, found.question.tokens
        with self.timer.stage("rerank"):
            if not isinstance(reranker, str):
                return await score_texts(self.query, candidates, reranker, self.context.store)
            return score_tokens(ids, question, vectors) if question is not None and ids else RerankScores()

    async def _rerank_more(self, candidates: Sequence[Fused], found: ChannelResults) -> RerankScores:
        ids = self._late_shortlist(candidates, found)
        request = ExpandRequest(bank=self.query.scope.bank, token_vectors=ids)
        vectors = (await self.context.store.expand(request)).token_vectors if ids else ()
        return await self._rerank(candidates, found, ids, vectors)

    async def load(self, ranked: _Ranked) -> tuple[list[Hit], Mapping[EpisodeId, str]]:
        """Load the hits that fit. Weighing needs all candidates loaded before it is known which fit."""
        query, candidates = self.query, ranked.reranked.candidates
        weighted = query.recency_half_life is not None or query.importance_weight > 0
        chosen = candidates if weighted else pack(candidates, query.max_tokens, query.top_k)
        facts, titles = await self._load(chosen, ranked.rankings)
        placed = placements(ranked.rankings, facts.keys())
        hits = [_hit(facts[item.id], item.score, placed[item.id]) for item in chosen if item.id in facts]
        if weighted:
            half_life, importance = query.recency_half_life, query.importance_weight
            hits = weigh(hits, self.now, half_life=half_life, importance_weight=importance)
        return pack(hits, query.max_tokens, query.top_k), titles

    async def _load(
        self, chosen: Sequence[Fused], rankings: Sequence[ChannelRanking]
    ) -> tuple[dict[FactId, Fact], Mapping[EpisodeId, str]]:
        bank = self.query.scope.bank
        verbatim = {hit.id for each in rankings if each.channel == "verbatim" for hit in each.ranking.hits}
        loaded = await self.context.store.load(
            bank,
            [item.id for item in chosen if item.id not in verbatim],
            messages=[MessageId(item.id) for item in chosen if item.id in verbatim],
        )
        facts = {fact.id: fact for fact in loaded.facts}
        for message in loaded.messages:
            facts[FactId(message.id)] = Fact.in_own_words(message, bank, self.context.counter)
        return facts, loaded.titles

    def explain(self, found: ChannelResults, ranked: _Ranked, resolved: LLMResolvedTime | None) -> Explanation:
        """Return the explanation of this recall."""
        analysis, context = self.channels.analysis, self.context
        candidates: dict[Channel, set[FactId]] = {}
        for channel, ranking, _ in ranked.rankings:
            candidates.setdefault(channel, set()).update(hit.id for hit in ranking.hits)
        weights = channel_weights(analysis.type)
        resolved = resolved or LLMResolvedTime()
        during = resolved.during or analysis.during
        return Explanation(
            type=analysis.type,
            during=during,
            resolved_by=None if during is None else "model" if resolved.during else "rules",
            unresolved_time=analysis.unresolved_time.text if analysis.unresolved_time else None,
            problem=resolved.problem,
            parts=analysis.parts,
            entities=tuple(found.entities),
            weights={channel: weights[channel] for channel in weights if channel in self.channels.enabled},
            candidates={channel: len(ids) for channel, ids in candidates.items()},
            reranker=context.reranker if isinstance(context.reranker, str) else context.reranker.name,
            reranked=ranked.reranked.count,
        )


def _hit(fact: Fact, score: float, channels: Mapping[Channel, ChannelPlacement]) -> Hit:
    verbatim = "verbatim" in channels
    values = {"fact": fact, "score": score, "channels": channels, "verbatim": verbatim, "path": (), "reranking": None}
    return Hit.trusted(values)


def _explained(hits: Sequence[Hit], ranked: _Ranked) -> list[Hit]:
    """Return hits with their paths through the graph and their ranks before and after reranking."""
    reranked = ranked.reranked
    before = {item.id: rank for rank, item in enumerate(ranked.fused, start=1)}
    after = {item.id: rank for rank, item in enumerate(reranked.candidates, start=1)}
    return [
        hit.model_copy(
            update={
                "path": ranked.graph.path(hit.id),
                "reranking": Reranking(before[hit.id], after[hit.id], reranked.scores.get(hit.id))
                if reranked.count
                else None,
            }
        )
        for hit in hits
    ]
