"""Ranking of a recall's candidates: search the channels, fuse, follow the graph, rerank, order revisions.

All of it runs in one read transaction of the store, outside of the event loop.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter

import numpy as np

from vmemo.models import Channel, EntityId, FactId, GraphStep, Interval, LinkKind, Mention, QueryType
from vmemo.models.search import (
    EdgeQuery,
    Edges,
    Ranking,
    RevisionEdge,
    Scope,
    SearchRequest,
    SearchResult,
    TemporalSearch,
)
from vmemo.ports import BankReader
from vmemo.recall.fuse import LATE_WEIGHT, ChannelRanking, RerankScores, fuse, late_shortlist, reorder, token_matches
from vmemo.recall.run import RecallRun
from vmemo.text.questions import QueryAnalysis, is_over

# Constants of this module were chosen on conversations of our own.
# The graph channel: activation spreads from entry points along edges, strongest first.
DECAY = 0.8
"""Share of activation that is left after each step."""
FLOOR = 0.1
"""Activation below which a fact is not reached."""
ENTRY_FLOOR = 0.5
"""Cosine from which a semantic hit is an entry point."""
ENTRIES = 6
"""Semantic hits that activation starts from, at most."""
LEAST_EXPANSIONS = 12
"""Nodes whose edges are followed, at least; larger budgets follow more."""
FAN = 8
"""Facts of an entity that are followed: those most similar to the question."""
COMMON = 25
"""Facts of an entity up to which its edges weigh less with each: an entity with n facts weighs 1 / sqrt(n)."""
MULTIPLIERS: Mapping[LinkKind, float] = {
    "entity": 1.2,
    "causes": 1.2,
    "caused_by": 1.2,
    "enables": 1.1,
    "prevents": 1.1,
    "semantic": 1.0,
    "temporal": 0.7,
}
"""Multipliers of activation by kind of link."""
WAVE_SIZE = 6
"""Nodes whose edges are fetched together: the strongest ones that are not expanded yet."""


def max_expansions(type: QueryType, nodes: int) -> int:
    """Return the number of nodes to expand: more for multi-hop questions."""
    return max(LEAST_EXPANSIONS, nodes // 10 if type == "multi-hop" else nodes // 25)


Reached = tuple[float, Sequence[int], Edges]
"""The activation of a fact, its row in a ranking, and the edges by which it was reached."""


@dataclass(frozen=True, eq=False)
class GraphRanking:
    """Facts by activation, and the edges by which each was reached."""

    ranking: Ranking = field(default_factory=Ranking)
    reached: Mapping[int, Reached] = field(default_factory=dict[int, Reached])

    def paths(
        self, facts: Sequence[int], named: Mapping[int, Mention], reader: BankReader
    ) -> dict[int, tuple[GraphStep, ...]]:
        """Return for each fact the steps from an entry point to it, in order."""
        paths = {fact: self._path(fact) for fact in facts}
        every = [step for path in paths.values() for step in path]
        ids = reader.ids(sorted({node for target, edges in every for node in (target, edges.source) if node > 0}))
        names = reader.entity_names(sorted({edges.via for _, edges in every if edges.via}))

        def step(target: int, edges: Edges) -> GraphStep:
            source = FactId(ids[edges.source]) if edges.source > 0 else EntityId(named[-edges.source].id)
            return GraphStep(source, FactId(ids[target]), edges.kind, edges.weight, names.get(edges.via, ""))

        return {fact: tuple(step(*each) for each in path) for fact, path in paths.items()}

    def _path(self, fact: int) -> list[tuple[int, Edges]]:
        steps: list[tuple[int, Edges]] = []
        while fact in self.reached and len(steps) < len(self.reached):
            steps.append((fact, self.reached[fact][2]))
            fact = steps[-1][1].source
        return steps[::-1]


def spread_activation(
    edges: Callable[[EdgeQuery], Iterable[Edges]],
    base: EdgeQuery,
    entries: Ranking,
    entities: Iterable[int],
    *,
    expansions: int,
    limit: int,
) -> GraphRanking:
    """Return the facts that activation reaches from entry points along edges, the strongest nodes first.

    A node is the number of a fact, or of an entity with a minus. A fact is reached only along an edge, because
    other channels found the entry points. Only the strongest path to a fact counts.
    """
    best = zip(entries.numbers[:ENTRIES].tolist(), entries.scores[:ENTRIES].tolist(), strict=True)
    known = {-entity: 1.0 for entity in entities} | {fact: score for fact, score in best if score >= ENTRY_FLOOR}
    reached: dict[int, Reached] = {}
    expanded: set[int] = set()
    while len(expanded) < expansions:
        waves = heapq.nsmallest(WAVE_SIZE, [(-known[node], node) for node in known.keys() - expanded])
        if not waves:
            break
        expanded.update(node for _, node in waves)
        # No edge of a lower weight can pass on enough activation.
        least = FLOOR / max(-waves[0][0] * DECAY * max(MULTIPLIERS.values()), 1e-9)
        facts, named = [node for _, node in waves if node > 0], [-node for _, node in waves if node < 0]
        for found in edges(replace(base, facts=facts, entities=named, least=least)):
            activation = known[found.source] * found.weight * DECAY * MULTIPLIERS[found.kind]
            if activation >= FLOOR:
                _reach(found, activation, known, reached, expanded)
    order = sorted(reached.values(), key=itemgetter(0), reverse=True)[:limit]
    rows = np.array([row for _, row, _ in order], np.int64).reshape(len(order), 3)
    return GraphRanking(Ranking(rows, np.array([activation for activation, _, _ in order])), reached)


def _reach(
    edges: Edges, activation: float, known: dict[int, float], reached: dict[int, Reached], expanded: Collection[int]
) -> None:
    source = edges.source
    for row in edges.targets:
        target = row[0]
        before = reached.get(target)
        if (before is not None and activation <= before[0]) or target == source:
            continue
        # Only a node that was expanded has edges on which a path goes on.
        if target in expanded and source in reached and _passes(source, target, reached):
            continue
        reached[target] = activation, row, edges
        if activation > known.get(target, 0.0):
            known[target] = activation


def _passes(node: int, target: int, reached: Mapping[int, Reached]) -> bool:
    """Return True if the path to a node already passes the target of an edge from it."""
    while node in reached and node != target:
        node = reached[node][2].source
    return node == target


# All channels.
SEMANTIC_FLOOR = 0.3
"""Least cosine of a candidate of the semantic channel, unless the embedder has a `floor` of its own."""
TEMPORAL_FLOOR = 0.4
"""Least cosine of a fact inside the interval, also if a temporal link leads to it."""
EDGE_PENALTY = 0.25
"""Share of its score that a fact at the very edge of the interval loses."""
LINK_DECAY = 0.7
"""Share of a score that is left after a step along a temporal link."""
LINKED = 10
"""Best facts inside the interval whose temporal links are followed."""
PARTS_WEIGHT = 0.3
"""Weight of the rankings of all parts of a question together, relative to that of the whole question."""
MAX_INSTRUCTIONS = 50
"""Newest instructions of the user that are considered."""
LOOKED_UP = 64
"""Best candidates whose newer or older facts are looked up."""
BROUGHT_IN = 10
"""Best candidates that bring in the fact which replaced them, even if no channel has found it."""
REORDERED = 5
"""Best candidates among which a newer fact moves above one that it may have outdated."""
AGED = 64
"""Best candidates that the question's tense orders."""
NEAR = 120_000_000
"""Microseconds between two statements of which one may explain the other."""
SHORT = 30
"""Tokens up to which a statement may be clear only by its neighbour."""
FROM_BEFORE, FROM_AFTER = 0.15, 0.05
"""Shares of the score of the fact before, and of the one after."""
TENSE_WEIGHT = 0.6
"""Score between the earliest and the latest of them for a question about the present, where the best have about 2.5."""
LEAST_TENSE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """The candidates of all channels, fused, and in the order that a reranker and revisions give them."""

    rankings: Sequence[ChannelRanking]
    first: Ranking
    """Those of all channels but the graph."""
    fused: Ranking
    graph: GraphRanking = field(default_factory=GraphRanking)
    late: RerankScores = field(default_factory=RerankScores)
    """The scores of late interaction, if it is the reranker."""
    revisions: Sequence[RevisionEdge] = ()
    """Links between candidates and the facts that replaced or outdated them, or that they did."""
    entities: Mapping[int, Mention] = field(default_factory=dict[int, Mention])
    instructions: Sequence[int] = ()
    """The user's standing instructions, newest first."""
    ordered: Ranking = field(default_factory=Ranking)
    """The candidates in their final order."""
    scores: RerankScores = field(default_factory=RerankScores)
    """The scores that decided this order beside the fused ones."""

    @property
    def only_linked(self) -> Ranking:
        """Candidates that only the graph leads to."""
        return self.fused.take(np.flatnonzero(~np.isin(self.fused.numbers, self.first.numbers)))


