"""What a recall did, for those who ask why a fact was found or was not."""

from __future__ import annotations

from vmemo.models import Channel, FactId
from vmemo.models.recalled import Explanation
from vmemo.ports import Context
from vmemo.recall.llm_time_resolver import Told
from vmemo.recall.plan import channel_weights
from vmemo.recall.rerank import Reranked
from vmemo.recall.search import Found
from vmemo.text.questions import QueryAnalysis


def explanation(analysis: QueryAnalysis, found: Found, context: Context, ranked: Reranked) -> Explanation:
    """The explanation of one recall."""
    brought: dict[Channel, set[FactId]] = {}
    for strand in found.strands:
        brought.setdefault(strand.channel, set()).update(hit.id for hit in strand.ranking.hits)
    weights: dict[Channel, float] = {
        channel: weight
        for channel, weight in channel_weights(analysis.type).items()
        if channel in context.settings.channels
    }
    told = found.told or Told()
    during = told.during or analysis.during
    return Explanation(
        type=analysis.type,
        during=during,
        read_by=None if during is None else "model" if told.during else "rules",
        unread=analysis.unresolved_time.text if analysis.unresolved_time else None,
        trouble=told.trouble,
        parts=analysis.parts,
        entities=tuple(found.entities),
        weights=weights,
        candidates={channel: len(ids) for channel, ids in brought.items()},
        reranker=context.reranker if isinstance(context.reranker, str) else context.reranker.name,
        reranked=ranked.looked_at,
    )
