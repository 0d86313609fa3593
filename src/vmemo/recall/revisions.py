"""Revisions in a recall: a newer fact comes before the older one that it replaced or may have outdated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from vmemo.models import FactId, Interval
from vmemo.models.search import RevisionEdge, Scope
from vmemo.recall.fuse import Fused
from vmemo.text.questions import QueryAnalysis, is_over


def with_former(scope: Scope, analysis: QueryAnalysis, now: datetime) -> Scope:
    """Return a scope that also admits facts which were true before, for a question about the past.

    A scope that selects facts by time, or closed ones, stays as it is.
    """
    if analysis.tense == "present" or scope.include_expired or scope.at_time is not None or scope.known_at is not None:
        return scope
    during = analysis.during
    return replace(scope, former=during if during is not None and is_over(during, now) else Interval())


def in_order(
    candidates: Sequence[Fused], edges: Sequence[RevisionEdge], *, former: bool, brought_in: int
) -> list[Fused]:
    """Return candidates with newer facts directly above the older ones.

    For a question about a `former` state the order of candidates stays, and older facts follow the newer ones. A fact
    that no channel has found is brought in by one of the best `brought_in` candidates.
    """
    if not edges:
        return list(candidates)
    partners: dict[FactId, list[Fused]] = defaultdict(list)
    for edge in sorted(edges, key=lambda edge: -edge.probability):
        if former:
            partners[edge.newer].append(Fused(edge.older, 0.0, edge.older_tokens))
        else:
            partners[edge.older].append(Fused(edge.newer, 0.0, edge.newer_tokens))
    return _Order(candidates, partners, below=former).place(brought_in)


class _Order:
    """Places candidates one by one, each with its partners directly above or below it."""

    def __init__(self, candidates: Sequence[Fused], partners: Mapping[FactId, Sequence[Fused]], *, below: bool) -> None:
        self._candidates = {candidate.id: candidate for candidate in candidates}
        self._partners = partners
        self._below = below
        self._seen: set[FactId] = set()
        self._placed: list[Fused] = []

    def place(self, brought_in: int) -> list[Fused]:
        for rank, candidate in enumerate(list(self._candidates.values())):
            self._place(candidate, candidate.score, brings_in=rank < brought_in)
        return self._placed

    def _place(self, candidate: Fused, score: float, *, brings_in: bool) -> None:
        if candidate.id in self._seen:
            return
        self._seen.add(candidate.id)
        placed = Fused(candidate.id, max(candidate.score, score), candidate.tokens)
        if self._below:
            self._placed.append(placed)
        for partner in self._partners.get(candidate.id, ()):
            known = self._candidates.get(partner.id)
            if known is not None or brings_in:
                self._place(known or partner, score, brings_in=brings_in)
        if not self._below:
            self._placed.append(placed)
