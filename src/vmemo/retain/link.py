"""Links between facts: temporal, semantic and causal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from vmemo.models import Fact, FactId, Link
from vmemo.models.drafts import FactDraft
from vmemo.models.search import Scored

DECAY = timedelta(hours=24)
"""Time over which the weight of a temporal link falls to 1/e; also the longest distance of a link."""
MIN_TEMPORAL_WEIGHT = 0.3
"""Minimum weight of a temporal link."""
TEMPORAL_LINKS = 5
"""Temporal links per fact, to the nearest earlier ones."""
MIN_COSINE = 0.7
"""Minimum cosine of a semantic link."""
SEMANTIC_LINKS = 5
"""Maximum semantic links per fact."""


def temporal_links(new: Sequence[Fact], earlier: Sequence[Fact]) -> Iterator[Link]:
    """Yield links from each new fact to the nearest earlier ones, new or stored."""
    line = sorted((*earlier, *new), key=event_time)
    fresh = {fact.id for fact in new}
    for i, fact in enumerate(line):
        if fact.id not in fresh:
            continue
        for other in line[max(0, i - TEMPORAL_LINKS) : i]:
            apart = event_time(fact) - event_time(other)
            if apart <= DECAY:
                weight = max(MIN_TEMPORAL_WEIGHT, math.exp(-(apart / DECAY)))
                yield Link(source=fact.id, target=other.id, kind="temporal", weight=weight)


def event_time(fact: Fact) -> datetime:
    """Return the time that orders a fact: its occurrence, or else its mention."""
    return fact.occurred_start or fact.mentioned_at


def semantic_links(fact: FactId, near: Sequence[Scored]) -> Iterator[Link]:
    """Yield links from a fact to the most similar ones."""
    for other in [hit for hit in near if hit.id != fact][:SEMANTIC_LINKS]:
        if other.score >= MIN_COSINE:
            yield Link(source=fact, target=other.id, kind="semantic", weight=min(1.0, other.score))


def causal_links(
    drafts: Sequence[FactDraft], ids: Sequence[FactId], duplicate_of: Mapping[FactId, FactId]
) -> Iterator[Link]:
    """Yield the causal links of drafts; a duplicate is replaced by the known fact that it repeats."""
    by_key = {draft.key: duplicate_of.get(id, id) for draft, id in zip(drafts, ids, strict=True)}
    for draft, id in zip(drafts, ids, strict=True):
        source = duplicate_of.get(id, id)
        for cause in draft.causes:
            target = by_key.get(cause.target)
            if target is not None and target != source:
                yield Link(source=source, target=target, kind=cause.kind, weight=min(1.0, max(0.0, cause.strength)))