def find_candidates(run: RecallRun, reader: BankReader) -> Candidates:
    """Search every channel, fuse their rankings, follow the graph, and score by late interaction."""
    timer, method = run.timer, run.context.settings.fusion
    with timer.stage("search"):
        request = search_request(run)
        result = reader.search(request)
    timer.add(result.timings)
    rankings = _weighted(run, request, result)
    with timer.stage("graph"):
        graph = _follow_graph(run, reader, result)
    linked = [ChannelRanking("graph", graph.ranking, run.weights["graph"])] if "graph" in run.channels else []
    first, fused = timer.run("fuse", fuse, rankings, linked, method)
    best = first.numbers[:LOOKED_UP]
    found = Candidates(
        rankings=[*rankings, *linked],
        first=first,
        fused=fused,
        graph=graph,
        late=_late_scores(run, reader, first),
        revisions=timer.run("revisions", reader.revisions, run.scope, best[best > 0].tolist()) if len(best) else (),
        entities=result.entities,
        instructions=result.instructions,
    )
    if run.analysis.type != "multi-hop":
        return found
    # A candidate that only the graph leads to may be the answer.
    return replace(found, late=found.late.merge(_late_scores(run, reader, found.only_linked)))


def order_candidates(run: RecallRun, found: Candidates, scores: RerankScores) -> Candidates:
    """Order candidates by fused score, reranker and tense, each newer fact above those that it replaced or outdated."""
    analysis = run.analysis
    with run.timer.stage("order"):
        reranked = by_tense(with_neighbours(reorder(found.fused, scores)), run.question.tense or 0.0)
        ordered = in_order(
            reranked,
            applicable(found.revisions, reranked.take(slice(REORDERED)), analysis),
            former=lambda edge: asked_before(edge, analysis, run.now),
            brought_in=BROUGHT_IN,
        )
    return replace(found, ordered=ordered, scores=scores)


