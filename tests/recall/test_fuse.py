"""C3: rankings of several strands become one order."""

from __future__ import annotations

import pytest

from vmemo.models import Channel, ChannelPlacement, FactId
from vmemo.models.search import Ranking, Scored
from vmemo.models.settings import Fusion
from vmemo.recall.fuse import RANK_K, Strand, fuse, placings


def strand(channel: Channel, weight: float, *hits: tuple[str, float], ground: float = 0.0) -> Strand:
    return Strand(channel, Ranking([Scored(FactId(id), score, 5) for id, score in hits], ground), weight)


def scores(strands: list[Strand], method: Fusion = "sum") -> dict[str, float]:
    return {item.id: round(item.score, 6) for item in fuse(strands, method)}


def test_a_sum_goes_from_nothing_at_the_ground_to_the_weight_at_the_best() -> None:
    found = scores([strand("semantic", 2.0, ("a", 0.9), ("b", 0.6), ("c", 0.5), ("d", 0.4), ground=0.5)])
    assert found == {"a": 2.0, "b": 0.5, "c": 0.0, "d": 0.0}


def test_strands_of_one_channel_add_up_with_their_own_weights() -> None:
    whole = strand("keyword", 1.0, ("a", 4.0), ("b", 2.0))
    part = strand("keyword", 0.5, ("b", 3.0), ("c", 1.5))
    assert scores([whole, part]) == {"a": 1.0, "b": 1.0, "c": 0.25}


def test_each_strand_is_measured_by_its_own_best() -> None:
    assert scores([strand("keyword", 1.0, ("a", 100.0)), strand("semantic", 1.0, ("b", 0.1))]) == {"a": 1.0, "b": 1.0}


def test_what_several_channels_find_rises() -> None:
    strands = [
        strand("semantic", 1.0, ("a", 1.0), ("b", 0.9)),
        strand("keyword", 0.5, ("c", 3.0), ("b", 2.0)),
        strand("graph", 0.1, ("b", 0.5)),
    ]
    for method in ("sum", "rank"):
        assert fuse(strands, method)[0].id == "b"


def test_ranks_are_weighed_too() -> None:
    strands = [strand("semantic", 1.0, ("a", 1.0), ("b", 0.9)), strand("keyword", 0.5, ("b", 3.0))]
    expected = {"a": 1 / (RANK_K + 1), "b": 1 / (RANK_K + 2) + 0.5 / (RANK_K + 1)}
    assert scores(strands, "rank") == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("method", ["sum", "rank"])
def test_empty_strands_bring_nothing(method: Fusion) -> None:
    assert fuse([], method) == []
    assert fuse([strand("semantic", 1.0), strand("keyword", 0.5)], method) == []
    assert list(scores([strand("semantic", 1.0), strand("keyword", 0.5, ("a", 1.0))], method)) == ["a"]


def test_a_ranking_without_a_spread_counts_all_as_the_best() -> None:
    assert scores([strand("semantic", 1.0, ("a", 0.7), ("b", 0.7), ground=0.7)]) == {"a": 1.0, "b": 1.0}


def test_tokens_come_along() -> None:
    (item,) = fuse([strand("semantic", 1.0, ("a", 0.7)), strand("keyword", 1.0, ("a", 3.0))])
    assert item.tokens == 5


def test_placings_tell_rank_and_score_in_each_channel() -> None:
    strands = [strand("semantic", 1.0, ("a", 0.9), ("b", 0.8)), strand("keyword", 0.5, ("b", 3.0))]
    assert placings(strands, {FactId("a"), FactId("b")}) == {
        "a": {"semantic": ChannelPlacement(1, 0.9)},
        "b": {"semantic": ChannelPlacement(2, 0.8), "keyword": ChannelPlacement(1, 3.0)},
    }


def test_of_several_strands_of_a_channel_the_best_rank_is_told() -> None:
    whole = strand("semantic", 1.0, ("a", 0.9), ("b", 0.8), ("c", 0.7))
    part = strand("semantic", 0.15, ("c", 0.5), ("b", 0.4), ("a", 0.3))
    placed = placings([whole, part], {FactId(id) for id in "abc"})
    assert placed == {
        "a": {"semantic": ChannelPlacement(1, 0.9)},
        "b": {"semantic": ChannelPlacement(2, 0.8)},
        "c": {"semantic": ChannelPlacement(1, 0.5)},
    }


def test_only_those_asked_for_are_placed_and_one_found_nowhere_has_no_place() -> None:
    strands = [strand("semantic", 1.0, ("a", 0.9), ("b", 0.8))]
    assert placings(strands, {FactId("b"), FactId("z")}) == {"b": {"semantic": ChannelPlacement(2, 0.8)}, "z": {}}
