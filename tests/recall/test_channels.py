"""C5: the temporal channel finds what happened in an interval, and follows temporal links from the best of it."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from recall_runs import QUESTION, a_run
from vmemo.embedding.packaged import FLOOR
from vmemo.models import BankId, Channel, Interval
from vmemo.models.search import Edges, Encoding, Ranking, Scope, SearchRequest, temporal_link_query
from vmemo.models.settings import Settings
from vmemo.recall.rank import EDGE_PENALTY, LINK_DECAY, LINKED, search_request, with_temporal_links

SCOPE = Scope(bank=BankId("bank"), tags=("trip",))
MAY = Interval(start=datetime(2023, 5, 1, tzinfo=UTC), end=datetime(2023, 6, 1, tzinfo=UTC))
PART = Encoding(np.zeros(2, np.float32))
ALL: frozenset[Channel] = frozenset({"semantic", "keyword", "graph", "temporal", "verbatim"})


def request(
    enabled: frozenset[Channel] = ALL, *, scope: Scope = SCOPE, during: Interval | None = MAY, limit: int = 100
) -> SearchRequest:
    settings, encodings = Settings(channels=enabled), [QUESTION, PART]
    return search_request(
        a_run(settings=settings, scope=scope, parts=["Who?"], encodings=encodings, during=during, nodes=limit)
    )


def ranked(*hits: tuple[str, float], baseline: float = 0.0) -> Ranking:
    return Ranking.of([(ord(id), 5, 0, score) for id, score in hits], baseline)


def linked(ranking: Ranking, *links: tuple[str, str, float], limit: int = 100) -> Ranking:
    edges = [Edges(ord(a), "temporal", weight, [(ord(b), 7, 0)]) for a, b, weight in links]
    return with_temporal_links(ranking, edges, limit)


def scores(ranking: Ranking) -> dict[str, float]:
    return {chr(number): round(score, 6) for number, score in zip(ranking.numbers, ranking.scores, strict=True)}


def test_a_request_holds_every_enabled_channel() -> None:
    made = request(limit=17)
    assert (made.scope, made.space, made.limit) == (SCOPE, "vmemo-encoder-2.1", 17)
    assert (list(made.keyword), made.verbatim, made.names_in) == (["Which?", "Who?"], "Which?", "Which?")
    assert [vector.tolist() for vector in made.semantic] == [[1.0, 1.0], [0.0, 0.0]]
    assert made.temporal is not None
    assert (made.temporal.during, made.temporal.floor, made.temporal.edge_penalty) == (
        MAY,
        FLOOR,
        EDGE_PENALTY,
    )


def test_a_channel_that_is_switched_off_is_not_requested() -> None:
    made = request(frozenset({"keyword"}))
    assert (made.semantic, made.verbatim, made.temporal, made.names_in) == ([], "", None, "")
    assert not made.has_vectors
    assert list(request(frozenset({"semantic"})).keyword) == []


def test_the_graph_channel_alone_starts_from_the_semantic_hits_of_the_whole_question() -> None:
    made = request(frozenset({"graph"}))
    assert (len(made.semantic), made.names_in) == (1, "Which?")


def test_without_a_time_the_temporal_channel_is_not_requested() -> None:
    assert request(during=None).temporal is None


def test_temporal_links_are_followed_within_the_interval() -> None:
    made = request()
    assert made.temporal is not None
    query = temporal_link_query(made, made.temporal, ranked(*[(chr(97 + n), 0.9 - n / 100) for n in range(20)]))
    assert query is not None
    assert (query.kinds, query.scope) == ({"temporal"}, SCOPE.replace(occurred=MAY))
    assert query.floor == FLOOR
    assert (query.facts, query.entities) == ([97 + n for n in range(LINKED)], ())


def test_without_facts_in_the_interval_no_links_are_followed() -> None:
    made = request()
    assert made.temporal is not None
    assert temporal_link_query(made, made.temporal, Ranking()) is None
    assert scores(linked(Ranking())) == {}


def test_links_are_not_followed_if_the_caller_filters_by_time() -> None:
    made = request(scope=SCOPE.replace(occurred=Interval(start=MAY.start)))
    assert made.temporal is not None
    assert made.temporal.linked == 0
    assert temporal_link_query(made, made.temporal, ranked(("a", 0.9))) is None


def test_a_linked_fact_gets_a_share_of_how_far_its_source_stands_out() -> None:
    ranking = linked(ranked(("a", 0.9), baseline=0.4), ("a", "b", 0.5))
    assert scores(ranking) == {"a": 0.9, "b": round(0.4 + (0.9 - 0.4) * 0.5 * LINK_DECAY, 6)}
    assert LINK_DECAY == 0.7
    assert ranking.tokens.tolist() == [5, 7]
    assert ranking.baseline == 0.4


def test_a_linked_fact_is_ranked_by_its_score() -> None:
    ranking = linked(ranked(("a", 0.9), ("b", 0.41)), ("a", "c", 0.9))
    assert list(scores(ranking)) == ["a", "c", "b"]


def test_of_two_links_to_a_fact_the_stronger_counts() -> None:
    links = [("a", "c", 0.4), ("b", "c", 0.9), ("b", "d", 0.9), ("a", "d", 0.4)]
    ranking = linked(ranked(("a", 0.9), ("b", 0.8)), *links)
    assert scores(ranking)["c"] == scores(ranking)["d"] == round(0.8 * 0.9 * LINK_DECAY, 6)


def test_a_fact_inside_the_interval_keeps_its_own_score() -> None:
    ranking = linked(ranked(("a", 0.9), ("b", 0.41)), ("a", "b", 1.0), ("b", "a", 1.0))
    assert scores(ranking) == {"a": 0.9, "b": 0.41}


def test_the_limit_applies_to_linked_facts_too() -> None:
    ranking = linked(ranked(("a", 0.9), ("b", 0.41)), ("a", "c", 0.9), limit=2)
    assert list(scores(ranking)) == ["a", "c"]


@pytest.mark.parametrize("baseline", [-0.5, -0.1, 0.0, 0.2, 0.39])
def test_a_linked_fact_scores_between_the_baseline_and_its_source(baseline: float) -> None:
    ranking = linked(ranked(("a", 0.4), baseline=baseline), ("a", "b", 0.1))
    assert baseline < scores(ranking)["b"] < 0.4


@pytest.mark.parametrize("baseline", [0.4, 0.5])
def test_a_source_at_or_below_the_baseline_passes_nothing_on(baseline: float) -> None:
    assert scores(linked(ranked(("a", 0.4), baseline=baseline), ("a", "b", 0.5))) == {"a": 0.4}
