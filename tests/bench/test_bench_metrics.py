"""Metrics against tables worked out by hand."""

from __future__ import annotations

import math

import pytest

from vmemo_bench.metrics import Ranked, means, percentile, rank_metrics, spread, token_metrics


def ranking(*places: str, tokens: int = 100) -> list[Ranked]:
    """One place per argument; `a+b` stands for a fact with two sources."""
    return [Ranked(frozenset(place.split("+")), tokens) for place in places]


@pytest.mark.parametrize(
    ("evidence", "places", "expected"),
    [
        ({"a"}, ("a", "x"), {"recall@1": 1, "recall_any@1": 1, "recall_all@1": 1, "mrr": 1, "ndcg@10": 1}),
        ({"a"}, ("x", "a"), {"recall@1": 0, "recall@5": 1, "mrr": 0.5, "ndcg@10": 1 / math.log2(3)}),
        (
            {"a", "b"},
            ("a", "x", "b"),
            {
                "recall@1": 0.5,
                "recall_any@1": 1,
                "recall_all@1": 0,
                "recall@5": 1,
                "recall_all@5": 1,
                "mrr": 1,
                "ndcg@10": (1 + 1 / 2) / (1 + 1 / math.log2(3)),
            },
        ),
        ({"a", "b"}, ("x", "y"), {"recall@50": 0, "recall_any@50": 0, "mrr": 0, "ndcg@10": 0}),
        ({"a"}, (), {"recall@1": 0, "mrr": 0, "ndcg@10": 0}),
    ],
)
def test_rank_metrics_follow_the_table(evidence: set[str], places: tuple[str, ...], expected: dict[str, float]) -> None:
    scores = rank_metrics(evidence, ranking(*places))
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


def test_evidence_counts_at_its_first_place_only() -> None:
    assert rank_metrics({"a", "b"}, ranking("a", "a", "a", "a", "a", "b"))["recall@5"] == 0.5


def test_one_fact_with_two_pieces_of_evidence_is_no_better_than_perfect() -> None:
    scores = rank_metrics({"a", "b"}, ranking("a+b"))
    assert (scores["recall@1"], scores["ndcg@10"]) == (1.0, 1.0)


def test_evidence_inside_tokens_counts_whole_prefixes() -> None:
    places = ranking("x", "a", "b+c", tokens=400)
    scores = token_metrics({"a", "b", "c", "missing"}, places)
    assert scores == {
        "evidence@500": 0,
        "evidence@1000": 0.25,
        "evidence@2000": 0.75,
        "evidence@4000": 0.75,
        "evidence@8000": 0.75,
    }


def test_a_fact_that_ends_exactly_at_the_limit_is_inside() -> None:
    assert token_metrics({"a"}, ranking("a", tokens=500))["evidence@500"] == 1
    assert token_metrics({"a"}, ranking("a", tokens=501))["evidence@500"] == 0


def test_a_question_without_evidence_has_no_metrics() -> None:
    assert rank_metrics([], ranking("a")) == {}
    assert token_metrics([], ranking("a")) == {}


def test_means_are_over_the_questions_that_have_the_metric() -> None:
    assert means([{"a": 1.0, "b": 0.5}, {"a": 0.0}]) == {"a": 0.5, "b": 0.5}
    assert means([]) == {}


def test_percentiles_are_interpolated() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert spread([7.0]) == {"p50_ms": 7.0, "p95_ms": 7.0}
