"""The explanation of a recall, and of the place of each hit."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.models import Channel, FactId, Hit, NewerFact, Reranking
from vmemo.models.recalled import Explanation
from vmemo.recall.fuse import best_candidates
from vmemo.recall.llm_time_resolver import LLMResolvedTime
from vmemo.recall.rank import RankedCandidates
from vmemo.recall.run import RecallRun
from vmemo.text.questions import asks_for_profile

SHOWN = 20
"""Candidates of each channel that an explanation has."""


def explain(run: RecallRun, ranked: RankedCandidates, resolved: LLMResolvedTime | None) -> Explanation:
    """Return the explanation of this recall."""
    analysis, context = run.channels.analysis, run.context
    candidates: dict[Channel, set[FactId]] = {}
    for channel, ranking, _ in ranked.found.rankings:
        candidates.setdefault(channel, set()).update(ranking.ids)
    weights = run.channels.weights
    resolved = resolved or LLMResolvedTime()
    during = resolved.during or analysis.during
    return Explanation(
        type=analysis.type,
        tense=analysis.tense,
        profile=asks_for_profile(run.query.text),
        during=during,
        resolved_by=None if during is None else "model" if resolved.during else "rules",
        unresolved_time=analysis.unresolved_time.text if analysis.unresolved_time else None,
        problem=resolved.problem,
        parts=analysis.parts,
        links=analysis.links,
        entities=tuple(ranked.found.entities),
        weights={channel: weights[channel] for channel in weights if channel in run.channels.enabled},
        candidates={channel: len(ids) for channel, ids in candidates.items()},
        rankings=best_candidates(ranked.found.rankings, SHOWN),
        reranker=context.reranker if isinstance(context.reranker, str) else context.reranker.name,
        reranked=ranked.reranked.count,
    )


def explained_hits(hits: Sequence[Hit], ranked: RankedCandidates) -> list[Hit]:
    """Return hits with their paths through the graph, their ranks before and after reranking, and newer facts."""
    reranked = ranked.reranked
    before = {item.id: rank for rank, item in enumerate(ranked.found.fused, start=1)}
    after = {item.id: rank for rank, item in enumerate(reranked.candidates, start=1)}
    return [
        hit.model_copy(
            update={
                "path": ranked.found.graph.path(hit.id),
                "reranking": Reranking(before[hit.id], after[hit.id], reranked.scores.get(hit.id))
                if reranked.count and hit.id in before
                else None,
                "newer": tuple(
                    NewerFact(fact=edge.newer, kind=edge.kind, probability=edge.probability)
                    for edge in ranked.found.revisions
                    if edge.older == hit.id
                ),
            }
        )
        for hit in hits
    ]