def with_neighbours(candidates: Ranking) -> Ranking:
    """Add to short statements shares of the scores of those said just before and after.

    An answer is often clear only by its question. Of several statements of one time the best counts.
    """
    facts = np.flatnonzero(candidates.numbers > 0)
    if not len(facts):
        return candidates
    times, place = np.unique(candidates.rows[facts, 2], return_inverse=True)
    best = np.zeros(len(times))
    np.maximum.at(best, place, candidates.scores[facts])
    near = np.diff(times) <= NEAR
    shares = np.zeros(len(times))
    shares[1:] += FROM_BEFORE * best[:-1] * near
    shares[:-1] += FROM_AFTER * best[1:] * near
    moved = candidates.scores.copy()
    moved[facts] += shares[place] * (candidates.tokens[facts] <= SHORT)
    return candidates.scored(moved)


def by_tense(candidates: Ranking, tense: float) -> Ranking:
    """Move later ones of the best candidates up for a question about the present (`tense` 1), down for the past."""
    best = candidates.take(slice(AGED))
    facts = best.numbers > 0
    if abs(tense) < LEAST_TENSE or not facts.any():
        return candidates
    times, place = np.unique(best.rows[facts, 2], return_inverse=True)
    moved = best.scores.copy()
    moved[facts] += TENSE_WEIGHT * tense * (place / max(1, len(times) - 1) - 0.5)
    best = best.scored(moved)
    rest = candidates.take(slice(AGED, None))
    return Ranking(np.concatenate([best.rows, rest.rows]), np.concatenate([best.scores, rest.scores]))


