"""Ranking of a recall's candidates: search the channels, fuse their rankings, follow the graph, rerank.

All of it runs in one read transaction of the store, outside of the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vmemo.models import FactId, Mention
from vmemo.models.search import Edge, EdgeQuery, ExpandRequest, Expansion, RevisionEdge, RevisionQuery, SearchResult
from vmemo.ports import BankReader
from vmemo.recall.fuse import ChannelRanking, Fused, Fuser
from vmemo.recall.graph_channel import COMMON, ENTRIES, FAN, GraphActivation, GraphRanking, max_expansions
from vmemo.recall.rerank import Reranked, RerankScores, late_shortlist, reorder, score_tokens
from vmemo.recall.revisions import applicable, asked_before, in_order
from vmemo.recall.run import RecallRun

LOOKED_UP = 64
"""Best candidates whose newer or older facts are looked up."""
BROUGHT_IN = 10
"""Best candidates that bring in the fact which replaced them, even if no channel has found it."""
REORDERED = 5
"""Best candidates among which a newer fact moves above one that it may have outdated."""
_STAGES = {"edges": "graph", "token_vectors": "rerank", "revisions": "revisions"}
"""Stages of a recall by the store's part of them."""


@dataclass(frozen=True, kw_only=True)
class FusedCandidates:
    """The fused candidates of all channels, before a reranker's scores decide their order."""

    rankings: Sequence[ChannelRanking]
    first: Sequence[Fused]
    """Those of all channels but the graph."""
    fused: Sequence[Fused]
    graph: GraphRanking = field(default_factory=GraphRanking)
    late: RerankScores = field(default_factory=RerankScores)
    """The scores of late interaction, if it is the reranker."""
    revisions: Sequence[RevisionEdge] = ()
    """Links between candidates and the facts that replaced or outdated them, or that they did."""
    entities: Sequence[Mention] = ()
    instructions: Sequence[FactId] = ()
    """The user's standing instructions, newest first."""

    @property
    def only_linked(self) -> list[Fused]:
        """Candidates that only the graph leads to."""
        seen = {candidate.id for candidate in self.first}
        return [candidate for candidate in self.fused if candidate.id not in seen]


@dataclass(frozen=True)
class RankedCandidates:
    """The candidates, and their order after reranking."""

    found: FusedCandidates
    reranked: Reranked


def find_candidates(run: RecallRun, reader: BankReader) -> FusedCandidates:
    """Search every channel, fuse their rankings, follow the graph, and score by late interaction."""
    rankings, result = _search(run, reader)
    fuser = Fuser(run.context.settings.fusion)
    with run.timer.stage("fuse"):
        fuser.add(rankings)
        first = fuser.order()
    activation, shortlisted = _activation(run, result), _late_shortlist(run, first)
    expansion = _expand(run, reader, activation.next_query(), first, shortlisted)
    graph = _follow_graph(run, reader, activation, expansion.edges)
    with run.timer.stage("fuse"):
        linked = run.channels.graph_ranking(graph.ranking)
        fuser.add(linked)
        fused = fuser.order()
    found = FusedCandidates(
        rankings=[*rankings, *linked],
        first=first,
        fused=fused,
        graph=graph,
        late=_late_scores(run, shortlisted, expansion),
        revisions=expansion.revisions,
        entities=result.entities,
        instructions=result.instructions,
    )
    return _with_linked(run, reader, found) if run.channels.analysis.type == "multi-hop" else found


def order_candidates(run: RecallRun, found: FusedCandidates, scores: RerankScores) -> RankedCandidates:
    """Order candidates by fused score and reranker, each newer fact above those that it replaced or outdated."""
    analysis = run.channels.analysis
    with run.timer.stage("order"):
        reranked = reorder(found.fused, scores)
        ordered = in_order(
            reranked.candidates,
            applicable(found.revisions, reranked.candidates[:REORDERED], analysis),
            former=lambda edge: asked_before(edge, analysis, run.now),
            brought_in=BROUGHT_IN,
        )
    return RankedCandidates(found, replace(reranked, candidates=ordered))


def _with_linked(run: RecallRun, reader: BankReader, found: FusedCandidates) -> FusedCandidates:
    """Score the candidates that only the graph leads to as well: one of them may be the answer."""
    ids = _late_shortlist(run, found.only_linked)
    if not ids:
        return found
    expansion = reader.expand(ExpandRequest(bank=run.query.scope.bank, token_vectors=ids))
    return replace(found, late=found.late.merge(_late_scores(run, ids, expansion)))


def _search(run: RecallRun, reader: BankReader) -> tuple[list[ChannelRanking], SearchResult]:
    """Search all channels but the graph, which starts from their results."""
    with run.timer.stage("search"):
        request = run.channels.request(run.encodings, run.during)
        result = reader.search(request)
    run.timer.add(result.timings)
    return run.channels.rankings(request, result), result


def _expand(
    run: RecallRun, reader: BankReader, edges: EdgeQuery | None, first: Sequence[Fused], shortlisted: Sequence[FactId]
) -> Expansion:
    """Fetch what following the graph and reranking begin with, and the revisions of the best candidates."""
    scope = run.query.scope
    best = [candidate.id for candidate in first[:LOOKED_UP]]
    if edges is None and not best:
        return Expansion()
    revisions = RevisionQuery(scope=scope, facts=best) if best else None
    request = ExpandRequest(bank=scope.bank, edges=edges, token_vectors=shortlisted, revisions=revisions)
    expansion = reader.expand(request)
    run.timer.add({_STAGES[name]: milliseconds for name, milliseconds in expansion.timings.items()})
    return expansion


def _activation(run: RecallRun, result: SearchResult) -> GraphActivation:
    base = EdgeQuery(
        scope=run.query.scope, space=run.channels.space, vector=run.question.vector, fan=FAN, common=COMMON
    )
    enabled = "graph" in run.channels.enabled
    expansions = max_expansions(run.channels.analysis.type, run.query.nodes) if enabled else 0
    entries = result.semantic[0].hits[:ENTRIES] if result.semantic else ()
    return GraphActivation(base, entries, result.entities, expansions=expansions)


def _follow_graph(
    run: RecallRun, reader: BankReader, activation: GraphActivation, edges: Sequence[Edge]
) -> GraphRanking:
    if "graph" not in run.channels.enabled:
        return GraphRanking()
    with run.timer.stage("graph"):
        activation.follow(edges)
        while (query := activation.next_query()) is not None:
            activation.follow(reader.expand(ExpandRequest(bank=query.scope.bank, edges=query)).edges)
        return activation.result(run.query.nodes)


def _late_shortlist(run: RecallRun, candidates: Sequence[Fused]) -> list[FactId]:
    compares_tokens = run.context.reranker == "late" and run.question.tokens is not None
    return late_shortlist(candidates, run.query) if compares_tokens else []


def _late_scores(run: RecallRun, ids: Sequence[FactId], expansion: Expansion) -> RerankScores:
    question = run.question.tokens
    with run.timer.stage("rerank"):
        return score_tokens(ids, question, expansion.token_vectors) if question is not None else RerankScores()
