"""The search structures in memory: close to exact, and the same however they grew."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from vmemo.stores.search import K1, B
from vmemo.stores.sqlite.index import (
    EARLIEST,
    EXACT,
    LATEST,
    SEGMENTS,
    BankIndex,
    ComparedVectors,
    FactRows,
    Hashes,
    Postings,
    Vectors,
    best,
    hashed,
    quantised,
)
from vmemo.stores.values import term_hash

Matrix = NDArray[np.float32]
WORDS = ("oak", "elm", "ash", "fir", "yew")


def clustered(rows: int, dimension: int, *, clusters: int = 100, spread: float = 1.0, seed: int = 7) -> Matrix:
    """Unit vectors around random middles, as texts on a number of topics have them."""
    random = np.random.default_rng(seed)
    middles = random.standard_normal((clusters, dimension), np.float32)
    noise = random.standard_normal((rows, dimension), np.float32) * np.float32(spread)
    vectors = middles[random.integers(0, clusters, rows)] + noise
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def indexed(data: Matrix) -> Vectors:
    return Vectors.empty(data.shape[1]).extended(quantised(data))


def found(vectors: Vectors, query: Matrix, limit: int, exact: int = EXACT) -> set[int]:
    rows, _ = ComparedVectors(vectors, query).nearest(np.ones(vectors.count, np.bool_), limit, exact)
    return set(rows.tolist())


def recall(data: Matrix, queries: Matrix, limit: int, exact: int = EXACT) -> float:
    """The share of the true nearest rows that a search finds."""
    vectors = indexed(data)
    truth = np.argsort(-(queries @ data.T), axis=1)[:, :limit]
    hits = sum(len(found(vectors, q, limit, exact) & set(t.tolist())) for q, t in zip(queries, truth, strict=True))
    return hits / (len(queries) * limit)


@pytest.mark.parametrize(("clusters", "spread"), [(20, 1.0), (100, 1.0), (20, 2.0), (100, 2.0)])
def test_sign_bits_find_nearly_all_of_the_nearest_rows(clusters: int, spread: float) -> None:
    data = clustered(20_040, 384, clusters=clusters, spread=spread)
    assert recall(data[:20_000], data[20_000:], 50) >= 0.98


@pytest.mark.parametrize("clusters", [20, 100])
def test_near_duplicates_swap_ranks_only_at_about_the_same_cosine(clusters: int) -> None:
    data = clustered(20_040, 384, clusters=clusters, spread=0.5)
    assert recall(data[:20_000], data[20_000:], 50) >= 0.95
    vectors = indexed(data[:20_000])
    for query in data[20_000:]:
        exact = data[:20_000] @ query
        rows, _ = ComparedVectors(vectors, query).nearest(np.ones(20_000, np.bool_), 50)
        assert np.abs(np.sort(exact[rows]) - np.sort(exact)[-50:]).max() < 0.005


def test_recall_falls_for_neighbours_beyond_a_small_topic() -> None:
    """A topic of 20 rows is found whole; the 30 unrelated rows that fill up 50 are close to random."""
    data = clustered(20_040, 384, clusters=1000)
    assert recall(data[:20_000], data[20_000:], 10) >= 0.98
    assert recall(data[:20_000], data[20_000:], 50) >= 0.85


def test_few_neighbours_are_found_with_fewer_candidates() -> None:
    data = clustered(20_040, 384)
    assert recall(data[:20_000], data[20_000:], 5, exact=512) >= 0.95


@pytest.mark.parametrize("dimension", [3, 64, 70, 384])
def test_a_small_bank_is_searched_exactly(dimension: int) -> None:
    data = clustered(EXACT, dimension)
    vectors = indexed(data)
    query = clustered(1, dimension, seed=9)[0]
    rows, cosines = ComparedVectors(vectors, query).nearest(np.ones(EXACT, np.bool_), 20)
    exact = data @ query
    assert np.abs(cosines - exact[rows]).max() < 0.01
    assert np.abs(np.sort(exact)[::-1][:20] - exact[rows]).max() < 0.02
    assert (np.diff(cosines) <= 0).all()


def test_only_allowed_rows_are_found_however_few_they_are() -> None:
    data = clustered(6_000, 64)
    vectors = indexed(data)
    for share in (2, 7, 1000):
        allowed = np.arange(6_000) % share == 0
        rows, _ = ComparedVectors(vectors, data[1]).nearest(allowed, 5)
        exact = np.flatnonzero(allowed)[np.argsort(-(data[allowed] @ data[1]))[:5]]
        assert allowed[rows].all()
        assert len(set(rows.tolist()) & set(exact.tolist())) >= 4
    nothing, _ = ComparedVectors(vectors, data[1]).nearest(np.zeros(6_000, np.bool_), 5)
    assert len(nothing) == 0


def test_of_very_many_equal_rows_no_more_are_scored_than_are_wanted() -> None:
    rows = np.full((20_000, 64), 0.125, np.float32)
    rows[19_999] = 0, *rows[0, 1:]
    vectors = Vectors.empty(64).extended(quantised(rows))
    likely, _ = ComparedVectors(vectors, rows[19_999]).likely(np.ones(20_000, np.bool_), 10)
    assert len(likely) == EXACT
    assert likely[-1] == 19_999


def test_extending_an_index_leaves_the_older_view_unchanged() -> None:
    data = clustered(5_000, 64)
    old = indexed(data[:3_000])
    before = ComparedVectors(old, data[0]).nearest(np.ones(3_000, np.bool_), 10)
    new = old.extended(quantised(data[3_000:3_001])).extended(quantised(data[3_001:]))
    after = ComparedVectors(old, data[0]).nearest(np.ones(3_000, np.bool_), 10)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    whole = indexed(data)
    everything = np.ones(5_000, np.bool_)
    pairs = zip(
        ComparedVectors(new, data[0]).nearest(everything, 10),
        ComparedVectors(whole, data[0]).nearest(everything, 10),
        strict=True,
    )
    assert all(np.array_equal(one, other) for one, other in pairs)


def test_the_baseline_is_below_unrelated_rows_and_missing_for_an_empty_index() -> None:
    data = clustered(4_000, 64)
    vectors = indexed(data)
    exact = data @ data[0]
    assert ComparedVectors(vectors, data[0]).baseline == pytest.approx(float(exact.mean() - 2 * exact.std()), abs=0.05)
    assert ComparedVectors(Vectors.empty(64), data[0]).baseline == 0.0


@given(st.lists(st.integers(-5, 5), max_size=40), st.integers(0, 50))
def test_the_best_scores_come_first_and_equal_ones_keep_their_order(scores: list[int], limit: int) -> None:
    chosen = best(np.array(scores, np.float32), limit).tolist()
    assert [scores[i] for i in chosen] == sorted(scores, reverse=True)[:limit]
    assert all(one < other for one, other in pairwise(chosen) if scores[one] == scores[other])


texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), max_size=40)


def worded(rows: Sequence[Sequence[str]]) -> tuple[Hashes, NDArray[np.int64]]:
    return hashed([word for row in rows for word in row]), np.array([len(row) for row in rows], np.int64)


@given(texts, st.lists(st.integers(1, 4), max_size=40))
def test_merged_segments_score_like_a_single_build(rows: list[list[str]], steps: list[int]) -> None:
    grown, rest = Postings.empty(), rows
    for step in steps:
        grown, rest = grown.extended(*worded(rest[:step])), rest[step:]
    grown = grown.extended(*worded(rest))
    assert len(grown.segments) <= SEGMENTS
    whole = Postings.empty().extended(*worded(rows))
    for query in (WORDS, WORDS[:1], ("oak", "oak", "unknown"), ()):
        assert np.array_equal(grown.scores(query), whole.scores(query))


@given(texts)
def test_scores_equal_bm25(rows: list[list[str]]) -> None:
    scores = Postings.empty().extended(*worded(rows)).scores(("oak", "elm"))
    mean = max(sum(map(len, rows)) / len(rows), 1.0) if rows else 1.0
    expected = [sum(bm25(word, row, rows, mean) for word in ("oak", "elm")) for row in rows]
    assert np.allclose(scores, expected, rtol=1e-4)


def bm25(word: str, row: list[str], rows: list[list[str]], mean: float) -> float:
    holders, often = sum(word in other for other in rows), row.count(word)
    rarity = log(1 + (len(rows) - holders + 0.5) / (holders + 0.5))
    return rarity * often * (K1 + 1) / (often + K1 * (1 - B + B * len(row) / mean))


def test_term_hashes_are_stable_across_releases() -> None:
    """Files hold these numbers."""
    assert [term_hash(word) for word in ("oak", "木", "")] == [94473572, 3021337282, 634351890]


def some_rows(facts: Mapping[int, tuple[Sequence[str], int]]) -> FactRows:
    """Facts by number, each with its words and the time when it expired."""
    vectors = [np.random.default_rng(seq).standard_normal(8) for seq in facts]
    rows = [
        (seq, seq, seq, seq % 4, EARLIEST, LATEST, seq, expired, LATEST, seq, seq + 1, 1)
        for seq, (_, expired) in facts.items()
    ]
    return FactRows(
        np.array(rows, np.int64).reshape(len(rows), 12).T,
        quantised(np.array(vectors, np.float32).reshape(len(rows), 8)),
        *worded([words for words, _ in facts.values()]),
        np.array([(seq, seq % 3) for seq in facts], np.int64).reshape(len(rows), 2),
    )


def answers(index: BankIndex) -> list[object]:
    query = np.eye(8, dtype=np.float32)[0]
    allowed = index.current(now=0)
    nearest = index.nearest(ComparedVectors(index.vectors, query), allowed, 10, -1.0)
    matching = index.matching(["oak", "elm"], allowed, 10)
    mentioning = [rows.tolist() for rows in index.mentions.of_entities(range(3))]
    ranked = [each.tolist() for ranking in (nearest, matching) for each in (ranking.rows, ranking.scores)]
    return [*ranked, index.neighbours(query[None, :], allowed, 3, 0.0), mentioning]


steps_of_a_bank = st.lists(
    st.tuples(st.lists(st.lists(st.sampled_from(WORDS), max_size=5), max_size=4), st.sets(st.integers(0, 60))),
    max_size=14,
)


@settings(max_examples=60)
@given(steps_of_a_bank)
def test_a_refreshed_index_equals_a_rebuilt_one(steps: list[tuple[list[list[str]], set[int]]]) -> None:
    """Each step adds facts and closes some older ones."""
    facts: dict[int, tuple[list[str], int]] = {}
    index = BankIndex.empty(8, number=1, purges=0)
    first = 0
    for revision, (added, closed) in enumerate(steps):
        shut = {seq: (facts[seq][0], revision) for seq in sorted(closed & facts.keys())}
        new = {first + i: (words, LATEST) for i, words in enumerate(added)}
        first += len(added) + 2
        before = answers(index)
        refreshed = index.patched(some_rows(shut).columns).extended(revision, some_rows(new))
        assert answers(index) == before
        index, facts = refreshed, facts | shut | new
    fresh = BankIndex.empty(8, number=1, purges=0).extended(len(steps), some_rows(facts))
    assert answers(index) == answers(fresh)
    assert np.array_equal(index.table[:, : index.count], fresh.table[:, : fresh.count])
