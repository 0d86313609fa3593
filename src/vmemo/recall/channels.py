"""The channels of a recall: their weights, their search request and the rankings that come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from vmemo.models import Channel, FactId, Interval
from vmemo.models.search import (
    Edge,
    Encoding,
    Ranking,
    Scored,
    SearchRequest,
    SearchResult,
    TemporalSearch,
    Vector,
)
from vmemo.models.settings import Settings
from vmemo.recall.fuse import ChannelRanking
from vmemo.recall.instructions import MAX_INSTRUCTIONS
from vmemo.recall.query import Query
from vmemo.text.questions import QueryAnalysis

# Chosen on conversations of our own.
SEMANTIC_FLOOR = 0.3
"""Least cosine of a candidate of the semantic channel."""
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


@dataclass(frozen=True)
class Channels:
    """The channels that are switched on, for one question."""

    query: Query
    analysis: QueryAnalysis
    settings: Settings
    space: str

    @property
    def enabled(self) -> Set[Channel]:
        """The channels that recall searches."""
        return self.settings.channels

    @property
    def weights(self) -> Mapping[Channel, float]:
        """The channels' weights for this type of question."""
        return self.settings.weights(self.analysis.type)

    def request(self, encodings: Sequence[Encoding], during: Interval | None) -> SearchRequest:
        """Return the request for every enabled channel; `encodings` are those of the question and its parts."""
        texts = [self.query.text, *self.analysis.parts]
        # The graph channel starts from the semantic hits of the whole question, even if these are no channel.
        vectors = encodings if "semantic" in self.enabled else encodings[:1] if "graph" in self.enabled else ()
        return SearchRequest(
            scope=self.query.scope,
            space=self.space,
            limit=self.query.nodes,
            semantic=[encoding.vector for encoding in vectors],
            floor=SEMANTIC_FLOOR,
            keyword=texts if "keyword" in self.enabled else (),
            verbatim=self.query.text if "verbatim" in self.enabled else "",
            temporal=self._temporal(encodings[0].vector, during),
            names_in=self.query.text if "graph" in self.enabled else "",
            instructions=MAX_INSTRUCTIONS if self.settings.instruction_tokens > 0 else 0,
        )

    def _temporal(self, vector: Vector, during: Interval | None) -> TemporalSearch | None:
        if during is None or "temporal" not in self.enabled:
            return None
        # A link would lead out of the interval that the caller filters by.
        linked = LINKED if self.query.scope.occurred is None else 0
        return TemporalSearch(
            vector=vector, during=during, floor=TEMPORAL_FLOOR, edge_penalty=EDGE_PENALTY, linked=linked
        )

    def rankings(self, request: SearchRequest, result: SearchResult) -> list[ChannelRanking]:
        """Return the weighted rankings of a search result."""
        weights = self.weights
        rankings = self._with_parts("semantic", result.semantic) if "semantic" in self.enabled else []
        rankings += self._with_parts("keyword", result.keyword)
        if request.verbatim:
            rankings.append(ChannelRanking("verbatim", result.verbatim, weights["verbatim"]))
        if request.temporal is not None:
            temporal = with_temporal_links(result.temporal, result.temporal_links, self.query.nodes)
            rankings.append(ChannelRanking("temporal", temporal, weights["temporal"]))
        return rankings

    def graph_ranking(self, ranking: Ranking) -> list[ChannelRanking]:
        """Return the graph channel's weighted ranking, or nothing if it is switched off."""
        return [ChannelRanking("graph", ranking, self.weights["graph"])] if "graph" in self.enabled else []

    def _with_parts(self, channel: Channel, rankings: Sequence[Ranking]) -> list[ChannelRanking]:
        """Weigh the ranking of the whole question, which comes first, and those of its parts."""
        weight = self.weights[channel]
        part = weight * PARTS_WEIGHT / max(1, len(rankings) - 1)
        return [ChannelRanking(channel, ranking, part if number else weight) for number, ranking in enumerate(rankings)]


def with_temporal_links(found: Ranking, links: Sequence[Edge], limit: int) -> Ranking:
    """Return the facts inside the interval and those linked to the best of them, best first.

    A link passes on how far a score stands out from the baseline, so that a linked fact never ranks as unrelated.
    """
    if not links:
        return found
    scores = dict(zip(found.ids, found.scores, strict=True))
    linked: dict[FactId, Scored] = {}
    for edge in links:
        score = found.baseline + (scores[FactId(edge.source)] - found.baseline) * edge.weight * LINK_DECAY
        least = linked[edge.target].score if edge.target in linked else found.baseline
        if edge.target not in scores and score > least:
            linked[edge.target] = Scored(edge.target, score, edge.tokens)
    hits = sorted([*found.hits, *linked.values()], key=lambda hit: hit.score, reverse=True)
    return Ranking.of(hits[:limit], found.baseline)
