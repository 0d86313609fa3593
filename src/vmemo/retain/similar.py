"""Facts similar to each of a batch, in columns: most of them are only counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from vmemo.models import FactId
from vmemo.models.changes import NewFact
from vmemo.models.search import Hits

_NONE = np.empty(0, np.intp)


class Similar(NamedTuple):
    """Facts similar to a new one and their cosines, best first, and the number of all such facts of its batch."""

    ids: Sequence[FactId]
    scores: Sequence[float]
    number: int


def similar_in_batch(
    new: Sequence[NewFact], floor: float, limit: int, *, order: Literal["stable", "quicksort"] = "stable"
) -> Iterator[Similar]:
    """Yield for each fact the similar ones that come before it in the batch, at most `limit`.

    Of equal ones the earlier fact comes first, unless the order is another one.
    """
    if not new:
        return
    ids = [item.fact.id for item in new]
    vectors = np.stack([item.embedding for item in new])
    for at, row in enumerate(vectors @ vectors.T):
        number = int(np.count_nonzero(row[:at] >= floor))
        nearest = np.argsort(-row[:at], kind=order)[: min(limit, number)] if number else _NONE
        yield Similar([ids[n] for n in nearest.tolist()], row[nearest].tolist(), number)


def merge_similar(stored: Hits, in_batch: Similar) -> Similar:
    """Return the stored facts and those of the batch, best first; of equal ones the stored fact first."""
    ids, scores = [*stored.ids, *in_batch.ids], [*stored.scores, *in_batch.scores]
    order = sorted(range(len(ids)), key=scores.__getitem__, reverse=True)
    return Similar([ids[n] for n in order], [scores[n] for n in order], in_batch.number)
