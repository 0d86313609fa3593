"""Links between facts: temporal, semantic and causal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from vmemo.models import Fact, FactId, Link, LinkKind
from vmemo.models.drafts import FactDraft
from vmemo.retain.similar import Similar

DECAY_TIME = timedelta(hours=24)
"""Time over which the weight of a temporal link falls to 1/e; also the longest distance of a link."""
LEAST_TEMPORAL = 0.3
"""Least weight of a temporal link."""
LINK_COSINE = 0.7
"""Least cosine of a semantic link."""


def temporal_links(new: Sequence[Fact], earlier: Sequence[Fact], limit: int) -> Iterator[Link]:
    """Yield links from each new fact to the `limit` nearest earlier ones, new or stored."""
    line = sorted((*earlier, *new), key=event_time)
    times = [event_time(fact) for fact in line]
    fresh = {fact.id for fact in new}
    for i, (fact, time) in enumerate(zip(line, times, strict=True)):
        if fact.id not in fresh:
            continue
        for place in range(max(0, i - limit), i):
            apart = time - times[place]
            if apart <= DECAY_TIME:
                weight = max(LEAST_TEMPORAL, math.exp(-(apart / DECAY_TIME)))
                yield _link(fact.id, line[place].id, "temporal", weight)


def event_time(fact: Fact) -> datetime:
    """Return the time that orders a fact: its occurrence, or else its mention."""
    return fact.occurred_start or fact.mentioned_at


def semantic_links(fact: FactId, near: Similar, limit: int) -> Iterator[Link]:
    """Yield links from a fact to the `limit` most similar ones."""
    others = ((id, score) for id, score in zip(near.ids, near.scores, strict=True) if id != fact)
    for id, score in islice(others, limit):
        if score >= LINK_COSINE:
            yield _link(fact, id, "semantic", min(1.0, score))


def _link(source: FactId, target: FactId, kind: LinkKind, weight: float) -> Link:
    return Link.trusted({"source": source, "target": target, "kind": kind, "weight": weight})


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
