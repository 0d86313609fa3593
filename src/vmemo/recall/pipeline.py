"""A recall from request to result. It only reads; access counts are collected by the caller and written later."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from vmemo.errors import InvalidInput
from vmemo.models import BankId, Hit, QuestionTense, utc_now
from vmemo.models.recalled import Recalled
from vmemo.models.records import shortened
from vmemo.models.requests import RetrieveRequest
from vmemo.models.search import Encoding, Scope, StageTimer
from vmemo.models.select import MessageSelect
from vmemo.ports import BankReader, Context, Reranker, gives_tokens
from vmemo.recall.answerable import answer_weights, towards_constraints
from vmemo.recall.fuse import score_texts
from vmemo.recall.llm_time_resolver import LLMResolvedTime, LLMTimeResolver
from vmemo.recall.load import FoundInBank, load_hits
from vmemo.recall.rank import find_candidates, order_candidates, with_former
from vmemo.recall.run import SUFFICIENT, RecallQuery, RecallRun, beside_observations, for_observations, nodes_of
from vmemo.recall.several_banks import in_bank, join_banks
from vmemo.text.procedures import is_outcome
from vmemo.text.questions import MAX_QUERY_CHARS, QueryAnalysis, analyse_query

MAX_OUTCOMES = 3
"""Latest words on the outcome of a procedure that are shown with it."""
GATHER = 2.0
"""Factor of the candidates that are searched if a question asks to count or to list everything."""
SHORT_QUERY = 500
"""Characters of a query that is analysed without a thread, which would take longer than the analysis."""


async def recall(
    request: RecallQuery,
    banks: Sequence[BankId],
    context: Context,
    resolver: LLMTimeResolver | None = None,
    *,
    tense: QuestionTense | None = None,
    with_questions: bool = False,
    share: float = SUFFICIENT,
) -> Recalled:
    """Analyse the question, search, fuse, follow the graph, rerank, weigh and pack.

    `resolver` resolves times that the rules can't. `tense` is that of the question that this one is a part of: former
    facts belong to a question about the past. Hits of a precise recall have at least about this `share` of the best
    score. Several banks are searched concurrently, each within the whole budget, and joined into one result.
    """
    if request.min_answerable and (answer_weights(context.embedder) is None or context.reranker != "late"):
        raise InvalidInput(
            f"min_answerable is {request.min_answerable}, but only the packaged embedder and reranker give that "
            "probability; leave it out."
        )
    timer = StageTimer()
    with timer.stage("analyse"):
        analysis = await _analyse(request, context, report_unresolved=resolver is not None)
        analysis = replace(analysis, tense=tense or analysis.tense)
    embedding, resolved = _embed([request.query, *analysis.parts], context, timer), None
    if resolver is None or analysis.unresolved_time is None:
        encodings = await embedding
    else:
        encodings, resolved = await asyncio.gather(embedding, _resolve_time(request, banks[0], resolver, timer))
    towards = towards_constraints(encodings[0].vector, context.embedder)
    run = RecallRun(
        request=request,
        context=context,
        analysis=analysis,
        timer=timer,
        encodings=encodings if towards is None else [encodings[0]._replace(vector=towards), *encodings[1:]],
        during=analysis.during if resolved is None else resolved.during or analysis.during,
        scope=with_former(Scope.of_request(banks[0], request), analysis, request.now or utc_now()),
        nodes=math.ceil(nodes_of(request) * (GATHER if analysis.gathers else 1)),
        max_tokens=None if isinstance(request, RetrieveRequest) else request.max_tokens,
        top_k=request.top_k if isinstance(request, RetrieveRequest) else None,
        resolved=resolved,
        share=share,
        with_questions=with_questions,
    )
    if len(banks) == 1:
        found = (await _search(run)).recalled
    else:
        runs = [in_bank(run, bank, of=len(banks)) for bank in banks]
        found = join_banks(run, runs, await asyncio.gather(*map(_search, runs)))
    if found.answerable is not None and found.answerable < request.min_answerable:
        found = found.model_copy(update={"hits": ()})
    tokens = sum([hit.fact.tokens for hit in found.hits])
    result = found.model_copy(update={"tokens": tokens, "max_tokens": run.max_tokens, "timings": timer.timings})
    return result.counted_by(context.counter)


async def _analyse(request: RecallQuery, context: Context, *, report_unresolved: bool) -> QueryAnalysis:
    if not context.settings.analysis:
        return QueryAnalysis(type="general", during=None)
    text, now = request.query, request.now or utc_now()
    report_unresolved = report_unresolved and "temporal" in context.settings.channels
    southern = context.settings.southern_seasons
    analyse = partial(analyse_query, text, now, report_unresolved=report_unresolved, southern=southern)
    analysis = analyse() if len(text) <= SHORT_QUERY else await asyncio.to_thread(analyse)
    if context.time_reader is None:
        return analysis
    foreign = (await asyncio.to_thread(context.time_reader, text, now))[:1]
    if foreign and analysis.unresolved_time is not None and analysis.unresolved_time.foreign:
        analysis = replace(analysis, unresolved_time=None)
    found = [*foreign, *filter(None, [analysis.during])]
    # The shorter interval is the better reading: the English rules know only "2024" in "4. März 2024".
    if not found:
        return analysis
    lengths = [each.end - each.start if each.start and each.end else timedelta.max for each in found]
    return replace(analysis, during=found[lengths.index(min(lengths))], type="temporal")


async def _embed(texts: Sequence[str], context: Context, timer: StageTimer) -> Sequence[Encoding]:
    embedder = context.embedder
    with timer.stage("embed"):
        if context.reranker == "late" and gives_tokens(embedder):
            return await embedder.encode(texts, "query")
        return [Encoding(vector) for vector in await embedder.embed(texts, "query")]


async def _resolve_time(
    request: RecallQuery, bank: BankId, resolver: LLMTimeResolver, timer: StageTimer
) -> LLMResolvedTime:
    with timer.stage("resolve_time"):
        return await resolver.resolve(bank, request.query[:MAX_QUERY_CHARS], request.now or utc_now())


async def _search(run: RecallRun) -> FoundInBank:
    context = run.context
    if isinstance(context.reranker, str):
        found = await context.store.read(run.scope.bank, partial(_find, run))
    else:
        found = await _find_reranked(run, context.reranker)
    if not [hit for hit in found.recalled.hits if hit.fact.metadata and hit.fact.is_procedure]:
        return found
    hits = tuple([await _with_outcomes(run, hit) for hit in found.recalled.hits])
    return found._replace(recalled=found.recalled.model_copy(update={"hits": hits}))


async def _with_outcomes(run: RecallRun, hit: Hit) -> Hit:
    """Return a procedure with what was last said of its outcome; others as they are."""
    own, *others = hit.fact.messages or (None,)
    if own is None or not others or not hit.fact.is_procedure:
        return hit
    messages = await run.context.store.messages(run.scope.bank, MessageSelect(ids=others))
    said = [f"{m.timestamp.day} {m.timestamp:%B %Y}: {shortened(m.content)}" for m in messages if is_outcome(m.content)]
    return hit.model_copy(update={"outcomes": tuple(said[-MAX_OUTCOMES:])})


def _find(run: RecallRun, reader: BankReader) -> FoundInBank:
    """Search, rank and load in one read of the store: observations on their own, in their share of the budget."""
    observing = for_observations(run)
    observed = None if observing is None else _find_one(observing, reader)
    return _joined(observed, _find_one(beside_observations(run, _whole(observed)), reader))


def _find_one(run: RecallRun, reader: BankReader) -> FoundInBank:
    found = find_candidates(run, reader)
    return load_hits(run, order_candidates(run, found, found.late), reader)


async def _find_reranked(run: RecallRun, reranker: Reranker) -> FoundInBank:
    """Do what `_find` does, with a reranker of the caller, which takes long, between two reads of the store."""
    observing = for_observations(run)
    observed = None if observing is None else await _rerank_one(observing, reranker)
    return _joined(observed, await _rerank_one(beside_observations(run, _whole(observed)), reranker))


async def _rerank_one(run: RecallRun, reranker: Reranker) -> FoundInBank:
    store, bank = run.context.store, run.scope.bank
    found = await store.read(bank, partial(find_candidates, run))
    with run.timer.stage("rerank"):
        scores = await score_texts(run, found.first, reranker)
        if run.analysis.type == "multi-hop":
            scores = scores.merge(await score_texts(run, found.only_linked, reranker))
    return await store.read(bank, partial(load_hits, run, order_candidates(run, found, scores)))


def _whole(found: FoundInBank | None) -> Sequence[Hit]:
    return [] if found is None else [hit for hit in found.recalled.hits if not hit.truncated]


def _joined(observed: FoundInBank | None, found: FoundInBank) -> FoundInBank:
    if observed is None:
        return found
    hits = sorted([*_whole(observed), *found.recalled.hits], key=lambda hit: hit.score, reverse=True)
    recalled = found.recalled.model_copy(update={"hits": tuple(hits)})
    return found._replace(recalled=recalled, relevance={**observed.relevance, **found.relevance})
