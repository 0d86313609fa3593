"""C5: the temporal channel takes what happened in a time, and follows links in time from the best of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import numpy as np
import pytest

from vmemo.models import BankId, FactId, Interval
from vmemo.models.search import Edge, EdgeQuery, Ranking, Scope, Scored, TimeQuery, VectorQuery
from vmemo.ports import Search
from vmemo.recall.temporal_channel import DECAY, FADING, FLOOR, STARTS, moments

SCOPE = Scope(bank=BankId("bank"), tags=frozenset({"trip"}))
MAY = Interval(start=datetime(2023, 5, 1, tzinfo=UTC), end=datetime(2023, 6, 1, tzinfo=UTC))


class Calendar:
    """A store's facts inside the time, and its links; both note what was asked."""

    def __init__(
        self, hits: Sequence[tuple[str, float]], edges: Sequence[tuple[str, str, float]] = (), ground: float = 0.0
    ) -> None:
        self._ranking = Ranking([Scored(FactId(id), score, 5) for id, score in hits], ground)
        self._edges = edges
        self.asked: list[TimeQuery] = []
        self.followed: list[EdgeQuery] = []

    async def during(self, query: TimeQuery) -> Ranking:
        """Facts inside the time."""
        self.asked.append(query)
        return self._ranking

    async def edges(self, query: EdgeQuery) -> list[Edge]:
        """Links that leave some facts."""
        self.followed.append(query)
        return [Edge(FactId(a), FactId(b), 7, "temporal", weight) for a, b, weight in self._edges if a in query.facts]


def found(calendar: Calendar, scope: Scope = SCOPE, limit: int = 100) -> Ranking:
    query = VectorQuery(scope=scope, space="space", vector=np.ones(2, np.float32), limit=limit, floor=0.3)
    return asyncio.run(moments(cast("Search", calendar), query, MAY))


def scores(ranking: Ranking) -> dict[str, float]:
    return {hit.id: round(hit.score, 6) for hit in ranking.hits}


def test_facts_inside_the_time_are_asked_for_within_the_scope() -> None:
    calendar = Calendar([("a", 0.9), ("b", 0.5)], ground=0.1)
    ranking = found(calendar, limit=17)
    assert (scores(ranking), ranking.ground) == ({"a": 0.9, "b": 0.5}, 0.1)
    (asked,) = calendar.asked
    assert (asked.scope, asked.space, asked.during, asked.limit) == (SCOPE, "space", MAY, 17)
    assert (asked.floor, asked.fading) == (FLOOR, FADING)


def test_a_linked_fact_gets_its_share_of_how_far_the_start_stands_out() -> None:
    ranking = found(Calendar([("a", 0.9)], [("a", "b", 0.5)], ground=0.4))
    assert scores(ranking) == {"a": 0.9, "b": round(0.4 + (0.9 - 0.4) * 0.5 * DECAY, 6)}
    assert DECAY == 0.7
    assert ranking.hits[1].tokens == 7
    assert ranking.ground == 0.4


def test_only_links_in_time_to_facts_of_that_time_are_followed() -> None:
    calendar = Calendar([("a", 0.9)])
    found(calendar)
    (followed,) = calendar.followed
    assert followed.kinds == {"temporal"}
    assert followed.scope == replace(SCOPE, occurred=MAY)
    assert (followed.facts, followed.entities) == (["a"], ())


def test_a_linked_fact_stands_where_its_score_puts_it() -> None:
    ranking = found(Calendar([("a", 0.9), ("b", 0.41)], [("a", "c", 0.9)]))
    assert [hit.id for hit in ranking.hits] == ["a", "c", "b"]


def test_of_two_links_to_a_fact_the_stronger_counts() -> None:
    links = [("a", "c", 0.4), ("b", "c", 0.9), ("b", "d", 0.9), ("a", "d", 0.4)]
    ranking = found(Calendar([("a", 0.9), ("b", 0.8)], links))
    assert scores(ranking)["c"] == scores(ranking)["d"] == round(0.8 * 0.9 * DECAY, 6)


def test_a_fact_inside_the_time_keeps_its_own_score() -> None:
    ranking = found(Calendar([("a", 0.9), ("b", 0.41)], [("a", "b", 1.0), ("b", "a", 1.0)]))
    assert scores(ranking) == {"a": 0.9, "b": 0.41}


def test_links_are_followed_from_the_best_alone_and_one_step_far() -> None:
    hits = [(f"f{n}", 0.9 - n / 100) for n in range(STARTS + 1)]
    links = [("f0", "near", 1.0), ("near", "far", 1.0), (f"f{STARTS}", "weak", 1.0)]
    calendar = Calendar(hits, links)
    assert set(scores(found(calendar))) - {id for id, _ in hits} == {"near"}
    (followed,) = calendar.followed
    assert followed.facts == [f"f{n}" for n in range(STARTS)]


def test_no_more_than_the_limit_is_found() -> None:
    ranking = found(Calendar([("a", 0.9), ("b", 0.41)], [("a", "c", 0.9)]), limit=2)
    assert [hit.id for hit in ranking.hits] == ["a", "c"]


def test_nothing_inside_the_time_means_no_links_and_nothing_found() -> None:
    calendar = Calendar([])
    assert found(calendar).hits == []
    assert calendar.followed == []


def test_a_time_that_the_caller_filters_by_leaves_links_alone() -> None:
    calendar = Calendar([("a", 0.9)], [("a", "b", 1.0)])
    filtered = replace(SCOPE, occurred=Interval(start=MAY.start))
    assert scores(found(calendar, filtered)) == {"a": 0.9}
    assert calendar.followed == []
    assert calendar.asked[0].scope == filtered


@pytest.mark.parametrize("ground", [-0.5, -0.1, 0.0, 0.2, 0.39])
def test_a_linked_fact_is_always_found_between_the_unrelated_and_its_start(ground: float) -> None:
    ranking = found(Calendar([("a", 0.4)], [("a", "b", 0.1)], ground=ground))
    assert ground < scores(ranking)["b"] < 0.4


@pytest.mark.parametrize("ground", [0.4, 0.5])
def test_a_start_that_does_not_stand_out_leads_nowhere(ground: float) -> None:
    assert scores(found(Calendar([("a", 0.4)], [("a", "b", 0.5)], ground=ground))) == {"a": 0.4}
