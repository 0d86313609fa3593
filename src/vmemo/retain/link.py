"""Edges between facts: nearness in time and in meaning, and what caused what."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from vmemo.models import Fact, FactId, Link
from vmemo.models.drafts import FactDraft
from vmemo.models.search import Scored

SIGMA = timedelta(hours=24)
"""Time over which the weight of a temporal link falls to 1/e."""
FLOOR = 0.3
"""Least weight of a temporal link inside a day; beyond a day there is none."""
CLOSEST = 5
"""Temporal links per fact, to those nearest before it."""
ALIKE = 0.7
"""Least cosine of a semantic link."""
MOST_ALIKE = 5
"""Semantic links per fact."""


def temporal_links(new: Sequence[Fact], earlier: Sequence[Fact]) -> Iterator[Link]:
    """Links from each new fact to the few nearest before it, in the batch or already stored."""
    line = sorted((*earlier, *new), key=when)
    fresh = {fact.id for fact in new}
    for i, fact in enumerate(line):
        if fact.id not in fresh:
            continue
        for other in line[max(0, i - CLOSEST) : i]:
            apart = when(fact) - when(other)
            if apart <= SIGMA:
                weight = max(FLOOR, math.exp(-(apart / SIGMA)))
                yield Link(source=fact.id, target=other.id, kind="temporal", weight=weight)


def when(fact: Fact) -> datetime:
    """The moment that places a fact on the time line."""
    return fact.occurred_start or fact.mentioned_at


def semantic_links(fact: FactId, near: Sequence[Scored]) -> Iterator[Link]:
    """Links from a fact to those most like it."""
    for other in [hit for hit in near if hit.id != fact][:MOST_ALIKE]:
        if other.score >= ALIKE:
            yield Link(source=fact, target=other.id, kind="semantic", weight=min(1.0, other.score))


def causal_links(
    drafts: Sequence[FactDraft], ids: Sequence[FactId], stands_for: Mapping[FactId, FactId]
) -> Iterator[Link]:
    """Links along the causes that an engine read; a draft that a known fact tells already is replaced by that fact."""
    by_key = {draft.key: stands_for.get(id, id) for draft, id in zip(drafts, ids, strict=True)}
    for draft, id in zip(drafts, ids, strict=True):
        source = stands_for.get(id, id)
        for cause in draft.causes:
            target = by_key.get(cause.target)
            if target is not None and target != source:
                yield Link(source=source, target=target, kind=cause.kind, weight=min(1.0, max(0.0, cause.strength)))
