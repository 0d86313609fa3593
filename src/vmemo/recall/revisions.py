"""Revisions in a recall: a newer fact comes before the older one that it replaced or may have outdated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from vmemo.models import FactId, Interval
from vmemo.models.search import SUSPECT, RevisionEdge, Scope
from vmemo.recall.fuse import Fused
from vmemo.text.questions import QueryAnalysis, is_over

LEAST_SCORE = 0.4
"""Share of the older fact's score that a newer fact needs to rank above one that it has hardly outdated."""


def with_former(scope: Scope, analysis: QueryAnalysis, now: datetime) -> Scope:
    """Return a scope that also admits facts which were true before, for a question about the past.

    A scope that selects facts by time, or closed ones, stays as it is.
    """
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


def applicable(edges: Sequence[RevisionEdge], best: Sequence[Fused], analysis: QueryAnalysis) -> list[RevisionEdge]:
    """Return the edges that order candidates: certain ones, and possible ones between two of the `best`.

    A newer fact that has little to do with the question is no better answer, unless the older one is marked, with a
    probability from `SUSPECT`. What happened is not outdated by what happened later.
    """
    certain = [edge for edge in edges if edge.kind == "replaces"]
    if analysis.tense == "past":
        return certain
    score = {candidate.id: candidate.score for candidate in best}
    possible = [
        edge
        for edge in edges
        if edge.kind != "replaces"
        and edge.newer in score
        and edge.older in score
        and (edge.probability >= SUSPECT or score[edge.newer] >= LEAST_SCORE * score[edge.older])
    ]
    pairs = {(edge.newer, edge.older) for edge in (*certain, *possible)}
    return [*certain, *(edge for edge in possible if not _passes_a_better(edge, pairs, score))]


def _passes_a_better(
    edge: RevisionEdge, pairs: Collection[tuple[FactId, FactId]], score: Mapping[FactId, float]
) -> bool:
    """Return True if the newer fact would rank above a better one that it is not known to outdate.

    The older fact of the edge ranks above that one, because it may have outdated it.
    """
    return any(
        score.get(better, 0.0) > score[edge.older] and (edge.newer, better) not in pairs
        for newer, better in pairs
        if newer == edge.older
    )


def in_order(
    candidates: Sequence[Fused],
    edges: Sequence[RevisionEdge],
    *,
    former: Callable[[RevisionEdge], bool],
    brought_in: int,
) -> Sequence[Fused]:
    """Return candidates with each newer fact directly above the older ones that it replaced or may have outdated.

    Where the question is for the `former` state, the order stays, and the older fact follows the newer one. A fact that
    no channel has found is brought in by one of the best `brought_in` candidates.
    """
    if not edges:
        return candidates
    order = _Order(candidates)
    for edge in sorted(edges, key=lambda edge: -edge.probability):
        if former(edge):
            order.below[edge.newer].append(Fused(edge.older, 0.0, edge.older_tokens))
        else:
            order.above[edge.older].append(Fused(edge.newer, 0.0, edge.newer_tokens))
    return order.place(brought_in)


class _Order:
    """Places candidates one by one, each with the facts that belong directly above and below it."""

    def __init__(self, candidates: Sequence[Fused]) -> None:
        self.above: defaultdict[FactId, list[Fused]] = defaultdict(list)
        self.below: defaultdict[FactId, list[Fused]] = defaultdict(list)
        self._candidates = {candidate.id: candidate for candidate in candidates}
        self._seen: set[FactId] = set()
        self._placed: list[Fused] = []

    def place(self, brought_in: int) -> list[Fused]:
        """Return all candidates, and facts that the first `brought_in` of them bring in."""
        above, below, seen, placed = self.above, self.below, self._seen, self._placed
        for rank, candidate in enumerate(list(self._candidates.values())):
            id = candidate.id
            if id in above or id in below:
                self._place(candidate, candidate.score, brings_in=rank < brought_in)
            elif id not in seen:
                seen.add(id)
                placed.append(candidate)
        return placed

    def _place(self, candidate: Fused, score: float, *, brings_in: bool) -> None:
        if candidate.id in self._seen:
            return
        self._seen.add(candidate.id)
        if candidate.id in self.above:
            self._place_all(self.above[candidate.id], score, brings_in=brings_in)
        self._placed.append(candidate if candidate.score >= score else candidate._replace(score=score))
        if candidate.id in self.below:
            self._place_all(self.below[candidate.id], score, brings_in=brings_in)

    def _place_all(self, facts: Sequence[Fused], score: float, *, brings_in: bool) -> None:
        for fact in facts:
            known = self._candidates.get(fact.id)
            if known is not None or brings_in:
                self._place(known or fact, score, brings_in=brings_in)