def search_request(run: RecallRun) -> SearchRequest:
    """Return the searches of every channel that is switched on, but the graph, which starts from their results."""
    enabled, encodings = run.channels, run.encodings
    texts = [run.text, *run.analysis.parts]
    # The graph channel starts from the semantic hits of the whole question, even if these are no channel.
    vectors = encodings if "semantic" in enabled else encodings[:1] if "graph" in enabled else ()
    return SearchRequest(
        scope=run.scope,
        space=run.context.embedder.name,
        limit=run.nodes,
        semantic=[encoding.vector for encoding in vectors],
        floor=_floor(run, SEMANTIC_FLOOR),
        keyword=texts if "keyword" in enabled else (),
        verbatim=run.text if "verbatim" in enabled else "",
        temporal=_temporal(run),
        names_in=run.text if "graph" in enabled else "",
        instructions=MAX_INSTRUCTIONS if run.context.settings.instruction_tokens > 0 else 0,
    )


def _floor(run: RecallRun, usual: float) -> float:
    return float(getattr(run.context.embedder, "floor", usual))


def _temporal(run: RecallRun) -> TemporalSearch | None:
    if run.during is None or "temporal" not in run.channels:
        return None
    # A link would lead out of the interval that the caller filters by.
    linked = LINKED if run.scope.occurred is None else 0
    return TemporalSearch(
        vector=run.question.vector,
        during=run.during,
        floor=_floor(run, TEMPORAL_FLOOR),
        edge_penalty=EDGE_PENALTY,
        linked=linked,
    )


def _weighted(run: RecallRun, request: SearchRequest, result: SearchResult) -> list[ChannelRanking]:
    rankings = _with_parts(run, "semantic", result.semantic) if "semantic" in run.channels else []
    rankings += _with_parts(run, "keyword", result.keyword)
    if request.verbatim:
        rankings.append(ChannelRanking("verbatim", result.verbatim, run.weights["verbatim"]))
    if request.temporal is not None:
        temporal = with_temporal_links(result.temporal, result.temporal_links, run.nodes)
        rankings.append(ChannelRanking("temporal", temporal, run.weights["temporal"]))
    return rankings


def _with_parts(run: RecallRun, channel: Channel, rankings: Sequence[Ranking]) -> list[ChannelRanking]:
    """Weigh the ranking of the whole question, which comes first, and those of its parts."""
    weight = run.weights[channel]
    part = weight * PARTS_WEIGHT / max(1, len(rankings) - 1)
    return [ChannelRanking(channel, ranking, part if number else weight) for number, ranking in enumerate(rankings)]


def with_temporal_links(found: Ranking, links: Sequence[Edges], limit: int) -> Ranking:
    """Return the facts inside the interval and those that links lead to from the best of them, best first."""
    if not links:
        return found
    scores = dict(zip(found.numbers.tolist(), found.scores.tolist(), strict=True))
    linked: dict[int, tuple[int, int, int, float]] = {}
    for edges in links:
        score = found.baseline + (scores[edges.source] - found.baseline) * edges.weight * LINK_DECAY
        for target, tokens, time in edges.targets:
            least = linked[target][3] if target in linked else found.baseline
            if target not in scores and score > least:
                linked[target] = target, tokens, time, score
    more = Ranking.of(linked.values())
    every = Ranking(
        np.concatenate([found.rows, more.rows]), np.concatenate([found.scores, more.scores]), found.baseline
    )
    return every.scored(every.scores).take(slice(limit))


def _follow_graph(run: RecallRun, reader: BankReader, result: SearchResult) -> GraphRanking:
    if "graph" not in run.channels:
        return GraphRanking()
    base = EdgeQuery(
        scope=run.scope, space=run.context.embedder.name, vector=run.question.vector, fan=FAN, common=COMMON
    )
    entries = result.semantic[0] if result.semantic else Ranking()
    expansions = max_expansions(run.analysis.type, run.nodes)
    return spread_activation(reader.edges, base, entries, result.entities, expansions=expansions, limit=run.nodes)


def _late_scores(run: RecallRun, reader: BankReader, candidates: Ranking) -> RerankScores:
    """Score candidates by late interaction, if it is the reranker and the embedder returns token vectors."""
    question = run.question.tokens
    with run.timer.stage("rerank"):
        if run.context.reranker != "late" or question is None:
            return RerankScores()
        numbers = late_shortlist(candidates, run)
        matches = token_matches(question, reader.token_vectors(numbers))
        return RerankScores(numbers, matches.sum(axis=1).astype(np.float64), LATE_WEIGHT, matches)


