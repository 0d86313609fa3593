"""The times of facts: on the calendar of the question, in words, and the exact time between two of them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Literal

import pytest
from hypothesis import given, strategies as st

from vmemo import Fact
from vmemo.models import BankId, FactId
from vmemo.reflect.fact_times import FactTime, describe_day, describe_distance, describe_event, local_date, times_of
from vmemo.text.temporal.format import DateSpan, add_months, exact_lengths, months_and_days

ASKED = datetime(2023, 6, 22, 12, tzinfo=UTC)
"""A Thursday."""
MONDAY = datetime(2023, 5, 8, 12, tzinfo=UTC)
LOS_ANGELES = timezone(timedelta(hours=-8))
DATES = st.dates(date(1900, 1, 1), date(2100, 12, 31))


def _month_end(day: date) -> date:
    return day.replace(day=1) - timedelta(days=1)


ANY_DATE = DATES | DATES.map(_month_end)


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


# Days from the question


@given(ANY_DATE, ANY_DATE)
def test_the_days_from_the_question_are_exact(day: date, today: date) -> None:
    words = describe_day(day, midnight(today)).rpartition(", ")[2]
    days = (today - day).days
    number = f"{abs(days)} day{'' if abs(days) == 1 else 's'}"
    assert words == (f"{number} ago" if days > 0 else f"in {number}" if days else "the day of the question")


@given(DATES, st.times(), st.integers(-14, 14), st.integers(0, 30))
def test_a_mention_falls_on_a_day_in_the_questions_time_zone(day: date, hour: time, zone: int, later: int) -> None:
    told = datetime.combine(day, hour, timezone(timedelta(hours=zone)))
    assert local_date(told.astimezone(UTC), told + timedelta(hours=later)) == day


@pytest.mark.parametrize("hours", range(-12, 15))
@pytest.mark.parametrize("hour", [0, 1, 12, 23])
def test_a_day_on_which_something_happened_is_the_same_in_all_zones(hours: int, hour: int) -> None:
    asked = datetime(2023, 6, 22, hour, tzinfo=timezone(timedelta(hours=hours)))
    assert describe_event(fact(start=midnight(date(2023, 5, 1))), asked) == "happened 1 May 2023, 52 days ago"


def test_an_event_with_a_time_of_day_is_a_day() -> None:
    moment = datetime(2023, 5, 7, 20, 15, tzinfo=UTC)
    event = fact(start=moment, end=moment + timedelta(seconds=1))
    assert describe_event(event, ASKED) == "happened 7 May 2023, 46 days ago"


def test_a_closed_fact_states_when_it_became_invalid() -> None:
    asked = datetime(2023, 6, 22, 9, tzinfo=LOS_ANGELES)
    closed = "no longer true since 3 June 2023"
    assert describe_event(fact(invalid_at=datetime(2023, 6, 4, 4, tzinfo=UTC)), asked) == closed
    assert describe_event(fact(invalid_at=midnight(date(2023, 6, 3))), asked) == closed
    assert describe_event(fact(invalid_at=midnight(date(2023, 6, 3))), MONDAY) == "true until 3 June 2023"


def test_an_extracted_event_happened_or_was_planned() -> None:
    trip = fact(start=midnight(date(2023, 5, 3)), end=midnight(date(2023, 5, 11)), told=MONDAY + timedelta(days=5))
    assert describe_event(trip, ASKED) == "happened within 3-10 May 2023"
    assert describe_event(fact(start=midnight(MONDAY.date())), ASKED) == ""
    assert describe_event(fact(start=midnight(date(2023, 5, 20))), ASKED) == "planned for 20 May 2023, 33 days ago"


def test_a_date_that_the_text_names_is_not_repeated() -> None:
    assert describe_event(fact("Mira married on 3 May 2023.", start=midnight(date(2023, 5, 3))), ASKED) == ""


@pytest.mark.parametrize("said", ["since last Friday (= 5 May 2023)", "since last Friday"])
def test_a_date_behind_a_beginning_is_the_same_time(said: str) -> None:
    times = times_of(fact(f"Mira: I have had a cold {said}.", engine="local"), ASKED)
    assert times == (on("2023-05-05", kind="since"),)


def test_a_verbatim_message_is_dated_by_the_times_in_it() -> None:
    words = fact("Mira: I went rowing yesterday, and I have rowed since last summer.", engine="verbatim")
    first, second = times_of(words, ASKED)
    assert first == on("2023-05-07")
    assert (second.kind, second.period) == ("since", DateSpan(date(2022, 6, 1), date(2022, 8, 31)))


def test_a_speakers_name_is_not_a_time() -> None:
    assert times_of(fact("June: I keep bees.", engine="local"), ASKED)[0].kind == "mentioned"


def test_a_text_full_of_times_has_only_a_few_of_them() -> None:
    text = " ".join(f"Paid on {day} April 2023." for day in range(1, 12))
    assert len(times_of(fact(text), ASKED)) == 4


def test_a_time_in_the_text_that_overlaps_is_the_same_time() -> None:
    text = "Mira camped in the week before 27 June 2023 (about 20-26 June 2023)."
    trip = fact(text, datetime(2023, 6, 27, 9, tzinfo=UTC), midnight(date(2023, 6, 19)), midnight(date(2023, 6, 26)))
    assert len(times_of(trip, ASKED)) == 1


def test_years_at_the_ends_of_the_calendar_are_dated() -> None:
    last, first = datetime(9999, 12, 31, 23, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)
    for moment in (first, last):
        for zone in (LOS_ANGELES, timezone(timedelta(hours=9))):
            asked = ASKED.astimezone(zone)
            odd = fact(told=moment, start=moment, end=last, valid_at=moment, invalid_at=moment)
            assert describe_event(odd, asked)
            assert describe_distance(times_of(odd, asked)[0], times_of(fact(), asked)[0])


# The time between two facts


def on(first: str, last: str = "", kind: Literal["on", "since"] = "on") -> FactTime:
    return FactTime(kind, DateSpan(date.fromisoformat(first), date.fromisoformat(last or first)))


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (on("2024-01-07"), on("2024-02-23"), "from 7 January 2024 to 23 February 2024: 47 days, or 6 weeks and 5 days"),
        (on("2024-02-23"), on("2024-01-07"), "from 7 January 2024 to 23 February 2024: 47 days"),
        (on("2024-01-07"), on("2024-01-07"), "from 7 January 2024 to 7 January 2024: 0 days"),
        (on("2023-05-01", "2023-05-31"), on("2023-06-10"), "from some time in May 2023 to 10 June 2023: 10 to 40 days"),
        (on("2023-05-01", "2023-05-31"), on("2023-05-10"), "they overlap, 21 days apart at most"),
    ],
)
def test_the_time_between_two_is_exact_or_a_range(one: FactTime, other: FactTime, words: str) -> None:
    assert words in describe_distance(one, other)
