"""Ranking metrics, means and percentiles."""

from __future__ import annotations

import math

import pytest

from vmemo_bench.statistics import RankedItem, means, percentile, percentiles, rank_metrics, token_metrics


def ranking(*items: str, tokens: int = 100) -> list[RankedItem]:
    """Return one item per argument; `a+b` is a fact with two sources."""
    return [RankedItem(frozenset(item.split("+")), tokens) for item in items]


@pytest.mark.parametrize(
    ("evidence", "items", "expected"),
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
def test_rank_metrics_have_the_expected_values(
    evidence: set[str], items: tuple[str, ...], expected: dict[str, float]
) -> None:
    scores = rank_metrics(evidence, ranking(*items))
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


def test_evidence_counts_at_its_first_position_only() -> None:
    assert rank_metrics({"a", "b"}, ranking("a", "a", "a", "a", "a", "b"))["recall@5"] == 0.5


def test_a_fact_with_two_pieces_of_evidence_scores_at_most_one() -> None:
    scores = rank_metrics({"a", "b"}, ranking("a+b"))
    assert (scores["recall@1"], scores["ndcg@10"]) == (1.0, 1.0)


def test_evidence_within_tokens_counts_whole_facts() -> None:
    items = ranking("x", "a", "b+c", tokens=400)
    scores = token_metrics({"a", "b", "c", "missing"}, items)
    assert scores == {
        "evidence@500": 0,
        "evidence@1000": 0.25,
        "evidence@2000": 0.75,
        "evidence@4000": 0.75,
        "evidence@8000": 0.75,
    }


def test_a_fact_that_ends_exactly_at_the_token_limit_counts() -> None:
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
    assert percentiles([7.0]) == {"p50_ms": 7.0, "p95_ms": 7.0, "p99_ms": 7.0}
