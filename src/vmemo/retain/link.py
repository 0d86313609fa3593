"""Links between facts: temporal, semantic and causal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from vmemo.models import Fact, FactId, Link
from vmemo.models.drafts import FactDraft
from vmemo.models.search import Scored
from vmemo.models.setting_groups import LinkSettings


def temporal_links(new: Sequence[Fact], earlier: Sequence[Fact], settings: LinkSettings) -> Iterator[Link]:
    """Yield links from each new fact to the nearest earlier ones, new or stored."""
    line = sorted((*earlier, *new), key=event_time)
    fresh, decay = {fact.id for fact in new}, timedelta(hours=settings.hours)
    for i, fact in enumerate(line):
        if fact.id not in fresh:
            continue
        for other in line[max(0, i - settings.temporal) : i]:
            apart = event_time(fact) - event_time(other)
            if apart <= decay:
                weight = max(settings.least_temporal, math.exp(-(apart / decay)))
                yield Link(source=fact.id, target=other.id, kind="temporal", weight=weight)


def event_time(fact: Fact) -> datetime:
    """Return the time that orders a fact: its occurrence, or else its mention."""
    return fact.occurred_start or fact.mentioned_at


def semantic_links(fact: FactId, near: Sequence[Scored], settings: LinkSettings) -> Iterator[Link]:
    """Yield links from a fact to the most similar ones."""
    for other in [hit for hit in near if hit.id != fact][: settings.semantic]:
        if other.score >= settings.cosine:
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
