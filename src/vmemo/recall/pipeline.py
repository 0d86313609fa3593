"""A recall from query to result. It only reads; access counts are collected by the caller and written later."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from datetime import timedelta
from functools import partial

from vmemo.models import (
    BankId,
    Channel,
    ChannelPlacement,
    EpisodeId,
    Fact,
    FactId,
    Hit,
    Interval,
    Message,
    MessageId,
    utc_now,
)
from vmemo.models.recall_prompt import INSTRUCTION_SHARE
from vmemo.models.recalled import Recalled
from vmemo.models.search import Encoding, SearchRequest, SearchResult
from vmemo.models.timings import StageTimer
from vmemo.ports import Context, TokenCounter, TokenEmbedder
from vmemo.recall.budget import first_fitting, pack, spread_over_episodes, weigh
from vmemo.recall.channels import ChannelResults, Channels
from vmemo.recall.explain import explain, explained_hits
from vmemo.recall.fuse import ChannelRanking, Fused, placements
from vmemo.recall.instructions import choose_instructions
from vmemo.recall.llm_time_resolver import LLMResolvedTime, LLMTimeResolver
from vmemo.recall.noise import MORE, facts_for_lines, is_left_out, weigh_replies, weighs_less, without_rests
from vmemo.recall.observations import beside_observations, observation_query
from vmemo.recall.query import Query
from vmemo.recall.rank import RankedCandidates, rank
from vmemo.recall.revisions import with_former
from vmemo.recall.run import RecallRun
from vmemo.recall.status import status_of
from vmemo.text.questions import MAX_QUERY_CHARS, QueryAnalysis, analyse_query

SHORT_QUERY = 500
"""Characters of a query that is analysed without a thread, which would take longer than the analysis."""


async def recall(query: Query, context: Context, resolver: LLMTimeResolver | None = None) -> Recalled:
    """Analyse the question, search, fuse, follow the graph, rerank, weigh and pack.

    `resolver` resolves times that the rules can't.
    """
    timer = StageTimer()
    with timer.stage("analyse"):
        analysis = await _analyse(query, context, report_unresolved=resolver is not None)
    query = replace(query, scope=with_former(query.scope, analysis, query.now or utc_now()))
    if analysis.gathers:
        query = replace(query, nodes=math.ceil(query.nodes * context.settings.fusion.gather))
    channels = Channels(query, analysis, context.settings, context.embedder.name)
    run = RecallRun(query, context, channels, timer)
    encodings = await _embed(run)
    observed = await _observations(run, encodings)
    run = run.for_query(beside_observations(query, observed))
    results, resolved = await _search(run, encodings, resolver)
    ranked = await rank(run, results)
    with timer.stage("load"):
        hits, titles = await _load(run, ranked)
        instructions = await _instructions(run, results.instructions, hits)
    explanation = None
    if query.explain:
        hits = explained_hits(hits, ranked)
        explanation = explain(run, results, ranked, resolved)
    if observed:
        hits = sorted([*observed, *hits], key=lambda hit: hit.score, reverse=True)
    result = Recalled.model_construct(
        query=query.text,
        hits=tuple(hits),
        instructions=instructions,
        tokens=sum(hit.fact.tokens for hit in hits),
        max_tokens=query.max_tokens,
        at_time=query.scope.at_time,
        known_at=query.scope.known_at,
        titles=titles,
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


async def _embed(run: RecallRun) -> Sequence[Encoding]:
    """Embed the question and its parts."""
    texts = [run.query.text, *run.channels.analysis.parts]
    embedder = run.context.embedder
    with run.timer.stage("embed"):
        if run.context.reranker == "late" and isinstance(embedder, TokenEmbedder):
            return await embedder.encode(texts, "query")
        return [Encoding(vector) for vector in await embedder.embed(texts, "query")]


async def _observations(run: RecallRun, encodings: Sequence[Encoding]) -> list[Hit]:
    """Search the observations on their own and return those that fit into their share of the budget."""
    query = observation_query(run.query, run.context.settings.observations)
    if query is None:
        return []
    run = run.for_query(query)
    results, _ = await _search(run, encodings, None)
    ranked = await rank(run, results)
    hits, _ = await _load(run, ranked)
    whole = [hit for hit in hits if not hit.truncated]
    return explained_hits(whole, ranked) if query.explain else whole


async def _search(
    run: RecallRun, encodings: Sequence[Encoding], resolver: LLMTimeResolver | None
) -> tuple[ChannelResults, LLMResolvedTime | None]:
    """Search all channels but the graph, which starts from their results."""
    analysis, resolved = run.channels.analysis, None
    if resolver is None or analysis.unresolved_time is None:
        request = run.channels.request(encodings, analysis.during)
        result = await _search_store(run, request)
        rankings = run.channels.rankings(request, result)
    else:
        # Only the temporal channel waits for the model.
        request = run.channels.request(encodings, None)
        result, resolved = await asyncio.gather(_search_store(run, request), _resolve_time(run, resolver))
        timed = run.channels.temporal_request(encodings[0], resolved.during or analysis.during)
        rankings = run.channels.rankings(request, result)
        if timed.temporal is not None:
            rankings += run.channels.rankings(timed, await _search_store(run, timed))
    entries = result.semantic[0].hits if result.semantic else ()
    found = ChannelResults(
        rankings=rankings,
        question=encodings[0],
        entities=result.entities,
        entries=entries,
        instructions=result.instructions,
    )
    return found, resolved


async def _search_store(run: RecallRun, request: SearchRequest) -> SearchResult:
    with run.timer.stage("search"):
        result = await run.context.store.search(request)
    run.timer.add(result.timings)
    return result


async def _resolve_time(run: RecallRun, resolver: LLMTimeResolver) -> LLMResolvedTime:
    with run.timer.stage("resolve_time"):
        return await resolver.resolve(run.query.scope.bank, run.query.text[:MAX_QUERY_CHARS], run.now)


async def _load(run: RecallRun, ranked: RankedCandidates) -> tuple[list[Hit], Mapping[EpisodeId, str]]:
    """Load the hits that fit. Weighing needs all candidates loaded before it is known which fit."""
    query, candidates = run.query, ranked.reranked.candidates
    gathers = run.channels.analysis.gathers
    weighted = query.recency_half_life is not None or query.importance_weight > 0
    chosen = candidates
    if not weighted:
        chosen = first_fitting(candidates, query.max_tokens, query.top_k)
        if gathers and len(chosen) < query.nodes:
            chosen = candidates[: query.nodes]
    hits, titles = await _load_weighed(run, chosen, ranked)
    if gathers:
        revised = {fact for edge in ranked.revisions for fact in (edge.older, edge.newer)}
        hits = spread_over_episodes(hits, run.context.settings.fusion.repeated_episode, revised)
    if weighted:
        half_life, importance = query.recency_half_life, query.importance_weight
        hits = weigh(hits, run.now, half_life=half_life, importance_weight=importance)
    # In a thread, because a long hit that is truncated is counted several times.
    return await asyncio.to_thread(pack, hits, query.max_tokens, query.top_k, run.context.counter), titles


async def _instructions(run: RecallRun, ids: Sequence[FactId], hits: Sequence[Hit]) -> tuple[Fact, ...]:
    """Load the user's standing instructions that fit into their budget."""
    if not ids:
        return ()
    loaded = await run.context.store.load(run.query.scope.bank, ids)
    max_tokens = run.context.settings.instruction_tokens
    if run.query.max_tokens is not None:
        max_tokens = min(max_tokens, run.query.max_tokens // INSTRUCTION_SHARE)
    return choose_instructions(loaded.facts, {hit.id for hit in hits}, max_tokens)


async def _load_weighed(
    run: RecallRun, chosen: Sequence[Fused], ranked: RankedCandidates
) -> tuple[list[Hit], Mapping[EpisodeId, str]]:
    """Load hits, and others that may take the place of messages that are left out and of replies that weigh less."""
    hits, titles = await _load_hits(run, chosen, ranked)
    type, fusion, query = run.channels.analysis.type, run.context.settings.fusion, run.query
    if not isinstance(run.context.reranker, str):
        # A reranker that the caller supplies decides the order.
        fusion = replace(fusion, reply=1.0)
    unrepeated = facts_for_lines(without_rests(hits), query.text)
    if len(unrepeated) == len(chosen) and not any(weighs_less(hit.fact, type, fusion) for hit in hits):
        return hits, titles
    known = {item.id for item in chosen}
    more = first_fitting(ranked.reranked.candidates, _more(query.max_tokens), _more(query.top_k))
    further, other_titles = await _load_hits(run, [item for item in more if item.id not in known], ranked)
    weighed = weigh_replies(facts_for_lines(without_rests([*hits, *further]), query.text), type, fusion)
    return weighed, {**titles, **other_titles}


def _more(limit: int | None) -> int | None:
    return None if limit is None else MORE * limit


async def _load_hits(
    run: RecallRun, chosen: Sequence[Fused], ranked: RankedCandidates
) -> tuple[list[Hit], Mapping[EpisodeId, str]]:
    facts, titles = await _load_facts(run, chosen, ranked.rankings)
    placed = placements(ranked.rankings, facts.keys())
    suspect = run.context.settings.revision_model.suspect
    outdated = {edge.older for edge in ranked.revisions if edge.probability >= suspect}
    hits = [_hit(run, facts[item.id], item, placed[item.id], outdated) for item in chosen if item.id in facts]
    return hits, titles


async def _load_facts(
    run: RecallRun, chosen: Sequence[Fused], rankings: Sequence[ChannelRanking]
) -> tuple[dict[FactId, Fact], Mapping[EpisodeId, str]]:
    bank = run.query.scope.bank
    verbatim = {hit.id for each in rankings if each.channel == "verbatim" for hit in each.ranking.hits}
    loaded = await run.context.store.load(
        bank,
        [item.id for item in chosen if item.id not in verbatim],
        messages=[MessageId(item.id) for item in chosen if item.id in verbatim],
    )
    facts = list(loaded.facts)
    text, with_questions = run.query.text, run.query.with_questions
    messages = [each for each in loaded.messages if not is_left_out(each, text, with_questions=with_questions)]
    if messages:
        # In a thread, because the tokens of a message may be many to count.
        facts += await asyncio.to_thread(_in_own_words, messages, bank, run.context.counter)
    return {fact.id: fact for fact in facts}, loaded.titles


def _in_own_words(messages: Sequence[Message], bank: BankId, counter: TokenCounter) -> list[Fact]:
    return [Fact.in_own_words(message, bank, counter) for message in messages]


def _hit(
    run: RecallRun,
    fact: Fact,
    item: Fused,
    channels: Mapping[Channel, ChannelPlacement],
    outdated: AbstractSet[FactId],
) -> Hit:
    values = {
        "fact": fact,
        "score": item.score,
        "channels": channels,
        "verbatim": "verbatim" in channels,
        "status": status_of(fact, run.query.scope, run.now, outdated=fact.id in outdated),
        "truncated": False,
        "path": (),
        "reranking": None,
        "newer": (),
    }
    return Hit.trusted(values)
