"""Cells: neighbours of new facts in a large bank."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from vmemo.models import FactId
from vmemo.stores.sqlite.index import bank, vectors
from vmemo.stores.sqlite.index.bank import COLUMNS, BankIndex, FactBlock, FactIds
from vmemo.stores.sqlite.index.postings import keys_of
from vmemo.stores.sqlite.index.vectors import SharedCells, Vectors, quantised

DIMENSION, GROUPS = 64, 40


def similar_vectors(count: int, seed: int) -> NDArray[np.float32]:
    centres = np.random.default_rng(0).standard_normal((GROUPS, DIMENSION))
    random = np.random.default_rng(seed)
    rows = centres[random.integers(GROUPS, size=count)] + 0.5 * random.standard_normal((count, DIMENSION))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def index_of(rows: NDArray[np.float32], known: BankIndex | None = None) -> BankIndex:
    known = known or BankIndex.empty(DIMENSION, 1, 0)
    columns = np.full((len(COLUMNS), len(rows)), 2**63 - 1, np.int64)
    columns[0] = np.arange(known.count, known.count + len(rows))
    ids = [FactId(f"fact {number}") for number in columns[0].tolist()]
    block = FactBlock(FactIds.of(ids), columns, *quantised(rows), keys_of([np.zeros(0, np.uint32)] * len(rows)))
    return known.extended(known.revision + 1, [block])


def test_cells_find_the_neighbours_that_a_search_of_all_rows_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "SEARCHED", 400)
    index, queries = index_of(similar_vectors(4_000, 1)), similar_vectors(200, 2)
    scanned = index.neighbours(queries, index.current(0), 10, 0.3)
    monkeypatch.setattr(bank, "MULTIPLIED", 1_000)
    monkeypatch.setattr(bank, "FEW", 100)
    found = index.neighbours(queries, index.current(0), 10, 0.3)
    one_by_one = [index.neighbours(query[None], index.current(0), 10, 0.3)[0] for query in queries]
    for some in (found, one_by_one):
        shared = [{hit.id for hit in one} & {hit.id for hit in other} for one, other in zip(some, scanned, strict=True)]
        assert np.mean([len(ids) for ids in shared]) > 9.5


def test_an_older_view_does_not_return_the_rows_of_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank, "MULTIPLIED", 1_000)
    rows = similar_vectors(2_000, 1)
    older = index_of(rows)
    newer = index_of(rows[:300], older)
    for view in (newer, older):
        found = view.neighbours(rows[:300], view.current(0), 5, 0.3)
        assert all(hit.id in set(view.ids.all()) for hits in found for hit in hits)
    same = newer.neighbours(rows[:100], newer.current(0), 2, 0.9)[7]
    # Which of two equal rows comes first depends on how the processor rounds.
    assert {hit.id for hit in same} == {"fact 7", "fact 2007"}


def test_few_queries_read_all_rows_and_assigning_is_divided_among_the_others() -> None:
    vectors = Vectors.empty(DIMENSION).extended(*quantised(similar_vectors(5_000, 1)))
    cells = SharedCells()
    assert cells.get(vectors, 100) is None
    assert cells.get(vectors, 41) is not None
    slow = SharedCells()
    assert [slow.get(vectors, queries) is None for queries in (139, 1, 1, 1, 1, 1)] == [True] * 5 + [False]
