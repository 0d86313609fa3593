"""A recall from query to result. It only reads; access counts are collected by the caller and written later."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

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
from vmemo.ports import Context
from vmemo.recall.explain import explanation
from vmemo.recall.fuse import Fused, Tally, placings
from vmemo.recall.llm_time_resolver import TimeModel
from vmemo.recall.pack import pack
from vmemo.recall.query import Query
from vmemo.recall.rerank import Looked, Reranked, by_reading, by_tokens, reordered
from vmemo.recall.search import Found, Searching
from vmemo.recall.stopwatch import Stopwatch
from vmemo.recall.weigh import weigh
from vmemo.text.questions import QueryAnalysis, analyse_query


async def recall(query: Query, context: Context, when: TimeModel | None = None) -> Recalled:
    """Analyse, search, fuse, rerank, weigh and pack; `when` resolves times that the rules can't."""
    watch = Stopwatch()
    with watch.stage("analyse"):
        thorough = when is not None and "temporal" in context.settings.channels
        analysis = await _analysed(query, context, thorough=thorough)
    searching = Searching(query, analysis, context, when, watch)
    found, fused, ranked = await _ranked(query, analysis, searching, context)
    with watch.stage("load"):
        hits, titles = await _load(query, ranked, found, context)
    why = None
    if query.explain:
        hits = _explained(hits, fused, ranked, found)
        why = explanation(analysis, found, context, ranked)
    return _result(query, hits, titles, watch, why)


async def _analysed(query: Query, context: Context, *, thorough: bool) -> QueryAnalysis:
    if not context.settings.analysis:
        return QueryAnalysis(type="general", during=None)
    now = query.now or utc_now()
    analysis = analyse_query(query.text, now, report_unresolved=thorough)
    if context.time_reader is None:
        return analysis
    foreign = (await asyncio.to_thread(context.time_reader, query.text, now))[:1]
    if foreign and analysis.unresolved_time is not None and analysis.unresolved_time.foreign:
        analysis = replace(analysis, unresolved_time=None)
    found = [*foreign, *filter(None, [analysis.during])]
    # The narrower one is what was read better: rules for English know "2024" alone in "4. März 2024".
    return replace(analysis, during=min(found, key=_length), type="temporal") if found else analysis


def _length(time: Interval) -> timedelta:
    return time.end - time.start if time.start is not None and time.end is not None else timedelta.max


async def _ranked(
    query: Query, analysis: QueryAnalysis, searching: Searching, context: Context
) -> tuple[Found, Sequence[Fused], Reranked]:
    """The channels' candidates, fused, and in their new order. The graph is followed while the reranker looks."""
    found, tally = await searching.run(), Tally(context.settings.fusion)
    with searching.watch.stage("fuse"):
        tally.add(found.strands)
        first = tally.order()
    graph, looked = await asyncio.gather(
        searching.through_graph(found), searching.timed("rerank", partial(_look, query, first, found, context))
    )
    reached = searching.reached(graph)
    with searching.watch.stage("fuse"):
        tally.add(reached)
        fused = tally.order()
    if analysis.type == "multi-hop":
        # What only the graph leads to may be just what is asked for.
        seen = {candidate.id for candidate in first}
        new = [candidate for candidate in fused if candidate.id not in seen]
        looked = looked.and_also(await searching.timed("rerank", partial(_look, query, new, found, context)))
    found = replace(found, strands=[*found.strands, *reached], graph=graph)
    return found, fused, reordered(fused, looked)


async def _look(query: Query, fused: Sequence[Fused], found: Found, context: Context) -> Looked:
    """What the plan's reranker thinks of candidates."""
    if not fused or context.reranker == "none":
        return Looked()
    if context.reranker != "late":
        return await by_reading(query, fused, context.reranker, context.store)
    return Looked() if found.query.tokens is None else await by_tokens(query, fused, found.query.tokens, context.store)


async def _load(
    query: Query, ranked: Reranked, found: Found, context: Context
) -> tuple[list[Hit], Mapping[EpisodeId, str]]:
    """Hits that fit. Only they are read from the store, unless weighing needs to see all candidates."""
    weighed = query.recency_half_life is not None or query.importance_weight > 0
    chosen = ranked.candidates if weighed else pack(ranked.candidates, query.max_tokens, query.top_k)
    facts, titles = await _facts(query, chosen, found, context)
    placed = placings(found.strands, facts.keys())
    hits = [_hit(facts[item.id], item.score, placed[item.id]) for item in chosen if item.id in facts]
    if weighed:
        now = query.now or utc_now()
        hits = weigh(hits, now, half_life=query.recency_half_life, importance_weight=query.importance_weight)
    return pack(hits, query.max_tokens, query.top_k), titles


async def _facts(
    query: Query, chosen: Sequence[Fused], found: Found, context: Context
) -> tuple[dict[FactId, Fact], Mapping[EpisodeId, str]]:
    bank = query.scope.bank
    said = {hit.id for strand in found.strands if strand.channel == "verbatim" for hit in strand.ranking.hits}
    loaded = await context.store.load(bank, [item.id for item in chosen if item.id not in said])
    facts = {fact.id: fact for fact in loaded.facts}
    messages = [MessageId(item.id) for item in chosen if item.id in said]
    for message in await context.store.messages(bank, messages) if messages else ():
        facts[FactId(message.id)] = Fact.in_own_words(message, bank, context.counter)
    return facts, loaded.titles


def _hit(fact: Fact, score: float, channels: Mapping[Channel, ChannelPlacement]) -> Hit:
    said = "verbatim" in channels
    values = {"fact": fact, "score": score, "channels": channels, "verbatim": said, "path": (), "reranking": None}
    return Hit.trusted(values)


def _explained(hits: Sequence[Hit], fused: Sequence[Fused], ranked: Reranked, found: Found) -> list[Hit]:
    before = {item.id: place for place, item in enumerate(fused, start=1)}
    after = {item.id: place for place, item in enumerate(ranked.candidates, start=1)}
    return [
        hit.model_copy(
            update={
                "path": found.graph.path(hit.id),
                "reranking": Reranking(before[hit.id], after[hit.id], ranked.scores.get(hit.id))
                if ranked.looked_at
                else None,
            }
        )
        for hit in hits
    ]


def _result(
    query: Query, hits: Sequence[Hit], titles: Mapping[EpisodeId, str], watch: Stopwatch, why: Explanation | None
) -> Recalled:
    return Recalled.model_construct(
        query=query.text,
        hits=tuple(hits),
        tokens=sum(hit.fact.tokens for hit in hits),
        at_time=query.scope.at_time,
        known_at=query.scope.known_at,
        titles=titles,
        timings=watch.timings(),
        explanation=why,
    )
