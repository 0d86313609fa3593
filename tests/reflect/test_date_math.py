"""The times of facts in the prompt: computed from the question's date, and exact."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pydantic import AwareDatetime, BaseModel, ConfigDict

from vmemo import Fact, Memory, Message
from vmemo.models import BankId, FactId
from vmemo.reflect.date_math import (
    asks_from_now,
    describe_dates,
    describe_differences,
    describe_times,
    needs_durations,
    question_date,
)
from vmemo.testing import HashEmbedder
from vmemo.text.temporal.format import add_months, exact_lengths, months_and_days, next_anniversary

ASKED = datetime(2023, 6, 22, 12, tzinfo=UTC)
"""A Thursday."""
MONDAY = datetime(2023, 5, 8, 12, tzinfo=UTC)
LOS_ANGELES = timezone(timedelta(hours=-8))
DATES = st.dates(date(1900, 1, 1), date(2100, 12, 31))


def _month_end(day: date) -> date:
    return day.replace(day=1) - timedelta(days=1)


ANY_DATE = DATES | DATES.map(_month_end)


class Line(BaseModel):
    """Something said, when and by whom."""

    model_config = ConfigDict(extra="forbid")

    text: str
    on: AwareDatetime
    speaker: str


class Case(BaseModel):
    """Messages, a question with its time, and texts that the prompt must and must not contain."""

    model_config = ConfigDict(extra="forbid")

    name: str
    said: list[Line]
    question: str
    asked: AwareDatetime
    expect: list[str]
    not_expect: list[str] = []


TABLE = Path(__file__).parent / "temporal_cases.jsonl"
CASES = [Case.model_validate_json(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """One memory for all cases, each in a bank of its own."""
    folder = tmp_path_factory.mktemp("temporal")
    with Memory(f"sqlite:///{folder / 'memory.db'}", embedder=HashEmbedder()) as opened:
        yield opened


def _handed_over(case: Case, memory: Memory) -> str:
    """The times of all that is recalled, as a model gets them; a fact is named by the place of its line."""
    bank = memory.bank(case.name)
    bank.retain_sync([Message(content=line.text, timestamp=line.on, speaker=line.speaker) for line in case.said])
    facts = [hit.fact for hit in bank.recall_sync(case.question, now=case.asked).hits]
    places = {line.on: place for place, line in enumerate(case.said, start=1)}
    named = [(f"F{places[fact.mentioned_at]}", fact) for fact in facts]
    lines = [f"{label} | {describe_times(fact, case.asked)}" for label, fact in named]
    return "\n".join([question_date(case.asked), *lines, *describe_differences(named, case.asked)])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_times_that_a_temporal_question_needs_are_computed(case: Case, memory: Memory) -> None:
    handed = _handed_over(case, memory)
    assert [text for text in case.expect if text not in handed] == [], handed
    assert [text for text in case.not_expect if text in handed] == [], handed


def fact(
    text: str = "Mira keeps bees",
    told: datetime = MONDAY,
    start: datetime | None = None,
    end: datetime | None = None,
    **more: object,
) -> Fact:
    """A fact that a model read, which happened on the day of `start` unless an end is given."""
    ends = end or (start and start + timedelta(days=1))
    values = {"id": FactId("f"), "bank": BankId("b"), "network": "world", "tokens": 1, "engine": "llm"} | more
    return Fact.of(values | {"text": text, "mentioned_at": told, "occurred_start": start, "occurred_end": ends})


def midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


# Arithmetic


@given(ANY_DATE, ANY_DATE)
def test_weeks_and_days_add_up_to_the_days(one: date, other: date) -> None:
    days, *more = exact_lengths(min(one, other), max(one, other))
    number = int(days.split()[0])
    assert number == abs((one - other).days)
    parts = re.fullmatch(r"(?:(\d+) weeks?)?(?: and )?(?:(\d) days?)?", more[0] if number >= 7 else "1 day")
    assert parts is not None
    assert number < 7 or int(parts[1]) * 7 + int(parts[2] or 0) == number


@given(ANY_DATE, ANY_DATE)
def test_months_and_days_added_to_the_earlier_date_give_the_later(one: date, other: date) -> None:
    earlier, later = min(one, other), max(one, other)
    months, days = months_and_days(earlier, later)
    assert add_months(earlier, months) + timedelta(days=days) == later
    assert 0 <= days <= 31
    assert add_months(earlier, months + 1) >= later


@given(ANY_DATE, ANY_DATE)
def test_nothing_shorter_than_a_month_is_called_one(one: date, other: date) -> None:
    earlier, later = min(one, other), max(one, other)
    months, _ = months_and_days(earlier, later)
    assert not months or (later - earlier).days >= 28
    reached = (later.year - earlier.year) * 12 + later.month - earlier.month
    assert months in (reached, reached - 1)
    assert (months == reached) == (later.day >= earlier.day)


@pytest.mark.parametrize(
    ("earlier", "later", "words"),
    [
        ("2023-01-31", "2023-02-28", ["28 days", "4 weeks"]),
        ("2023-01-31", "2023-03-01", ["29 days", "4 weeks and 1 day", "1 month and 1 day"]),
        ("2023-01-31", "2023-03-31", ["59 days", "8 weeks and 3 days", "2 months"]),
        ("2023-02-28", "2023-03-31", ["31 days", "4 weeks and 3 days", "1 month and 3 days"]),
        ("2023-03-31", "2023-04-30", ["30 days", "4 weeks and 2 days"]),
        ("2024-01-31", "2024-02-29", ["29 days", "4 weeks and 1 day"]),
        ("2024-02-29", "2025-02-28", ["365 days", "52 weeks and 1 day", "11 months and 30 days"]),
        ("2024-02-29", "2025-03-01", ["366 days", "52 weeks and 2 days", "12 months and 1 day", "1 year and 1 day"]),
        ("2020-02-29", "2024-02-29", ["1461 days", "208 weeks and 5 days", "48 months", "4 years"]),
        ("2023-05-08", "2023-05-14", ["6 days"]),
        ("2023-05-08", "2023-05-15", ["7 days", "1 week"]),
    ],
)
def test_lengths_are_counted_as_people_do(earlier: str, later: str, words: list[str]) -> None:
    assert exact_lengths(date.fromisoformat(earlier), date.fromisoformat(later)) == words


@given(ANY_DATE, ANY_DATE)
def test_a_day_comes_round_within_a_year_of_any_day_after_it(one: date, other: date) -> None:
    day, today = min(one, other), max(one, other)
    found = next_anniversary(day, today)
    assert found is not None
    assert today <= found[0] <= today + timedelta(days=366) or today == day
    assert months_and_days(day, found[0])[0] == found[1] * 12


# Days from the question


@given(ANY_DATE, ANY_DATE)
def test_the_days_from_the_question_are_exact(happened: date, today: date) -> None:
    words = describe_times(fact(told=midnight(today), start=midnight(happened)), midnight(today))
    days = (today - happened).days
    side = "before" if days >= 0 else "after"
    assert f" {happened.year} ({abs(days)} day{'' if abs(days) == 1 else 's'} {side} the question" in words


@given(DATES, st.times(), st.integers(-14, 14), st.integers(0, 30))
def test_a_mention_falls_on_a_day_in_the_questions_time_zone(day: date, hour: time, zone: int, later: int) -> None:
    told = datetime.combine(day, hour, timezone(timedelta(hours=zone)))
    asked = told + timedelta(hours=later)
    words = describe_times(fact(told=told), asked)
    assert words.startswith(f"mentioned {day:%A}, {day.day} {day:%B} {day.year} (")
    assert ("today" in words, "yesterday" in words) == ((asked.date() - day).days == 0, (asked.date() - day).days == 1)


@pytest.mark.parametrize("hours", range(-12, 15))
@pytest.mark.parametrize("hour", [0, 1, 12, 23])
def test_a_day_on_which_something_happened_is_the_same_in_all_zones(hours: int, hour: int) -> None:
    asked = datetime(2023, 6, 22, hour, tzinfo=timezone(timedelta(hours=hours)))
    words = describe_times(fact(start=midnight(date(2023, 5, 1))), asked)
    assert (
        "happened Monday, 1 May 2023 (52 days before the question: 7 weeks and 3 days, or 1 month and 21 day" in words
    )


def test_the_questions_day_is_that_of_its_own_zone() -> None:
    assert question_date(datetime(2023, 6, 22, 23, 30, tzinfo=LOS_ANGELES)) == "Thursday, 22 June 2023"


def test_an_event_with_a_time_of_day_is_a_day() -> None:
    moment = datetime(2023, 5, 7, 20, 15, tzinfo=UTC)
    assert "happened Sunday, 7 May 2023 (46 days" in describe_times(
        fact(start=moment, end=moment + timedelta(seconds=1)), ASKED
    )


# What is said of a fact


def test_a_closed_fact_states_when_it_became_invalid() -> None:
    instant = fact(invalid_at=datetime(2023, 6, 4, 4, tzinfo=UTC))
    asked = datetime(2023, 6, 22, 9, tzinfo=LOS_ANGELES)
    closed = "no longer true since 3 June 2023 (19 days before the question: 2 weeks and 5 days)"
    assert describe_times(instant, asked).endswith(closed)
    assert describe_times(fact(invalid_at=midnight(date(2023, 6, 3))), asked).endswith(closed)
    assert describe_times(fact(invalid_at=midnight(date(2023, 6, 3))), MONDAY).endswith(
        "true until 3 June 2023 (26 days after the question: 3 weeks and 5 days)"
    )


def test_a_state_gives_its_start_with_the_known_precision() -> None:
    assert "true since Wednesday, 15 March 2023 (99 days" in describe_times(
        fact(valid_at=midnight(date(2023, 3, 15))), ASKED
    )
    assert "true since some time in March 2021 (813 to 843" in describe_times(
        fact(valid_at=midnight(date(2021, 3, 1))), ASKED
    )
    assert "true since some time in 2021 (538 to 902 days" in describe_times(
        fact(valid_at=midnight(date(2021, 1, 1))), ASKED
    )
    assert "true since" not in describe_times(fact(valid_at=MONDAY), ASKED)
    day = midnight(date(2023, 5, 1))
    assert "true since" not in describe_times(fact(start=day, valid_at=day), ASKED)


def test_an_open_occurrence_says_which_end_is_known() -> None:
    border = midnight(date(2023, 5, 2))
    began = fact().model_copy(update={"occurred_start": border})
    ended = fact().model_copy(update={"occurred_end": border})
    assert "since Tuesday, 2 May 2023 (51 days" in describe_times(began, ASKED)
    assert "up to Monday, 1 May 2023 (52 days" in describe_times(ended, ASKED)


def test_an_extracted_event_happened_or_was_planned() -> None:
    trip = fact(start=midnight(date(2023, 5, 3)), end=midnight(date(2023, 5, 11)), told=MONDAY + timedelta(days=5))
    assert "; happened within 3-10 May 2023 (43 to 50 days before the question: 6 to 7 whole" in describe_times(
        trip, ASKED
    )
    assert "; 8 days counting both ends, 7 days from the first to the last)" in describe_times(trip, ASKED)
    assert describe_times(fact(start=midnight(MONDAY.date())), ASKED) == (
        "mentioned Monday, 8 May 2023 (45 days before the question: 6 weeks and 3 days, or 1 month and 14 days)"
    )
    plan = fact(start=midnight(date(2023, 5, 20)))
    assert "; was planned for Saturday, 20 May 2023 (33 days before the question: 4 weeks" in describe_times(
        plan, ASKED
    )
    assert "; is planned for Saturday, 20 May 2023 (11 days after the question: 1 week and 4 days)" in describe_times(
        plan, MONDAY + timedelta(days=1)
    )


def test_other_times_in_the_text_stand_beside_when_it_happened() -> None:
    text = "Mira flew to Boston on 3 May 2023 and came back on 12 May 2023; told on 15 May 2023."
    trip = fact(text, datetime(2023, 5, 15, 9, tzinfo=UTC), midnight(date(2023, 5, 3)))
    assert describe_times(trip, ASKED).split("; ", 2)[1:] == [
        "happened Wednesday, 3 May 2023 (50 days before the question: 7 weeks and 1 day, or 1 month and 19 days)",
        "refers to Friday, 12 May 2023 (41 days before the question: 5 weeks and 6 days, or 1 month and 10 days; "
        "9 days after Wednesday, 3 May 2023: 1 week and 2 days)",
    ]


@pytest.mark.parametrize("said", ["since last Friday (= 5 May 2023)", "since last Friday"])
def test_a_date_behind_a_beginning_is_the_same_time(said: str) -> None:
    words = describe_times(fact(f"Mira: I have had a cold {said}.", engine="local"), ASKED)
    assert words.partition("; ")[2] == (
        "refers to the time since Friday, 5 May 2023 (48 days before the question: 6 weeks and 6 days, or 1 month and "
        "17 days)"
    )


def test_a_verbatim_message_is_dated_by_the_times_in_it() -> None:
    words = fact("Mira: I went rowing yesterday, and I have rowed since last summer.", engine="verbatim")
    assert describe_times(words, ASKED) == (
        "mentioned Monday, 8 May 2023 (45 days before the question: 6 weeks and 3 days, or 1 month and 14 days); "
        "refers to Sunday, 7 May 2023 (46 days before the question: 6 weeks and 4 days, or 1 month and 15 days); "
        "and to the time since some time in June-August 2022 "
        "(295 to 386 days before the question: 42 to 55 whole weeks, or 9 to 12 whole months, or 0 to 1 whole year)"
    )


def test_a_speakers_name_is_not_a_time() -> None:
    assert describe_times(fact("June: I keep bees.", engine="local"), ASKED).count(";") == 0


def test_a_text_full_of_times_names_only_a_few_of_them() -> None:
    text = " ".join(f"Paid on {day} April 2023." for day in range(1, 12))
    assert describe_times(fact(text), ASKED).count("and to") == 3


def test_years_at_the_ends_of_the_calendar_are_dated() -> None:
    last = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    first = datetime(1, 1, 1, tzinfo=UTC)
    for moment in (first, last):
        for zone in (LOS_ANGELES, timezone(timedelta(hours=9))):
            odd = fact(told=moment, start=moment, end=last, valid_at=moment, invalid_at=moment)
            assert describe_times(odd, ASKED.astimezone(zone))
            assert describe_differences([("F1", odd), ("F2", fact())], ASKED.astimezone(zone))
            assert describe_times(fact(start=first), last)


# Facts among one another


@given(st.lists(st.tuples(ANY_DATE, st.integers(1, 40)), min_size=2, max_size=9))
def test_the_order_is_that_of_time(days: list[tuple[date, int]]) -> None:
    facts = [fact(start=midnight(day), end=midnight(day + timedelta(days=n))) for day, n in days]
    named = [(f"F{place}", each) for place, each in enumerate(facts)]
    order, *pairs = describe_differences(named, ASKED, most=len(named))
    close, wide = (
        [int(label) for label in re.findall(r"F(\d+)", part)]
        for part in order.partition("Known only approximately")[::2]
    )
    assert sorted([*close, *wide]) == list(range(len(days)))
    assert {days[place][1] > 31 for place in wide} <= {True}
    assert all(days[one][0] <= days[other][0] for places in (close, wide) for one, other in pairwise(places))
    assert "order not known" not in order or any(n > 1 for _, n in days)
    distinct = min(4, len(set(days)))
    assert len(pairs) == distinct * (distinct - 1) // 2


def test_an_imprecise_time_does_not_affect_the_order_of_the_others() -> None:
    named = [
        ("F1", fact(start=midnight(date(2016, 1, 1)), end=midnight(date(2023, 9, 13)))),
        ("F2", fact(start=midnight(date(2023, 5, 20)))),
        ("F3", fact(start=midnight(date(2023, 5, 8)))),
    ]
    order = describe_differences(named, ASKED)[0]
    assert order.startswith(
        "In order of time, earliest first: F3 (8 May 2023); then F2 (20 May 2023). Known only approximately: F1"
    )


def test_only_questions_for_lengths_and_order_get_distances() -> None:
    for question in (
        "How many days ago did she sail?",
        "What came first, the cat or the dog?",
        "Wie lange war sie weg?",
    ):
        assert needs_durations(question)
    for question in ("When did she sail?", "Which city did they see last week?", "What did he do after the fair?"):
        assert not needs_durations(question)


def test_only_lengths_up_to_now_are_shown_beside_the_facts() -> None:
    for question in ("How many days ago did she sail?", "How long have I known Ben?", "How many weeks until the fair?"):
        assert asks_from_now(question)
    for question in ("How long after the offer did they answer?", "How many days were there between both talks?"):
        assert not asks_from_now(question)


def test_without_distances_a_fact_has_its_dates() -> None:
    assert (
        describe_dates(fact(start=midnight(date(2023, 5, 3))), ASKED)
        == "mentioned Monday, 8 May 2023; happened Wednesday, 3 May 2023"
    )
    assert describe_dates(fact(start=midnight(date(2023, 5, 20))), ASKED).endswith("planned for Saturday, 20 May 2023")
    assert describe_dates(fact(start=midnight(MONDAY.date())), ASKED) == "mentioned Monday, 8 May 2023"


def test_a_time_in_the_text_that_overlaps_is_the_same_time() -> None:
    text = "Mira camped in the week before 27 June 2023 (about 20-26 June 2023)."
    trip = fact(text, datetime(2023, 6, 27, 9, tzinfo=UTC), midnight(date(2023, 6, 19)), midnight(date(2023, 6, 26)))
    assert "refers to" not in describe_times(trip, ASKED)


def test_all_facts_are_in_order_and_only_the_first_are_compared() -> None:
    facts = [(f"F{n}", fact(start=midnight(date(2023, 5, n)))) for n in range(1, 9)]
    order, *pairs = describe_differences(facts, ASKED, most=3)
    assert order.count("then") == 7
    assert pairs == [
        "From F1 (1 May 2023) to F2 (2 May 2023): 1 day",
        "From F1 (1 May 2023) to F3 (3 May 2023): 2 days",
        "From F2 (2 May 2023) to F3 (3 May 2023): 1 day",
    ]


def test_dates_of_one_fact_are_not_paired_if_there_is_another() -> None:
    plan = fact("Mira plans from 1 May 2023 to 3 May 2023, and a feast on 9 May 2023.")
    pairs = describe_differences([("F1", plan), ("F2", fact(start=midnight(date(2023, 6, 1))))], ASKED)[1:]
    assert pairs
    assert all("F1" in pair and "F2" in pair for pair in pairs)


def test_of_many_facts_the_most_relevant_are_put_in_order() -> None:
    facts = [(f"F{n}", fact(told=MONDAY + timedelta(days=n))) for n in range(200)]
    assert describe_differences(facts, ASKED)[0].count("F") == 8


def test_mentions_and_events_of_one_day_are_distinguished() -> None:
    named = [("F1", fact()), ("F2", fact(start=midnight(MONDAY.date()))), ("F3", fact())]
    assert describe_differences(named, ASKED) == [
        "In order of time, earliest first: F1, F3 (mentioned 8 May 2023); same day: F2 (8 May 2023)",
        "From F1, F3 (mentioned 8 May 2023) to F2 (8 May 2023): 0 days",
    ]


def test_one_fact_has_nothing_to_be_compared_with() -> None:
    assert describe_differences([("F1", fact())], ASKED) == []


def test_there_are_40_cases_and_more() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40
