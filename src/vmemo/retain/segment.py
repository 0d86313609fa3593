"""Segmentation of messages into episodes by time gaps and topic similarity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vmemo.models.settings import Settings

# Chosen on conversations of our own.
CONTRAST = 0.065
"""Least difference of mean cosine within topics and between them to separate a run of messages."""
INTERLEAVED = 0.12
"""Least such difference to separate topics that alternate."""
RUN_MESSAGES = 3
"""Least messages of a run that is separated, and of the rest."""
TOPIC_MESSAGES = 2
"""Least messages of a topic that alternates with another, and on each side of a run within a topic."""
ADJACENCY = 0.05
"""Added to the cosine of adjacent messages."""
REPEAT_COSINE = 0.95
"""Cosine from which a message counts as a repetition."""
WINDOW = 75
"""Messages that are clustered together."""
Similarity: TypeAlias = NDArray[np.float64]
"""Cosines of all pairs of messages."""


@dataclass(frozen=True)
class MessageVector:
    """A message's time and embedding."""

    at: datetime
    vector: NDArray[np.float32]


def segment(lines: Sequence[MessageVector], settings: Settings) -> list[list[int]]:
    """Return the indexes of each episode's messages, ordered by first message. Lines must be in order of time."""
    groups = [group for block in _blocks(lines, settings.episode_gap) for group in _topics(lines, block)]
    size = settings.episode_messages
    sized = [group[i : i + size] for group in groups for i in range(0, len(group), size)]
    return _merged(lines, sorted(sized, key=lambda group: group[0]), size)


def _merged(lines: Sequence[MessageVector], groups: Sequence[list[int]], size: int) -> list[list[int]]:
    """Merge each group that repeats the previous one, if the result is not too large."""
    kept: list[list[int]] = []
    for group in groups:
        fits = bool(kept) and len(kept[-1]) + len(group) <= size
        if fits and is_repetition([lines[i] for i in group], [lines[i] for i in kept[-1]]):
            kept[-1] = [*kept[-1], *group]
        else:
            kept.append(group)
    return kept


def _blocks(lines: Sequence[MessageVector], gap: timedelta) -> Iterator[list[int]]:
    """Yield runs without a longer gap and of at most WINDOW messages."""
    block: list[int] = []
    for i, line in enumerate(lines):
        if block and (line.at - lines[block[-1]].at > gap or len(block) >= WINDOW):
            yield block
            block = []
        block.append(i)
    if block:
        yield block


def _topics(lines: Sequence[MessageVector], block: list[int]) -> list[list[int]]:
    """Split a block recursively: a run of messages from the rest, or else interleaved topics from each other."""
    if len(block) < 2 * TOPIC_MESSAGES:
        return [block]
    vectors = np.stack([lines[i].vector for i in block]).astype(np.float64)
    similarity = vectors @ vectors.T
    side = _best_run(similarity)
    if side is None:
        side = _interleaved(similarity)
    if side is None:
        return [block]
    one = [i for i, chosen in zip(block, side, strict=True) if chosen]
    other = [i for i, chosen in zip(block, side, strict=True) if not chosen]
    return [*_topics(lines, one), *_topics(lines, other)]


def _best_run(similarity: Similarity) -> NDArray[np.bool_] | None:
    """Return the run of adjacent messages that stands out most from the rest, or None if none does clearly.

    The contrast of a run is the mean similarity of pairs on one side less that of pairs across. The sums of all runs
    come from prefix sums.
    """
    count, least = len(similarity), RUN_MESSAGES
    if count < 2 * least:
        return None
    start, end = np.triu_indices(count + 1, k=least)
    sums = np.pad(similarity.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    rows, own = (np.append(0.0, each.cumsum()) for each in (similarity.sum(axis=1), np.diag(similarity)))
    block = sums[end, end] - sums[start, end] - sums[end, start] + sums[start, start]
    inside, across = block - (own[end] - own[start]), rows[end] - rows[start] - block
    rest = similarity.sum() - np.trace(similarity) - inside - 2 * across
    size, others = end - start, count - (end - start)
    pairs = size * (size - 1) + others * (others - 1)
    contrast = (inside + rest) / np.maximum(1, pairs) - across / np.maximum(1, size * others)
    before, after = start, count - end
    contrast[(others < least) | ((before > 0) & (after > 0) & (np.minimum(before, after) < TOPIC_MESSAGES))] = -np.inf
    best = int(contrast.argmax())
    if contrast[best] < CONTRAST:
        return None
    place = np.arange(count)
    return (place >= start[best]) & (place < end[best])


def _interleaved(similarity: Similarity) -> NDArray[np.bool_] | None:
    """Return the messages of one of two interleaved topics, or None if there are none that differ clearly."""
    place = np.arange(len(similarity))
    side = _two_sides(similarity + ADJACENCY * (np.abs(place[:, None] - place[None, :]) == 1))
    smallest = min(side.sum(), (~side).sum())
    return None if smallest < TOPIC_MESSAGES or _contrast(similarity, side) < INTERLEAVED else side


def _two_sides(similarity: Similarity) -> NDArray[np.bool_]:
    """Return which lines are in the first line's cluster of an average-link clustering into two."""
    members = [[i] for i in range(len(similarity))]
    sums = similarity.copy()
    while len(members) > 2:
        sizes = np.array([len(group) for group in members], np.float64)
        means = sums / np.outer(sizes, sizes)
        np.fill_diagonal(means, -np.inf)
        a, b = divmod(int(means.argmax()), len(members))
        a, b = min(a, b), max(a, b)
        members[a] += members.pop(b)
        sums[a] += sums[b]
        sums[:, a] += sums[:, b]
        sums = np.delete(np.delete(sums, b, 0), b, 1)
    side = np.zeros(len(similarity), np.bool_)
    side[members[0]] = True
    return side


def _contrast(similarity: Similarity, side: NDArray[np.bool_]) -> float:
    """Return the mean similarity within the sides minus that across them."""
    return float(min(_inside(similarity, side), _inside(similarity, ~side)) - similarity[side][:, ~side].mean())


def _inside(similarity: Similarity, side: NDArray[np.bool_]) -> float:
    part = similarity[side][:, side]
    count = len(part)
    return float((part.sum() - np.trace(part)) / (count * (count - 1)))


def is_repetition(new: Sequence[MessageVector], old: Sequence[MessageVector]) -> bool:
    """Return True if nearly every new line repeats an old one."""
    if not new or not old:
        return False
    best = (np.stack([line.vector for line in new]) @ np.stack([line.vector for line in old]).T).max(axis=1)
    return float((best >= REPEAT_COSINE).mean()) >= 0.8
