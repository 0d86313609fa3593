"""C7: what a reranker looks at, what it makes of the order, and what happens when it breaks its contract."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

import numpy as np
import pytest

from vmemo.errors import InvalidInput, RerankFailed
from vmemo.models import BankId, Fact, FactId
from vmemo.models.search import Scope, TokenVectors
from vmemo.ports import Loaded, Reranker, Store
from vmemo.recall.fuse import Fused
from vmemo.recall.query import Query
from vmemo.recall.rerank import LATE, MOST_READ, Reranked, by_reading, by_tokens, late_scores, pool, reordered

ASKED = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
BANK = BankId("bank")


def query(*, max_tokens: int | None = None, top_k: int | None = None, nodes: int = 300) -> Query:
    return Query(text="Which?", scope=Scope(bank=BANK), nodes=nodes, max_tokens=max_tokens, top_k=top_k)


def fused(*scores: float, tokens: int = 10) -> list[Fused]:
    """Candidates named by their place."""
    return [Fused(FactId(str(place)), score, tokens) for place, score in enumerate(scores)]


def names(candidates: Sequence[Fused]) -> str:
    return " ".join(candidate.id for candidate in candidates)


def row(x: float) -> TokenVectors:
    """A document of one token that scores `x` with what is asked for."""
    return np.array([[x, 0.0]], np.float32)


class Shelf:
    """A store's facts and token vectors, written down, and what was asked of it."""

    def __init__(self, tokens: Mapping[str, TokenVectors] | None = None, missing: Sequence[str] = ()) -> None:
        self._tokens = tokens or {}
        self._missing = missing
        self.asked: list[FactId] = []

    async def token_vectors(self, bank: BankId, facts: Sequence[FactId]) -> list[TokenVectors | None]:
        """Token vectors of those that have some."""
        assert bank == BANK
        self.asked += facts
        return [self._tokens.get(id) for id in facts]

    async def load(self, bank: BankId, ids: Sequence[FactId]) -> Loaded:
        """Facts that say their own id."""
        assert bank == BANK
        self.asked += ids
        at = datetime(2023, 5, 8, tzinfo=UTC)
        known = [id for id in ids if id not in self._missing]
        facts = [Fact(id=id, bank=BANK, network="world", text=f"Fact {id}.", tokens=3, mentioned_at=at) for id in known]
        return Loaded(facts, {})


class Judge:
    """A reranker with its scores by text, or with whatever it is told to answer."""

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


def late(asked: Query, candidates: Sequence[Fused], shelf: Shelf) -> Reranked:
    return reordered(candidates, asyncio.run(by_tokens(asked, candidates, ASKED, cast("Store", shelf))))


def reading(asked: Query, candidates: Sequence[Fused], judge: Judge, shelf: Shelf | None = None) -> Reranked:
    looked = asyncio.run(by_reading(asked, candidates, cast("Reranker", judge), cast("Store", shelf or Shelf())))
    return reordered(candidates, looked)


# Late interaction


def test_each_token_of_the_question_adds_its_best_match() -> None:
    first = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]], np.float32)
    second = np.array([[-1.0, 0.0]], np.float32)
    assert late_scores(ASKED, [first, second]) == pytest.approx([1.0 + 0.8, -1.0 + 0.0])


def test_a_token_of_the_question_counts_as_long_as_its_vector_is() -> None:
    assert late_scores(ASKED * np.array([[3.0], [0.5]], np.float32), [np.eye(2, dtype=np.float32)]) == [3.5]


def test_a_document_without_tokens_has_no_score_and_the_others_keep_theirs() -> None:
    empty = np.zeros((0, 2), np.float32)
    assert late_scores(ASKED, [None, row(0.5), empty, row(0.25), None]) == [None, 0.5, None, 0.25, None]


def test_without_any_tokens_there_are_no_scores() -> None:
    assert late_scores(ASKED, []) == []
    assert late_scores(ASKED, [None, np.zeros((0, 2), np.float32)]) == [None, None]


# The pool


def test_everything_that_fits_is_looked_at_however_far_behind() -> None:
    candidates = fused(9.0, 5.0, 0.1)
    assert names(pool(candidates, query(top_k=3), 1.0, 50)) == "0 1 2"
    assert names(pool(candidates, query(max_tokens=30), 1.0, 50)) == "0 1 2"


def test_what_reranking_could_lift_over_the_last_that_fits_is_looked_at() -> None:
    candidates = fused(3.0, 2.0, 1.5, 1.0, 0.9)
    assert names(pool(candidates, query(top_k=2), 1.0, 50)) == "0 1 2 3"
    assert names(pool(candidates, query(max_tokens=29), 1.0, 50)) == "0 1 2 3"
    assert names(pool(candidates, query(top_k=2), 0.5, 50)) == "0 1 2"


def test_the_narrower_of_count_and_tokens_decides() -> None:
    candidates = fused(4.0, 3.0, 2.0, 1.0)
    assert names(pool(candidates, query(top_k=1, max_tokens=40), 0.5, 50)) == "0"
    assert names(pool(candidates, query(top_k=4, max_tokens=20), 0.5, 50)) == "0 1"
    assert names(pool(candidates, query(top_k=9, max_tokens=900), 0.5, 50)) == "0 1 2 3"


def test_where_nothing_fits_those_near_the_best_are_looked_at() -> None:
    assert names(pool(fused(3.0, 2.5, 1.0, tokens=99), query(max_tokens=10), 1.0, 50)) == "0 1"


def test_no_more_than_the_cap_is_looked_at() -> None:
    assert names(pool(fused(1.0, 1.0, 1.0, 1.0), query(top_k=4), 1.0, 2)) == "0 1"


