"""Grouping messages into episodes by time and topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

GAP = timedelta(minutes=30)
LARGEST = 25
WINDOW = 75
"""Messages that are compared with each other at once."""
CONTRAST = 0.07
"""How much more alike messages of one topic must be than messages of two, in cosine, for topics to be told apart."""
SMALLEST = 2
"""Messages of which a topic of its own consists at least."""
NEARBY = 0.05
"""What being neighbours adds to the likeness of two messages."""
REPEATED = 0.95
"""Cosine at which a message says again what another said."""


@dataclass(frozen=True)
class Line:
    """A message as segmentation sees it."""

    at: datetime
    vector: NDArray[np.float32]


def segment(lines: Sequence[Line]) -> list[list[int]]:
    """Positions of each episode's lines, episodes by their first line. Lines come in order of time."""
    groups = [group for block in _blocks(lines) for group in _topics(lines, block)]
    sized = [group[i : i + LARGEST] for group in groups for i in range(0, len(group), LARGEST)]
    return _merged(lines, sorted(sized, key=lambda group: group[0]))


def _merged(lines: Sequence[Line], groups: Sequence[list[int]]) -> list[list[int]]:
    """Groups, with each one that repeats the one before it, and fits, made part of that."""
    kept: list[list[int]] = []
    for group in groups:
        fits = bool(kept) and len(kept[-1]) + len(group) <= LARGEST
        if fits and repeats([lines[i] for i in group], [lines[i] for i in kept[-1]]):
            kept[-1] = [*kept[-1], *group]
        else:
            kept.append(group)
    return kept


def _blocks(lines: Sequence[Line]) -> Iterator[list[int]]:
    """Runs without a silence of more than half an hour, none longer than the window."""
    block: list[int] = []
    for i, line in enumerate(lines):
        if block and (line.at - lines[block[-1]].at > GAP or len(block) >= WINDOW):
            yield block
            block = []
        block.append(i)
    if block:
        yield block


def _topics(lines: Sequence[Line], block: list[int]) -> list[list[int]]:
    """The block whole, or in two as long as the halves differ clearly; interleaved topics end up apart."""
    if len(block) < 2 * SMALLEST:
        return [block]
    vectors = np.stack([lines[i].vector for i in block])
    alike = vectors @ vectors.T
    place = np.arange(len(block))
    side = _two_sides(alike + NEARBY * (np.abs(place[:, None] - place[None, :]) == 1))
    if min(side.sum(), (~side).sum()) < SMALLEST or _contrast(alike, side) < CONTRAST:
        return [block]
    one = [i for i, chosen in zip(block, side, strict=True) if chosen]
    other = [i for i, chosen in zip(block, side, strict=True) if not chosen]
    return [*_topics(lines, one), *_topics(lines, other)]


def _two_sides(alike: NDArray[np.float32]) -> NDArray[np.bool_]:
    """The last merge of average-link clustering: which lines are on the first line's side."""
    members = [[i] for i in range(len(alike))]
    sums = alike.astype(np.float64).copy()
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
    side = np.zeros(len(alike), np.bool_)
    side[members[0]] = True
    return side


def _contrast(alike: NDArray[np.float32], side: NDArray[np.bool_]) -> float:
    """Mean likeness inside the sides less that across them."""
    return float(min(_inside(alike, side), _inside(alike, ~side)) - alike[side][:, ~side].mean())


def _inside(alike: NDArray[np.float32], side: NDArray[np.bool_]) -> float:
    part = alike[side][:, side]
    count = len(part)
    return float((part.sum() - np.trace(part)) / (count * (count - 1)))


def repeats(new: Sequence[Line], old: Sequence[Line]) -> bool:
    """Whether an episode says again what another said: nearly every line has its like there."""
    if not new or not old:
        return False
    best = (np.stack([line.vector for line in new]) @ np.stack([line.vector for line in old]).T).max(axis=1)
    return float((best >= REPEATED).mean()) >= 0.8
