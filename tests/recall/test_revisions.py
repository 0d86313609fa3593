"""A newer fact comes directly above the older one that it replaced or may have outdated."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vmemo.models import BankId, Interval, QuestionTense
from vmemo.models.search import Ranking, RevisionEdge, Scope
from vmemo.recall.rank import PROBABLE, applicable, asked_before, in_order, with_former
from vmemo.text.questions import QueryAnalysis

BROUGHT_IN = 10
NOW = datetime(2024, 6, 1, tzinfo=UTC)
SCOPE = Scope(bank=BankId("bank"))
SPRING = Interval(start=datetime(2024, 3, 1, tzinfo=UTC), end=datetime(2024, 6, 1, tzinfo=UTC))


def candidates(ids: str) -> Ranking:
    """Return a candidate for each letter, best first."""
    return Ranking.of((ord(id), 5, 0, 10.0 - rank) for rank, id in enumerate(ids))


def letters(ranking: Ranking) -> str:
    return "".join(map(chr, ranking.numbers))


def pairs_of(edges: list[RevisionEdge]) -> list[str]:
    return [chr(edge.newer) + chr(edge.older) for edge in edges]


def newer_than(*pairs: str) -> list[RevisionEdge]:
    """Return an edge for each pair of letters, the newer fact first."""
    return [RevisionEdge(ord(newer), ord(older), "outdates", 0.5, 7, 8, NOW) for newer, older in pairs]


def ordered(ids: str, edges: list[RevisionEdge], *, former: bool = False) -> Ranking:
    return in_order(candidates(ids), edges, former=lambda _: former, brought_in=BROUGHT_IN)


def order(ids: str, *pairs: str, former: bool = False) -> str:
    return letters(ordered(ids, newer_than(*pairs), former=former))


def order_by(edges: list[RevisionEdge], best: Ranking, tense: QuestionTense = "present") -> list[RevisionEdge]:
    return applicable(edges, best, QueryAnalysis(type="factual", during=None, tense=tense))


def test_without_revisions_the_order_stays() -> None:
    assert order("abc") == "abc"
    assert order("", "ab") == ""


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
    found = ordered("o", newer_than("no"))
    assert (letters(found), found.tokens.tolist(), found.scores.tolist()) == ("no", [7, 5], [10.0, 10.0])
    many = "abcdefghijklmno"
    assert order(many, f"n{many[BROUGHT_IN]}") != order(many)
    assert order(many, f"z{many[BROUGHT_IN]}") == many


def test_the_more_probable_of_several_newer_facts_comes_first() -> None:
    edges = [edge._replace(probability=score) for edge, score in zip(newer_than("ao", "bo"), (0.5, 0.8), strict=True)]
    assert letters(ordered("oab", edges)) == "bao"


def test_scores_fall_from_hit_to_hit() -> None:
    scores = ordered("aobn", newer_than("no", "zb")).scores.tolist()
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("ids", "pairs", "expected"),
    [("oan", ["no"], "oan"), ("nabo", ["no"], "noab"), ("na", ["no"], "noa"), ("nab", ["nm", "mo"], "nmoab")],
)
def test_for_a_question_about_a_former_state_the_older_fact_follows(ids: str, pairs: list[str], expected: str) -> None:
    assert order(ids, *pairs, former=True) == expected


@pytest.mark.parametrize(("tense", "expected"), [("present", ["no"]), ("former", ["no"]), ("past", [])])
def test_possible_revisions_order_only_the_best_candidates(tense: QuestionTense, expected: list[str]) -> None:
    found = order_by(newer_than("no", "nz", "zo"), candidates("oan"), tense)
    assert pairs_of(found) == expected


@pytest.mark.parametrize(
    ("score", "probability", "applies"),
    [(9.0, 0.2, True), (5.0, 0.2, False), (3.0, PROBABLE, True), (0.0, 0.2, False)],
)
def test_a_newer_fact_with_little_to_do_with_the_question_ranks_above_an_older_one_only_if_that_is_marked(
    score: float, probability: float, applies: bool
) -> None:
    best = Ranking.of([(ord("o"), 5, 0, 10.0), (ord("n"), 5, 0, score)])
    edges = [edge._replace(probability=probability) for edge in newer_than("no")]
    assert bool(order_by(edges, best)) == applies


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [(["mo", "nm"], ["mo"]), (["mo", "nm", "no"], ["mo", "nm", "no"]), (["nm"], ["nm"]), (["om", "nm"], ["om", "nm"])],
)
def test_a_newer_fact_does_not_pass_a_better_one_that_it_may_not_have_outdated(
    pairs: list[str], expected: list[str]
) -> None:
    found = order_by(newer_than(*pairs), candidates("omn"))
    assert pairs_of(found) == expected


@pytest.mark.parametrize("tense", ["present", "past", "former"])
def test_certain_revisions_always_apply(tense: QuestionTense) -> None:
    edges = [edge._replace(kind="replaces") for edge in newer_than("no", "zo", "xy")]
    assert order_by(edges, candidates("oan"), tense) == edges


@pytest.mark.parametrize(
    ("tense", "during", "mentioned", "former"),
    [
        ("present", None, NOW, False),
        ("present", SPRING, NOW, False),
        ("past", None, NOW, False),
        ("past", SPRING, SPRING.end, True),
        ("past", SPRING, SPRING.start, False),
        ("past", Interval(start=SPRING.start), NOW, False),
        ("former", None, NOW, True),
        ("former", SPRING, SPRING.start, True),
    ],
)
def test_the_older_fact_is_asked_for_if_the_newer_came_after_the_time_asked_about(
    tense: QuestionTense, during: Interval | None, mentioned: datetime, former: bool
) -> None:
    [edge] = newer_than("no")
    analysis = QueryAnalysis(type="factual", during=during, tense=tense)
    assert asked_before(edge._replace(mentioned_at=mentioned), analysis, NOW) == former


@pytest.mark.parametrize(
    ("tense", "during", "former"),
    [
        ("present", None, None),
        ("past", None, Interval()),
        ("former", None, Interval()),
        ("past", SPRING, SPRING),
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
    scope = SCOPE.replace(**given)
    assert with_former(scope, QueryAnalysis(type="factual", during=None, tense="former"), NOW) is scope