def test_without_candidates_there_is_nothing_to_look_at() -> None:
    assert pool([], query(top_k=5), 1.0, 50) == []
    assert late(query(top_k=5), [], Shelf()) == Reranked([])
    judge = Judge()
    assert reading(query(top_k=5), [], judge) == Reranked([])
    assert judge.read == []


# The order


def test_the_best_of_the_reranker_gains_its_whole_weight_and_the_order_follows() -> None:
    shelf = Shelf({"0": row(0.1), "1": row(0.2), "2": row(0.9)})
    ranked = late(query(top_k=3), fused(1.0, 0.9, 0.8), shelf)
    assert names(ranked.candidates) == "2 0 1"
    assert ranked.candidates[0].score == pytest.approx(0.8 + LATE)
    assert ranked.scores == pytest.approx({"0": 0.1, "1": 0.2, "2": 0.9})
    assert ranked.looked_at == 3
    assert [candidate.tokens for candidate in ranked.candidates] == [10, 10, 10]


def test_scores_that_are_all_the_same_change_nothing() -> None:
    candidates = fused(1.0, 0.9, 0.8)
    ranked = late(query(top_k=3), candidates, Shelf({name: row(0.7) for name in "012"}))
    assert ranked.candidates == candidates


def test_what_has_no_tokens_counts_as_an_average_one() -> None:
    shelf = Shelf({"0": row(0.0), "2": row(1.0)})
    ranked = late(query(top_k=3), fused(1.0, 1.0, 1.0), shelf)
    assert names(ranked.candidates) == "2 1 0"
    assert ranked.scores == {"0": 0.0, "2": 1.0}


def test_where_nothing_has_tokens_the_fused_order_stays() -> None:
    candidates = fused(1.0, 0.9)
    assert late(query(top_k=2), candidates, Shelf()) == Reranked(candidates)


def test_candidates_beyond_the_pool_keep_their_order_and_score() -> None:
    candidates = fused(3.0, 2.9, 0.3, 0.2, 0.1)
    shelf = Shelf({"0": row(0.0), **{name: row(1.0) for name in "1234"}})
    ranked = late(query(top_k=1), candidates, shelf)
    assert shelf.asked == ["0", "1"]
    assert names(ranked.candidates) == "1 0 2 3 4"
    assert ranked.candidates[2:] == candidates[2:]
    assert ranked.looked_at == 2
    scores = [candidate.score for candidate in ranked.candidates]
    assert scores == sorted(scores, reverse=True)


def test_a_larger_budget_lets_more_be_looked_at() -> None:
    candidates = fused(*[1.0] * 400)
    for nodes, looked_at in ((10, 64), (300, 150), (1000, 400)):
        shelf = Shelf({candidate.id: row(0.5) for candidate in candidates})
        assert late(query(top_k=400, nodes=nodes), candidates, shelf).looked_at == looked_at


# A reranker that reads


def test_a_reranker_reads_texts_and_its_scores_reorder() -> None:
    judge = Judge({"Fact 2": 7.0, "Fact 0": -3.0})
    ranked = reading(query(top_k=3), fused(1.0, 0.9, 0.8), judge)
    assert judge.read == ["8 May 2023. Fact 0.", "8 May 2023. Fact 1.", "8 May 2023. Fact 2."]
    assert names(ranked.candidates) == "2 1 0"
    assert ranked.scores == {"0": -3.0, "1": 0.0, "2": 7.0}


def test_a_reranker_is_given_so_many_texts_at_most() -> None:
    judge = Judge({"Fact 49": 1.0, "Fact 50": 9.0})
    ranked = reading(query(top_k=80), fused(*[1.0] * 80), judge)
    assert len(judge.read) == ranked.looked_at == MOST_READ
    assert ranked.candidates[0].id == "49"
    assert names(ranked.candidates[MOST_READ:]) == " ".join(str(place) for place in range(MOST_READ, 80))


def test_what_no_longer_can_be_read_counts_as_an_average_one() -> None:
    judge = Judge({"Fact 0": 0.0, "Fact 2": 1.0})
    ranked = reading(query(top_k=3), fused(1.0, 1.0, 1.0), judge, Shelf(missing="1"))
    assert names(ranked.candidates) == "2 1 0"
    assert FactId("1") not in ranked.scores


def test_a_reranker_is_not_asked_when_nothing_can_be_read() -> None:
    judge, candidates = Judge(), fused(1.0, 0.9)
    assert reading(query(top_k=2), candidates, judge, Shelf(missing="01")) == Reranked(candidates)
    assert judge.read == []


def test_scores_may_come_as_an_array() -> None:
    ranked = reading(query(top_k=2), fused(1.0, 0.9), Judge(answer=np.array([0, 1])))
    assert ranked.scores == {"0": 0.0, "1": 1.0}
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
def test_scores_that_cannot_be_used_are_an_error_that_names_the_reranker(answer: object) -> None:
    with pytest.raises(RerankFailed, match=r"'judge' .* 2 texts.*Nothing was changed.*reranker=\"none\""):
        reading(query(top_k=2), fused(1.0, 0.9), Judge(answer=answer))


def test_what_a_reranker_raises_is_an_error_that_names_it_and_holds_the_original() -> None:
    broken = ZeroDivisionError("the model is gone")
    with pytest.raises(RerankFailed, match=r"'judge' failed .*the model is gone.*Nothing was changed") as caught:
        reading(query(top_k=2), fused(1.0, 0.9), Judge(answer=broken))
    assert caught.value.__cause__ is broken


@pytest.mark.parametrize("error", [RerankFailed("The service is down."), InvalidInput("No model is there.")])
def test_an_error_of_ours_passes_through_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        reading(query(top_k=2), fused(1.0, 0.9), Judge(answer=error))
    assert caught.value is error
