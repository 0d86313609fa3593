"""Short statements share in the scores of the statements beside them."""

from __future__ import annotations

import numpy as np

from vmemo.models.search import Ranking
from vmemo.recall.rank import with_neighbours

MINUTE = 60_000_000


def ranking(*facts: tuple[int, int, int, float]) -> Ranking:
    """Return the ranking of facts by number, tokens, minute and score."""
    return Ranking.of((number, tokens, minute * MINUTE, score) for number, tokens, minute, score in facts)


def scores(candidates: Ranking) -> dict[int, float]:
    return dict(zip(candidates.numbers.tolist(), np.round(candidates.scores, 3).tolist(), strict=True))


def test_a_short_answer_passes_a_statement_beside_another_matter() -> None:
    question, answer, other = (7, 12, 0, 2.0), (8, 6, 1, 1.0), (20, 6, 500, 1.1)
    assert with_neighbours(ranking(question, other, answer)).numbers.tolist() == [7, 8, 20]


def test_the_statement_before_gives_more_than_the_one_after() -> None:
    assert scores(with_neighbours(ranking((1, 6, 0, 2.0), (2, 6, 1, 2.0)))) == {1: 2.1, 2: 2.3}


def test_long_statements_and_those_of_another_time_keep_their_scores() -> None:
    long, late = ranking((1, 6, 0, 2.0), (2, 80, 1, 1.0)), ranking((1, 6, 0, 2.0), (2, 6, 11, 1.0))
    assert scores(with_neighbours(long))[2] == 1.0
    assert scores(with_neighbours(late)) == {1: 2.0, 2: 1.0}


def test_the_best_of_one_time_counts_whatever_the_numbers_are() -> None:
    one = scores(with_neighbours(ranking((1, 6, 0, 1.0), (2, 6, 0, 2.0), (3, 6, 1, 1.0))))
    other = scores(with_neighbours(ranking((9, 6, 0, 1.0), (4, 6, 0, 2.0), (1, 6, 1, 1.0))))
    assert list(one.values()) == list(other.values()) == [2.05, 1.3, 1.05]


def test_messages_without_facts_are_no_neighbours() -> None:
    assert scores(with_neighbours(ranking((-3, 6, 0, 2.0), (-2, 6, 0, 1.0)))) == {-3: 2.0, -2: 1.0}
