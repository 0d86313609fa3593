"""A newer fact comes directly above the older one that it replaced or may have outdated."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from vmemo.models import BankId, FactId, Interval, QuestionTense
from vmemo.models.search import RevisionEdge, Scope
from vmemo.recall.fuse import Fused
from vmemo.recall.revisions import in_order, with_former
from vmemo.text.questions import QueryAnalysis

BROUGHT_IN = 10
NOW = datetime(2024, 6, 1, tzinfo=UTC)
SCOPE = Scope(bank=BankId("bank"))
SPRING = Interval(start=datetime(2024, 3, 1, tzinfo=UTC), end=datetime(2024, 6, 1, tzinfo=UTC))


def candidates(ids: str) -> list[Fused]:
    """Return a candidate for each letter, best first."""
    return [Fused(FactId(id), 10.0 - rank, 5) for rank, id in enumerate(ids)]


def newer_than(*pairs: str) -> list[RevisionEdge]:
    """Return an edge for each pair of letters, the newer fact first."""
    return [RevisionEdge(FactId(newer), FactId(older), "outdates", 0.5, 7, 8) for newer, older in pairs]


def order(ids: str, *pairs: str, former: bool = False) -> str:
    return "".join(
        item.id for item in in_order(candidates(ids), newer_than(*pairs), former=former, brought_in=BROUGHT_IN)
    )


def test_without_revisions_the_order_stays() -> None:
    assert order("abc") == "abc"
    assert in_order([], newer_than("ab"), former=False, brought_in=BROUGHT_IN) == []


@pytest.mark.parametrize(
    ("ids", "pairs", "expected"),
    [
        ("oabn", ["no"], "noab"),
        ("naob", ["no"], "naob"),
        ("aobn", ["no"], "anob"),
        ("oan", ["no", "na"], "noa"),
        ("omn", ["mo", "nm"], "nmo"),
        ("omn", ["mo", "nm", "no"], "nmo"),
        ("ab", ["ab", "ba"], "ba"),
    ],
)
def test_a_newer_fact_comes_directly_above_the_older_one(ids: str, pairs: list[str], expected: str) -> None:
    assert order(ids, *pairs) == expected


def test_a_newer_fact_that_no_channel_found_is_brought_in_by_the_best_candidates() -> None:
    [lifted, older] = in_order(candidates("o"), newer_than("no"), former=False, brought_in=BROUGHT_IN)
    assert lifted == Fused(FactId("n"), older.score, 7)
    many = "abcdefghijklmno"
    assert order(many, f"n{many[BROUGHT_IN]}") != order(many)
    assert order(many, f"z{many[BROUGHT_IN]}") == many


def test_the_more_probable_of_several_newer_facts_comes_first() -> None:
    edges = [edge._replace(probability=score) for edge, score in zip(newer_than("ao", "bo"), (0.5, 0.8), strict=True)]
    assert [item.id for item in in_order(candidates("oab"), edges, former=False, brought_in=BROUGHT_IN)] == [
        "b",
        "a",
        "o",
    ]


def test_scores_fall_from_hit_to_hit() -> None:
    scores = [
        item.score for item in in_order(candidates("aobn"), newer_than("no", "zb"), former=False, brought_in=BROUGHT_IN)
    ]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("ids", "pairs", "expected"),
    [("oan", ["no"], "oan"), ("nabo", ["no"], "noab"), ("na", ["no"], "noa"), ("nab", ["nm", "mo"], "nmoab")],
)
def test_for_a_question_about_a_former_state_the_older_fact_follows(ids: str, pairs: list[str], expected: str) -> None:
    assert order(ids, *pairs, former=True) == expected


@pytest.mark.parametrize(
    ("tense", "during", "former"),
    [
        ("present", None, None),
        ("past", None, Interval()),
        ("former", None, Interval()),
        ("former", SPRING, SPRING),
        ("former", Interval(start=SPRING.start), Interval()),
    ],
)
def test_a_question_about_the_past_also_finds_former_facts(
    tense: QuestionTense, during: Interval | None, former: Interval | None
) -> None:
    analysis = QueryAnalysis(type="factual", during=during, tense=tense)
    assert with_former(SCOPE, analysis, NOW).former == former


@pytest.mark.parametrize("given", [{"include_expired": True}, {"at_time": NOW}, {"known_at": NOW}])
def test_a_scope_that_selects_by_time_stays_as_it_is(given: dict[str, bool]) -> None:
    scope = replace(SCOPE, **given)
    assert with_former(scope, QueryAnalysis(type="factual", during=None, tense="former"), NOW) is scope
