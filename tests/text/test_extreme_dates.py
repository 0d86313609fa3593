"""Time expressions in texts that are dated at the ends of the calendar."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from vmemo.models import Interval
from vmemo.text.questions import analyse_query
from vmemo.text.temporal import annotate, find_times, format_interval
from vmemo.text.temporal.calendar_days import add_days, next_weekday, previous_weekday
from vmemo.text.temporal.format import DateSpan, describe_span, format_days

EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
EXTREMES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=EAST),
    datetime(2, 1, 1, tzinfo=EAST),
    datetime(9990, 12, 31, 23, tzinfo=WEST),
    datetime(9991, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, tzinfo=WEST),
]
QUESTIONS = [
    json.loads(line)["q"] for line in (Path(__file__).parent / "temporal_questions.jsonl").read_text().splitlines()
]
PHRASES = """See you on Monday.|We met on Sunday.|this weekend|the last 3 business days|the next 1000 business days
|two weekends ago|Labor Day weekend|a week ago Monday|from Monday to Friday|the weekend before Christmas
|in the last 3 hours|two days later|the days after Easter|early next week|since 9999-12-31|on 31 December 9999
|0001-01-01|the 31st|until Sunday|to date|the rest of the week|a century ago|in 5 decades|Tuesday of next week
|two weeks ago on Monday|the second Sunday in June|week 53|this year so far""".replace("\n", "").split("|")


@pytest.mark.parametrize("reference", EXTREMES, ids=str)
def test_no_time_expression_leaves_the_calendar(reference: datetime) -> None:
    for text in (*PHRASES, *QUESTIONS):
        analyse_query(text, reference, report_unresolved=True)
        for time in (*annotate(text, reference).expressions, *find_times(text, reference)):
            for zone in (UTC, EAST, WEST):
                assert format_interval(time.interval, zone)
                assert format_interval(time.broad_interval, zone)


def test_a_weekday_after_the_last_day_is_not_resolved() -> None:
    assert annotate("See you on Monday.", datetime(9999, 12, 31, tzinfo=UTC)).text == "See you on Monday."


def test_date_arithmetic_stops_at_the_ends_of_the_calendar() -> None:
    assert (add_days(date.max, 1), add_days(date.min, -400)) == (date.max, date.min)
    assert (next_weekday(date.max, 0), previous_weekday(date.min, 0)) == (date.max, date.min)
    assert format_days((date.max, date.max)) == "31 December 9999"
    assert "December 9999" in describe_span(DateSpan(date(9999, 12, 1), date.max))


@pytest.mark.parametrize("at", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)], ids=str)
def test_an_interval_at_the_ends_of_the_calendar_is_described(at: datetime) -> None:
    for interval in (Interval(start=at), Interval(end=at)):
        assert str(at.year) in format_interval(interval, EAST)
        assert str(at.year) in format_interval(interval, WEST)
