"""C7: the candidates that a reranker scores, the order that follows, and rerankers that break their contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar, cast

import numpy as np
import pytest

from recall_runs import BANK, a_run as query, late_interaction
from vmemo.errors import InvalidInput, RerankFailed
from vmemo.models import BankId, Fact, FactId
from vmemo.models.search import Ranking, TokenVectors
from vmemo.ports import BankReader, Loaded, Reranker, Store
from vmemo.recall.fuse import (
    LATE_WEIGHT,
    RERANKED_TEXTS,
    RerankScores,
    late_shortlist,
    reorder,
    score_texts,
)
from vmemo.recall.run import RecallRun

ASKED = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
R = TypeVar("R")


def fused(*scores: float, tokens: int = 10) -> Ranking:
    """Candidates numbered by their place, from 1 on."""
    return Ranking.of((place, tokens, 0, score) for place, score in enumerate(scores, start=1))


def names(candidates: Ranking) -> str:
    return " ".join(map(str, candidates.numbers))


def row(x: float) -> TokenVectors:
    """A document of one token that scores `x` with what is asked for."""
    return np.array([[x, 0.0]], np.float32)


class Facts:
    """A store of facts whose texts repeat their numbers; `missing` ones can't be loaded."""

    def __init__(self, missing: Sequence[int] = ()) -> None:
        self._missing = missing

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function with this store as its reader."""
        assert bank == BANK
        return run(cast("BankReader", self))

    def load(self, numbers: Sequence[int]) -> Loaded:
        """Return the facts that are not missing."""
        at = datetime(2023, 5, 8, tzinfo=UTC)
        found = {
            n: Fact(id=FactId(f"f{n}"), bank=BANK, network="world", text=f"Fact {n}.", tokens=3, mentioned_at=at)
            for n in numbers
            if n not in self._missing
        }
        return Loaded(facts=found, messages={}, titles={})


@dataclass(frozen=True)
class Reranked:
    """Candidates in their new order, and the scores of those that were reranked."""

    candidates: Ranking
    scores: Mapping[int, float]
    count: int

    @staticmethod
    def of(candidates: Ranking, scores: RerankScores) -> Reranked:
        """Apply scores to candidates."""
        known = {number: score for number in scores.numbers if (score := scores.of(number)) is not None}
        return Reranked(reorder(candidates, scores), known, scores.count)


class Judge:
    """A reranker with fixed scores by text, or with a fixed answer."""

    name = "judge"

    def __init__(self, scores: Mapping[str, float] | None = None, answer: object = None) -> None:
        self._scores = scores or {}
        self._answer = answer
        self.read: list[str] = []

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """The scores, the answer, or the error."""
        assert query == "Which?"
        self.read += texts
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is not None:
            return cast("Sequence[float]", self._answer)
        return [next((score for word, score in self._scores.items() if word in text), 0.0) for text in texts]


def late(asked: RecallRun, candidates: Ranking, tokens: Mapping[int, TokenVectors]) -> Reranked:
    numbers = late_shortlist(candidates, asked)
    found = late_interaction(ASKED, [tokens.get(number) for number in numbers])
    return Reranked.of(candidates, RerankScores(numbers, found, LATE_WEIGHT))


def reading(asked: RecallRun, candidates: Ranking, judge: Judge, facts: Facts | None = None) -> Reranked:
    asked = replace(asked, context=replace(asked.context, store=cast("Store", facts or Facts())))
    scores = asyncio.run(score_texts(asked, candidates, cast("Reranker", judge)))
    return Reranked.of(candidates, scores)


# Late interaction


def test_each_token_of_the_question_adds_its_best_match() -> None:
    first = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]], np.float32)
    second = np.array([[-1.0, 0.0]], np.float32)
    assert late_interaction(ASKED, [first, second]).tolist() == pytest.approx([1.0 + 0.8, -1.0 + 0.0])


def test_a_token_of_the_question_is_weighted_by_the_length_of_its_vector() -> None:
    assert late_interaction(ASKED * np.array([[3.0], [0.5]], np.float32), [np.eye(2, dtype=np.float32)]).tolist() == [
        3.5
    ]


def test_a_document_without_tokens_has_no_score_and_the_others_keep_theirs() -> None:
    empty = np.zeros((0, 2), np.float32)
    found = late_interaction(ASKED, [None, row(0.5), empty, row(0.25), None])
    assert np.array_equal(found, [np.nan, 0.5, np.nan, 0.25, np.nan], equal_nan=True)


def test_documents_without_tokens_have_no_scores() -> None:
    assert late_interaction(ASKED, []).tolist() == []
    assert np.isnan(late_interaction(ASKED, [None, np.zeros((0, 2), np.float32)])).all()


# The shortlist


def shortlist(candidates: Ranking, *, top_k: int | None = None, max_tokens: int | None = None) -> str:
    return " ".join(map(str, late_shortlist(candidates, query(top_k=top_k, max_tokens=max_tokens))))


def test_everything_that_fits_is_reranked() -> None:
    assert shortlist(fused(9.0, 5.0, 0.1), top_k=3) == shortlist(fused(9.0, 5.0, 0.1), max_tokens=30) == "1 2 3"


def test_candidates_that_reranking_could_lift_above_the_last_fitting_one_are_reranked() -> None:
    last = 2.0 - LATE_WEIGHT
    candidates = fused(3.0, 2.0, last + 0.3, last + 0.01, last - 0.01)
    assert shortlist(candidates, top_k=2) == shortlist(candidates, max_tokens=29) == "1 2 3 4"


def test_the_narrower_of_count_and_tokens_decides() -> None:
    candidates = fused(4.0, 3.0, 2.0, 1.0)
    assert shortlist(candidates, top_k=1, max_tokens=40) == "1"
    assert shortlist(candidates, top_k=4, max_tokens=20) == "1 2"
    assert shortlist(candidates, top_k=9, max_tokens=900) == "1 2 3 4"


def test_if_nothing_fits_candidates_near_the_best_are_reranked() -> None:
    assert shortlist(fused(3.0, 2.5, 1.0, tokens=99), max_tokens=10) == "1 2"


def test_without_candidates_nothing_is_reranked() -> None:
    assert shortlist(Ranking(), top_k=5) == ""
    assert late(query(top_k=5), Ranking(), {}).count == 0
    judge = Judge()
    assert reading(query(top_k=5), Ranking(), judge).count == 0
    assert judge.read == []


# The order


def test_the_best_candidate_gains_the_whole_weight() -> None:
    tokens = {1: row(0.1), 2: row(0.2), 3: row(0.9)}
    ranked = late(query(top_k=3), fused(1.0, 0.9, 0.8), tokens)
    assert names(ranked.candidates) == "3 1 2"
    assert ranked.candidates.scores[0] == pytest.approx(0.8 + LATE_WEIGHT)
    assert ranked.scores == pytest.approx({1: 0.1, 2: 0.2, 3: 0.9})
    assert ranked.count == 3
    assert ranked.candidates.tokens.tolist() == [10, 10, 10]


def test_equal_scores_change_nothing() -> None:
    candidates = fused(1.0, 0.9, 0.8)
    ranked = late(query(top_k=3), candidates, {number: row(0.7) for number in (1, 2, 3)})
    assert names(ranked.candidates) == names(candidates)


def test_a_candidate_without_tokens_counts_as_average() -> None:
    tokens = {1: row(0.0), 3: row(1.0)}
    ranked = late(query(top_k=3), fused(1.0, 1.0, 1.0), tokens)
    assert names(ranked.candidates) == "3 2 1"
    assert ranked.scores == {1: 0.0, 3: 1.0}


def test_without_any_tokens_the_fused_order_stays() -> None:
    candidates = fused(1.0, 0.9)
    ranked = late(query(top_k=2), candidates, {})
    assert (ranked.candidates, ranked.scores, ranked.count) == (candidates, {}, 0)


def test_candidates_beyond_the_shortlist_keep_their_order_and_score() -> None:
    candidates = fused(3.0, 2.9, 0.3, 0.2, 0.1)
    tokens = {1: row(0.0), **{number: row(1.0) for number in (2, 3, 4, 5)}}
    ranked = late(query(top_k=1), candidates, tokens)
    assert late_shortlist(candidates, query(top_k=1)) == [1, 2]
    assert names(ranked.candidates) == "2 1 3 4 5"
    assert ranked.candidates.scores[2:].tolist() == candidates.scores[2:].tolist()
    assert ranked.count == 2
    scores = ranked.candidates.scores.tolist()
    assert scores == sorted(scores, reverse=True)


def test_a_larger_budget_reranks_more_candidates() -> None:
    candidates = fused(*[1.0] * 400)
    for nodes, reranked in ((10, 64), (300, 150), (1000, 400)):
        tokens = {number: row(0.5) for number in candidates.numbers.tolist()}
        assert late(query(top_k=400, nodes=nodes), candidates, tokens).count == reranked


# A reranker of texts


def test_a_reranker_scores_texts_and_the_order_follows() -> None:
    judge = Judge({"Fact 3": 7.0, "Fact 1": -3.0})
    ranked = reading(query(top_k=3), fused(1.0, 0.9, 0.8), judge)
    assert judge.read == ["8 May 2023. Fact 1.", "8 May 2023. Fact 2.", "8 May 2023. Fact 3."]
    assert names(ranked.candidates) == "3 2 1"
    assert ranked.scores == {1: -3.0, 2: 0.0, 3: 7.0}


def test_a_reranker_gets_a_limited_number_of_texts() -> None:
    judge = Judge({"Fact 50": 1.0, "Fact 51": 9.0})
    ranked = reading(query(top_k=80), fused(*[1.0] * 80), judge)
    assert len(judge.read) == ranked.count == RERANKED_TEXTS
    assert ranked.candidates.numbers[0] == RERANKED_TEXTS
    assert ranked.candidates.numbers[RERANKED_TEXTS:].tolist() == list(range(RERANKED_TEXTS + 1, 81))


def test_a_fact_that_can_not_be_loaded_keeps_its_place() -> None:
    judge = Judge({"Fact 1": 0.0, "Fact 3": 1.0})
    ranked = reading(query(top_k=3), fused(1.0, 1.0, 1.0), judge, Facts(missing=[2]))
    assert names(ranked.candidates) == "3 2 1"
    assert 2 not in ranked.scores


def test_a_reranker_alone_decides_the_order_of_what_it_scored() -> None:
    judge = Judge({"Fact 4": 0.4, "Fact 3": 0.3, "Fact 2": 0.2, "Fact 1": 0.1})
    ranked = reading(query(top_k=1), fused(90.0, 2.0, 1.0, 0.01), judge)
    assert names(ranked.candidates) == "4 3 2 1"
    assert ranked.candidates.scores.tolist() == [90.0, 2.0, 1.0, 0.01]


def test_candidates_that_a_reranker_scores_alike_keep_their_order() -> None:
    assert names(reading(query(top_k=3), fused(1.0, 0.9, 0.8), Judge()).candidates) == "1 2 3"


def test_a_reranker_is_not_called_without_texts() -> None:
    judge, candidates = Judge(), fused(1.0, 0.9)
    ranked = reading(query(top_k=2), candidates, judge, Facts(missing=[1, 2]))
    assert (ranked.candidates, ranked.scores, ranked.count) == (candidates, {}, 0)
    assert judge.read == []


def test_scores_may_be_an_array() -> None:
    ranked = reading(query(top_k=2), fused(1.0, 0.9), Judge(answer=np.array([0, 1])))
    assert ranked.scores == {1: 0.0, 2: 1.0}
    assert {type(score) for score in ranked.scores.values()} == {float}


BROKEN: list[object] = [
    [],
    [1.0],
    [1.0, 2.0, 3.0],
    [1.0, float("nan")],
    [float("inf"), 1.0],
    [1.0, None],
    ["good", "bad"],
    [[1.0], [2.0]],
    [[1.0], [2.0, 3.0]],
    3.0,
    object(),
]


@pytest.mark.parametrize("answer", BROKEN, ids=[f"{place}" for place in range(len(BROKEN))])
def test_invalid_scores_raise_an_error_that_names_the_reranker(answer: object) -> None:
    with pytest.raises(RerankFailed, match=r"'judge' .* 2 texts.*Nothing was changed.*reranker=\"none\""):
        reading(query(top_k=2), fused(1.0, 0.9), Judge(answer=answer))


def test_an_exception_of_a_reranker_is_the_cause_of_an_error_that_names_it() -> None:
    broken = ZeroDivisionError("the model is gone")
    with pytest.raises(RerankFailed, match=r"'judge' failed .*the model is gone.*Nothing was changed") as caught:
        reading(query(top_k=2), fused(1.0, 0.9), Judge(answer=broken))
    assert caught.value.__cause__ is broken


@pytest.mark.parametrize("error", [RerankFailed("The service is down."), InvalidInput("No model is there.")])
def test_a_vmemo_error_of_a_reranker_is_raised_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        reading(query(top_k=2), fused(1.0, 0.9), Judge(answer=error))
    assert caught.value is error