PROBABLE = 0.75
"""Probability from which a newer fact ranks above an older one even if it has little to do with the question."""
LEAST_SCORE = 0.6
"""Share of the older fact's score that a newer fact needs to rank above one that it has hardly outdated."""


def with_former(scope: Scope, analysis: QueryAnalysis, now: datetime) -> Scope:
    """Return a scope that also admits former facts for a question about the past, unless it selects by time itself."""
    if analysis.tense == "present" or scope.include_expired or scope.at_time is not None or scope.known_at is not None:
        return scope
    during = analysis.during
    return scope.replace(former=during if during is not None and is_over(during, now) else Interval())


def asked_before(edge: RevisionEdge, analysis: QueryAnalysis, now: datetime) -> bool:
    """Return True if a question is for a former state, or about a time that was over before the newer fact."""
    during = analysis.during
    if analysis.tense == "former" or during is None or during.end is None:
        return analysis.tense == "former"
    return analysis.tense == "past" and is_over(during, now) and edge.mentioned_at >= during.end


def applicable(edges: Sequence[RevisionEdge], best: Ranking, analysis: QueryAnalysis) -> list[RevisionEdge]:
    """Return the edges that order candidates: certain ones, and possible ones between two of the `best`.

    A newer fact that has little to do with the question is no better answer, unless the older one is marked, with a
    probability from `PROBABLE`. What happened is not outdated by what happened later.
    """
    certain = [edge for edge in edges if edge.kind == "replaces"]
    if analysis.tense == "past":
        return certain
    score = dict(zip(best.numbers.tolist(), best.scores.tolist(), strict=True))
    possible = [
        edge
        for edge in edges
        if edge.kind != "replaces"
        and edge.newer in score
        and edge.older in score
        and (edge.probability >= PROBABLE or score[edge.newer] >= LEAST_SCORE * score[edge.older])
    ]
    pairs = {(edge.newer, edge.older) for edge in (*certain, *possible)}
    return [*certain, *(edge for edge in possible if not _passes_a_better(edge, pairs, score))]


def _passes_a_better(edge: RevisionEdge, pairs: Collection[tuple[int, int]], score: Mapping[int, float]) -> bool:
    """Return True if the newer fact would rank above a better one that it is not known to outdate."""
    return any(
        score.get(better, 0.0) > score[edge.older] and (edge.newer, better) not in pairs
        for newer, better in pairs
        if newer == edge.older
    )


def in_order(
    candidates: Ranking, edges: Sequence[RevisionEdge], *, former: Callable[[RevisionEdge], bool], brought_in: int
) -> Ranking:
    """Return candidates with each newer fact directly above the older ones that it replaced or may have outdated.

    Where the question is for the `former` state, the order stays, and the older fact follows the newer one. A fact that
    no channel has found is brought in by one of the best `brought_in` candidates.
    """
    if not edges:
        return candidates
    above, below = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    rows = {number: (number, tokens, time) for number, tokens, time in candidates.rows.tolist()}
    ranked = list(rows)
    for edge in sorted(edges, key=lambda edge: -edge.probability):
        if former(edge):
            below[edge.newer].append(edge.older)
            rows.setdefault(edge.older, (edge.older, edge.older_tokens, 0))
        else:
            above[edge.older].append(edge.newer)
            rows.setdefault(edge.newer, (edge.newer, edge.newer_tokens, 0))
    scores = dict(zip(ranked, candidates.scores.tolist(), strict=True))
    placed: dict[int, float] = {}
    seen: set[int] = set()

    def place(number: int, score: float, *, brings_in: bool) -> None:
        if number in seen or not (brings_in or number in scores):
            return
        seen.add(number)
        for newer in above.get(number, ()):
            place(newer, score, brings_in=brings_in)
        placed[number] = max(score, scores.get(number, 0.0))
        for older in below.get(number, ()):
            place(older, score, brings_in=brings_in)

    for rank, number in enumerate(ranked):
        place(number, scores[number], brings_in=rank < brought_in)
    return Ranking.of((*rows[number], score) for number, score in placed.items())
