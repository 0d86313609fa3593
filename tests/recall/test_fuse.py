"""C3: the rankings of several channels become one order."""

from __future__ import annotations

import pytest

from vmemo.models import Channel, ChannelCandidate, ChannelPlacement, FactId
from vmemo.models.search import Ranking
from vmemo.models.settings import Fusion
from vmemo.recall.fuse import RANK_CONSTANT, ChannelRanking, best_candidates, fuse, placements

A, B, C = map(ord, "abc")


def ranking(channel: Channel, weight: float, *hits: tuple[str, float], baseline: float = 0.0) -> ChannelRanking:
    return ChannelRanking(channel, Ranking.of([(ord(id), 5, 0, score) for id, score in hits], baseline), weight)


def scores(rankings: list[ChannelRanking], method: Fusion = "sum") -> dict[str, float]:
    _, found = fuse(rankings[:1], rankings[1:], method)
    return {chr(number): round(score, 6) for number, score in zip(found.numbers, found.scores, strict=True)}


def test_sum_points_range_from_zero_at_the_baseline_to_the_weight_at_the_best() -> None:
    found = scores([ranking("semantic", 2.0, ("a", 0.9), ("b", 0.6), ("c", 0.5), ("d", 0.4), baseline=0.5)])
    assert found == {"a": 2.0, "b": 0.5, "c": 0.0, "d": 0.0}


def test_rankings_of_one_channel_add_up_with_their_own_weights() -> None:
    whole = ranking("keyword", 1.0, ("a", 4.0), ("b", 2.0))
    part = ranking("keyword", 0.5, ("b", 3.0), ("c", 1.5))
    assert scores([whole, part]) == {"a": 1.0, "b": 1.0, "c": 0.25}


def test_each_ranking_is_normalised_by_its_own_best() -> None:
    assert scores([ranking("keyword", 1.0, ("a", 100.0)), ranking("semantic", 1.0, ("b", 0.1))]) == {"a": 1.0, "b": 1.0}


def test_a_candidate_of_several_channels_ranks_higher() -> None:
    rankings = [
        ranking("semantic", 1.0, ("a", 1.0), ("b", 0.9)),
        ranking("keyword", 0.5, ("c", 3.0), ("b", 2.0)),
        ranking("graph", 0.1, ("b", 0.5)),
    ]
    for method in ("sum", "rank"):
        assert next(iter(scores(rankings, method))) == "b"


def test_rank_points_are_weighted() -> None:
    rankings = [ranking("semantic", 1.0, ("a", 1.0), ("b", 0.9)), ranking("keyword", 0.5, ("b", 3.0))]
    k = RANK_CONSTANT
    expected = {"a": 1 / (k + 1), "b": 1 / (k + 2) + 0.5 / (k + 1)}
    assert scores(rankings, "rank") == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("method", ["sum", "rank"])
def test_empty_rankings_add_nothing(method: Fusion) -> None:
    assert scores([], method) == {}
    assert scores([ranking("semantic", 1.0), ranking("keyword", 0.5)], method) == {}
    assert list(scores([ranking("semantic", 1.0), ranking("keyword", 0.5, ("a", 1.0))], method)) == ["a"]


def test_equal_scores_all_count_as_the_best() -> None:
    assert scores([ranking("semantic", 1.0, ("a", 0.7), ("b", 0.7), baseline=0.7)]) == {"a": 1.0, "b": 1.0}


def test_fused_candidates_keep_their_token_counts() -> None:
    _, found = fuse([ranking("semantic", 1.0, ("a", 0.7)), ranking("keyword", 1.0, ("a", 3.0))], [], "sum")
    assert found.tokens.tolist() == [5]


def test_placements_hold_rank_and_score_in_each_channel() -> None:
    rankings = [ranking("semantic", 1.0, ("a", 0.9), ("b", 0.8)), ranking("keyword", 0.5, ("b", 3.0))]
    assert placements(rankings, [A, B]) == {
        A: {"semantic": ChannelPlacement(1, 0.9)},
        B: {"semantic": ChannelPlacement(2, 0.8), "keyword": ChannelPlacement(1, 3.0)},
    }


def test_of_several_rankings_of_a_channel_the_best_rank_is_the_placement() -> None:
    whole = ranking("semantic", 1.0, ("a", 0.9), ("b", 0.8), ("c", 0.7))
    part = ranking("semantic", 0.15, ("c", 0.5), ("b", 0.4), ("a", 0.3))
    placed = placements([whole, part], [A, B, C])
    assert placed == {
        A: {"semantic": ChannelPlacement(1, 0.9)},
        B: {"semantic": ChannelPlacement(2, 0.8)},
        C: {"semantic": ChannelPlacement(1, 0.5)},
    }
    assert best_candidates([whole, part], 2, lambda numbers: {number: chr(number) for number in numbers}) == {
        "semantic": (ChannelCandidate(FactId("a"), 1, 0.9), ChannelCandidate(FactId("c"), 1, 0.5))
    }


def test_placements_are_limited_to_the_requested_candidates() -> None:
    rankings = [ranking("semantic", 1.0, ("a", 0.9), ("b", 0.8))]
    assert placements(rankings, [B, C]) == {B: {"semantic": ChannelPlacement(2, 0.8)}, C: {}}
