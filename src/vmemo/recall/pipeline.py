"""A recall from query to result. It only reads; access counts are collected by the caller and written later."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from vmemo.models import Hit, Interval, utc_now
from vmemo.models.recalled import Recalled
from vmemo.models.search import Encoding, StageTimer
from vmemo.ports import BankReader, Context, Reranker, gives_tokens
from vmemo.recall.channels import Channels
from vmemo.recall.explain import explain, explained_hits
from vmemo.recall.llm_time_resolver import LLMResolvedTime, LLMTimeResolver
from vmemo.recall.load import FoundHits, load_hits
from vmemo.recall.observations import beside_observations, observation_query
from vmemo.recall.query import Query
from vmemo.recall.rank import find_candidates, order_candidates
from vmemo.recall.rerank import score_texts
from vmemo.recall.revisions import with_former
from vmemo.recall.run import RecallRun
from vmemo.text.questions import MAX_QUERY_CHARS, QueryAnalysis, analyse_query

GATHER = 2.0
"""Factor of the candidates that are searched if a question asks to count or to list everything."""
SHORT_QUERY = 500
"""Characters of a query that is analysed without a thread, which would take longer than the analysis."""


async def recall(query: Query, context: Context, resolver: LLMTimeResolver | None = None) -> Recalled:
    """Analyse the question, search, fuse, follow the graph, rerank, weigh and pack.

    `resolver` resolves times that the rules can't.
    """
    timer = StageTimer()
    with timer.stage("analyse"):
        analysis = await _analyse(query, context, report_unresolved=resolver is not None)
        analysis = replace(analysis, tense=query.tense or analysis.tense)
    query = replace(query, scope=with_former(query.scope, analysis, query.now or utc_now()))
    if analysis.gathers:
        query = replace(query, nodes=math.ceil(query.nodes * GATHER))
    embedding, resolved = _embed([query.text, *analysis.parts], context, timer), None
    if resolver is None or analysis.unresolved_time is None:
        encodings = await embedding
    else:
        encodings, resolved = await asyncio.gather(embedding, _resolve_time(query, resolver, timer))
    run = RecallRun(
        query=query,
        context=context,
        channels=Channels(query, analysis, context.settings, context.embedder.name),
        timer=timer,
        encodings=encodings,
        during=analysis.during,
    )
    observed = await _observations(run)
    during = analysis.during if resolved is None else resolved.during or analysis.during
    run = replace(run.for_query(beside_observations(query, observed)), during=during)
    found = await _find(run)
    hits, explanation = found.hits, None
    if query.explain:
        hits = explained_hits(hits, found.ranked)
        explanation = explain(run, found.ranked, resolved)
    if observed:
        hits = sorted([*observed, *hits], key=lambda hit: hit.score, reverse=True)
    result = Recalled.model_construct(
        query=query.text,
        hits=tuple(hits),
        instructions=found.instructions,
        tokens=sum(hit.tokens for hit in hits),
        max_tokens=query.max_tokens,
        at_time=query.scope.at_time,
        known_at=query.scope.known_at,
        titles=found.titles,
        timings=timer.timings,
        explanation=explanation,
    )
    return result.counted_by(context.counter)


async def _analyse(query: Query, context: Context, *, report_unresolved: bool) -> QueryAnalysis:
    if not context.settings.analysis:
        return QueryAnalysis(type="general", during=None)
    now = query.now or utc_now()
    report_unresolved = report_unresolved and "temporal" in context.settings.channels
    southern = context.settings.southern_seasons
    analyse = partial(analyse_query, query.text, now, report_unresolved=report_unresolved, southern=southern)
    analysis = analyse() if len(query.text) <= SHORT_QUERY else await asyncio.to_thread(analyse)
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


async def _embed(texts: Sequence[str], context: Context, timer: StageTimer) -> Sequence[Encoding]:
    """Embed the question and its parts."""
    embedder = context.embedder
    with timer.stage("embed"):
        if context.reranker == "late" and gives_tokens(embedder):
            return await embedder.encode(texts, "query")
        return [Encoding(vector) for vector in await embedder.embed(texts, "query")]


async def _resolve_time(query: Query, resolver: LLMTimeResolver, timer: StageTimer) -> LLMResolvedTime:
    """Let the model resolve a time that the rules found and could not resolve."""
    with timer.stage("resolve_time"):
        return await resolver.resolve(query.scope.bank, query.text[:MAX_QUERY_CHARS], query.now or utc_now())


async def _observations(run: RecallRun) -> Sequence[Hit]:
    """Search the observations on their own and return those that fit into their share of the budget."""
    query = observation_query(run.query)
    if query is None:
        return []
    found = await _find(run.for_query(query))
    whole = [hit for hit in found.hits if not hit.truncated]
    return explained_hits(whole, found.ranked) if query.explain else whole


async def _find(run: RecallRun) -> FoundHits:
    """Search, rank and load, all in one read of the store."""
    reranker = run.context.reranker
    if not isinstance(reranker, str):
        return await _find_reranked(run, reranker)

    def find(reader: BankReader) -> FoundHits:
        found = find_candidates(run, reader)
        return load_hits(run, reader, order_candidates(run, found, found.late))

    return await run.context.store.read(run.query.scope.bank, find)


async def _find_reranked(run: RecallRun, reranker: Reranker) -> FoundHits:
    """Search, let a reranker of the caller compare the texts, which takes long, and load in a later read."""
    store, query = run.context.store, run.query
    found = await store.read(query.scope.bank, partial(find_candidates, run))
    with run.timer.stage("rerank"):
        scores = await score_texts(query, found.first, reranker, store)
        if run.channels.analysis.type == "multi-hop":
            scores = scores.merge(await score_texts(query, found.only_linked, reranker, store))
    ranked = order_candidates(run, found, scores)
    return await store.read(query.scope.bank, lambda reader: load_hits(run, reader, ranked))
