"""Ranking of a recall's candidates: fuse the channels, follow the graph, rerank."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vmemo.models import FactId
from vmemo.models.search import Edge, EdgeQuery, ExpandRequest, Expansion, RevisionEdge, RevisionQuery, TokenVectors
from vmemo.recall.channels import ChannelResults
from vmemo.recall.fuse import ChannelRanking, Fused, Fuser
from vmemo.recall.graph_channel import GraphActivation, GraphRanking, max_expansions
from vmemo.recall.rerank import Reranked, RerankScores, late_shortlist, reorder, score_texts, score_tokens
from vmemo.recall.revisions import applicable, asked_before, in_order
from vmemo.recall.run import RecallRun

_STAGES = {"edges": "graph", "token_vectors": "rerank", "revisions": "revisions"}
"""Stages of a recall by the store's part of them."""


@dataclass(frozen=True, kw_only=True)
class RankedCandidates:
    """The candidates before and after reranking, and the rankings that they come from."""

    rankings: Sequence[ChannelRanking]
    graph: GraphRanking = field(default_factory=GraphRanking)
    fused: Sequence[Fused]
    reranked: Reranked
    revisions: Sequence[RevisionEdge] = ()
    """Links between candidates and the facts that replaced or outdated them, or that they did."""


async def rank(run: RecallRun, found: ChannelResults) -> RankedCandidates:
    """Fuse the rankings, follow the graph, and rerank."""
    fuser = Fuser(run.context.settings.fusion)
    with run.timer.stage("fuse"):
        fuser.add(found.rankings)
        first = fuser.order()
    graph, scores, revisions = await _expand(run, found, first)
    graph_ranking = run.channels.graph_ranking(graph.ranking)
    with run.timer.stage("fuse"):
        fuser.add(graph_ranking)
        fused = fuser.order()
    if run.channels.analysis.type == "multi-hop":
        # The answer may be a fact that only the graph leads to.
        seen = {candidate.id for candidate in first}
        new = [candidate for candidate in fused if candidate.id not in seen]
        scores = scores.merge(await _rerank_more(run, new, found))
    reranked = reorder(fused, scores)
    analysis, settings = run.channels.analysis, run.context.settings.revision_model
    ordered = in_order(
        reranked.candidates,
        applicable(revisions, reranked.candidates[: settings.reordered], analysis),
        former=lambda edge: asked_before(edge, analysis, run.now),
        brought_in=settings.brought_in,
    )
    return RankedCandidates(
        rankings=[*found.rankings, *graph_ranking],
        graph=graph,
        fused=fused,
        reranked=replace(reranked, candidates=ordered),
        revisions=revisions,
    )


async def _expand(
    run: RecallRun, found: ChannelResults, first: Sequence[Fused]
) -> tuple[GraphRanking, RerankScores, Sequence[RevisionEdge]]:
    """Follow the graph and rerank the first candidates; one request fetches what both begin with, and revisions."""
    activation, settings = _activation(run, found), run.context.settings.revision_model
    edges, ids = activation.next_query(), _late_shortlist(run, first, found)
    best = [candidate.id for candidate in first[: settings.looked_up]]
    expansion = Expansion()
    if edges is not None or best:
        revisions = RevisionQuery(scope=run.query.scope, facts=best) if best else None
        request = ExpandRequest(bank=run.query.scope.bank, edges=edges, token_vectors=ids, revisions=revisions)
        expansion = await run.context.store.expand(request)
        run.timer.add({_STAGES[name]: milliseconds for name, milliseconds in expansion.timings.items()})
    graph, scores = await asyncio.gather(
        _follow_graph(run, activation, expansion.edges),
        _rerank(run, first, found, ids, expansion.token_vectors),
    )
    return graph, scores, expansion.revisions


def _activation(run: RecallRun, found: ChannelResults) -> GraphActivation:
    scope, question = run.query.scope, found.question
    rules, space = run.context.settings.spreading, run.context.embedder.name
    base = EdgeQuery(scope=scope, space=space, vector=question.vector, fan=rules.fan, common=rules.common)
    enabled = "graph" in run.channels.enabled
    expansions = max_expansions(run.channels.analysis.type, run.query.nodes, rules.expansions) if enabled else 0
    return GraphActivation(base, found.entries, found.entities, expansions=expansions, settings=rules)


def _late_shortlist(run: RecallRun, candidates: Sequence[Fused], found: ChannelResults) -> list[FactId]:
    compares_tokens = run.context.reranker == "late" and found.question.tokens is not None
    return late_shortlist(candidates, run.query, run.context.settings.fusion.late) if compares_tokens else []


async def _follow_graph(run: RecallRun, activation: GraphActivation, edges: Sequence[Edge]) -> GraphRanking:
    if "graph" not in run.channels.enabled:
        return GraphRanking()
    with run.timer.stage("graph"):
        activation.follow(edges)
        while (query := activation.next_query()) is not None:
            request = ExpandRequest(bank=run.query.scope.bank, edges=query)
            activation.follow((await run.context.store.expand(request)).edges)
        return activation.result(run.query.nodes)


async def _rerank(
    run: RecallRun,
    candidates: Sequence[Fused],
    found: ChannelResults,
    ids: Sequence[FactId],
    vectors: Sequence[TokenVectors | None],
) -> RerankScores:
    """Score candidates by the reranker; `ids` and `vectors` are what late interaction compares."""
    reranker, question = run.context.reranker, found.question.tokens
    with run.timer.stage("rerank"):
        if not isinstance(reranker, str):
            limit = run.context.settings.fusion.texts
            return await score_texts(run.query, candidates, reranker, run.context.store, limit=limit)
        weight = run.context.settings.fusion.late
        return score_tokens(ids, question, vectors, weight) if question is not None and ids else RerankScores()


async def _rerank_more(run: RecallRun, candidates: Sequence[Fused], found: ChannelResults) -> RerankScores:
    ids = _late_shortlist(run, candidates, found)
    request = ExpandRequest(bank=run.query.scope.bank, token_vectors=ids)
    vectors = (await run.context.store.expand(request)).token_vectors if ids else ()
    return await _rerank(run, candidates, found, ids, vectors)
