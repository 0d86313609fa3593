"""Time expressions of questions and their intervals."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from vmemo.errors import InvalidInput
from vmemo.text.temporal import TimeExpression, find_times
from vmemo.text.temporal.grammar import LEXICON

MONDAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

Borders = tuple[str | None, str | None]


def borders(found: TimeExpression) -> Borders:
    start, end = found.interval.start, found.interval.end
    return start and f"{start:%Y-%m-%d}", end and f"{end:%Y-%m-%d}"


def only(text: str, reference: datetime = MONDAY) -> TimeExpression:
    found = find_times(text, reference)
    assert len(found) == 1, [each.text for each in found]
    return found[0]


EXPLICIT = [
    ("We met on 7 May 2023.", "2023-05-07", "2023-05-08"),
    ("We met on May 7th, 2023.", "2023-05-07", "2023-05-08"),
    ("We met on the 7th of May 2023.", "2023-05-07", "2023-05-08"),
    ("Met 2023-05-07 at noon", "2023-05-07", "2023-05-08"),
    ("Met 05/07/2023", "2023-05-07", "2023-05-08"),
    ("Met 23/07/2022", "2022-07-23", "2022-07-24"),
    ("Met 07-May-2023", "2023-05-07", "2023-05-08"),
    ("born on twenty five January nineteen eighty six", "1986-01-25", "1986-01-26"),
    ("It was May 2023", "2023-05-01", "2023-06-01"),
    ("in 2019", "2019-01-01", "2020-01-01"),
    ("in the 1990s", "1990-01-01", "2000-01-01"),
    ("in the 90s", "1990-01-01", "2000-01-01"),
    ("the 21st century", "2000-01-01", "2100-01-01"),
    ("on 2020/Sep/23", "2020-09-23", "2020-09-24"),
    ("on Black Friday 2010", "2010-11-26", "2010-11-27"),
    ("Q3 2022", "2022-07-01", "2022-10-01"),
    ("winter 2022", "2022-12-01", "2023-03-01"),
    ("Christmas 2021", "2021-12-25", "2021-12-26"),
    ("Easter 2022", "2022-04-17", "2022-04-18"),
    ("Thanksgiving 2022", "2022-11-24", "2022-11-25"),
    ("Labor Day 2022", "2022-09-05", "2022-09-06"),
    ("mid-2022", "2022-04-01", "2022-10-01"),
    ("late 2022", "2022-07-01", "2023-01-01"),
    ("early March 2022", "2022-03-01", "2022-03-16"),
    ("the first Monday of September 2022", "2022-09-05", "2022-09-06"),
    ("the last day of May 2022", "2022-05-31", "2022-06-01"),
    ("the first week of Jan 2015", "2014-12-29", "2015-01-05"),
    ("the Sunday before 25 May 2023", "2023-05-21", "2023-05-22"),
    ("the week before 9 June 2023", "2023-06-02", "2023-06-09"),
    ("2 weeks before May 13 1999", "1999-04-29", "1999-04-30"),
]

RELATIVE = [
    ("I went yesterday", "2023-05-07", "2023-05-08"),
    ("the day before yesterday", "2023-05-06", "2023-05-07"),
    ("I go tomorrow", "2023-05-09", "2023-05-10"),
    ("two weeks ago", "2023-04-24", "2023-04-25"),
    ("a couple of weeks ago", "2023-04-24", "2023-04-25"),
    ("in three days", "2023-05-11", "2023-05-12"),
    ("a few days ago", "2023-05-03", "2023-05-07"),
    ("last month", "2023-04-01", "2023-05-01"),
    ("next year", "2024-01-01", "2025-01-01"),
    ("last Friday", "2023-05-05", "2023-05-06"),
    ("this coming Tuesday", "2023-05-09", "2023-05-10"),
    ("next Tuesday", "2023-05-16", "2023-05-17"),
    ("two Fridays ago", "2023-04-28", "2023-04-29"),
    ("last weekend", "2023-05-06", "2023-05-08"),
    ("the weekend before last", "2023-04-29", "2023-05-01"),
    ("last summer", "2022-06-01", "2022-09-01"),
    ("last quarter", "2023-01-01", "2023-04-01"),
    ("last Christmas", "2022-12-25", "2022-12-26"),
    ("the end of last year", "2022-07-01", "2023-01-01"),
    ("the beginning of this month", "2023-05-01", "2023-05-16"),
    ("the end of the month", "2023-05-16", "2023-06-01"),
    ("for the past three weeks", "2023-04-17", "2023-05-08"),
    ("the last 10 days", "2023-04-28", "2023-05-08"),
    ("over the next two months", "2023-05-09", "2023-07-09"),
    ("Tuesday of next week", "2023-05-16", "2023-05-17"),
    ("a week from Friday", "2023-05-19", "2023-05-20"),
    ("on the 3rd", "2023-05-03", "2023-05-04"),
    ("over the weekend", "2023-05-06", "2023-05-08"),
]

RANGES = [
    ("between May 2019 and July 2020", "2019-05-01", "2020-07-01"),
    ("from 3 May to 5 June 2021", "2021-05-03", "2021-06-05"),
    ("Nov 18-Dec 19, 2015", "2015-11-18", "2015-12-19"),
    ("2014-2018", "2014-01-01", "2018-01-01"),
    ("before 2018", None, "2018-01-01"),
    ("after 2010", "2011-01-01", None),
    ("since last Monday", "2023-05-01", None),
    ("until next Friday", None, "2023-05-19"),
    ("by the end of 2022", None, "2023-01-01"),
    ("more than 2 weeks ago", None, "2023-04-24"),
    ("2018 or later", "2018-01-01", None),
]

COUNTED = [
    ("a year and a half ago", "2021-11-08", "2021-11-09"),
    ("a month ago today", "2023-04-08", "2023-04-09"),
    ("two weeks ago yesterday", "2023-04-23", "2023-04-24"),
    ("between the 2nd and the 5th", "2023-05-02", "2023-05-05"),
    ("two and a half years ago", "2020-11-08", "2020-11-09"),
    ("half a year ago", "2022-11-08", "2022-11-09"),
    ("2 or 3 weeks ago", "2023-04-17", "2023-04-25"),
    ("a day or two ago", "2023-05-06", "2023-05-08"),
    ("the past 2-3 weeks", "2023-04-17", "2023-05-08"),
    ("two weeks ago on Friday", "2023-04-28", "2023-04-29"),
    ("in March last year", "2022-03-01", "2022-04-01"),
    ("a few days before Christmas", "2022-12-20", "2022-12-24"),
    ("at the weekend", "2023-05-06", "2023-05-08"),
    ("since the 5th", "2023-05-05", None),
    ("the first three months of the year", "2023-01-01", "2023-04-01"),
    ("the next 4 business days", "2023-05-09", "2023-05-13"),
    ("the 2 upcoming months", "2023-05-09", "2023-07-09"),
    ("for 3 days from today", "2023-05-08", "2023-05-11"),
    ("between now and May 20", "2023-05-08", "2023-05-20"),
    ("two months from today on Tuesday", "2023-07-11", "2023-07-12"),
    ("earlier this year", "2023-01-01", "2023-05-08"),
    ("less than 3 days after tomorrow", "2023-05-09", "2023-05-12"),
    ("this calendar year", "2023-01-01", "2024-01-01"),
]


@pytest.mark.parametrize(("text", "start", "end"), EXPLICIT)
def test_absolute_dates_are_resolved_and_not_relative(text: str, start: str, end: str) -> None:
    found = only(text)
    assert borders(found) == (start, end)
    assert not found.relative


@pytest.mark.parametrize(("text", "start", "end"), RELATIVE)
def test_relative_expressions_are_counted_from_the_reference(text: str, start: str, end: str) -> None:
    found = only(text)
    assert borders(found) == (start, end)
    assert found.relative


@pytest.mark.parametrize(("text", "start", "end"), RANGES)
def test_ranges_are_resolved_with_open_sides(text: str, start: str | None, end: str | None) -> None:
    assert borders(only(text)) == (start, end)


@pytest.mark.parametrize(("text", "start", "end"), COUNTED)
def test_inexact_and_aligned_distances_are_resolved(text: str, start: str, end: str | None) -> None:
    assert borders(only(text)) == (start, end)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("What will I do on Friday?", "2023-05-12"),
        ("What are we doing on Friday?", "2023-05-12"),
        ("What have I planned for Friday?", "2023-05-12"),
        ("Where am I flying in December?", "2023-12-01"),
        ("Will it be the day after Thanksgiving?", "2023-11-24"),
        ("What did I do on Friday?", "2023-05-05"),
        ("What did I want to do on Friday?", "2023-05-05"),
        ("How is it going since March?", "2023-03-01"),
        ("Will I be away from April to June?", "2023-04-01"),
    ],
)
def test_without_a_preference_the_tense_of_the_question_decides(text: str, start: str) -> None:
    assert borders(only(text))[0] == start


def test_a_year_applies_to_every_date_of_a_list() -> None:
    found = find_times("in December, January or February 2022", MONDAY)
    assert [borders(each)[0] for each in found] == ["2021-12-01", "2022-01-01", "2022-02-01"]


@pytest.mark.parametrize(
    "text",
    [
        "My Sunday roast, my Christmas tree and the Easter eggs; Black Friday deals.",
        "He is in his mid 30s, she is in her early thirties.",
        "They live at 12 March Street; the code 1987 opens it.",
        "On the weekends we hike.",
        "You may come, or march on, in second hand clothes.",
        "The sun was up; he sat down with a spring in his step.",
        "Leaves fall down every day, and we go on Tuesdays.",
        "This may be due to rain. May I ask why?",
        "Summer said hi, and April told me everything.",
        "She is in her twenties and he is in his 90s.",
        "It took three weeks; I have known her for 4 years.",
        "Add 1/2 cup, open 24/7, version 3.11.2, IP 10.0.0.1.",
        "She lives on the 4th floor, seat in the 3rd row.",
        "Call 555-2016, order #2016, room 2016, that is $2016 or 2016 dollars.",
        "Lately, recently, soon, these days, the other day, one day.",
        "We haven't talked in a few days; Rome wasn't built in a day.",
        "At the end of the day I keep it up to date, day after day.",
        "",
    ],
)
def test_words_that_only_resemble_dates_are_not_found(text: str) -> None:
    assert find_times(text, MONDAY) == []


@pytest.mark.parametrize("text", ["the 9999999th Sunday of May 2022", "the 9999999th week of May 2022"])
def test_impossible_counts_are_not_resolved_as_counted(text: str) -> None:
    assert all(found.text != text for found in find_times(text, MONDAY))


def test_a_bare_weekday_month_or_day_follows_the_preference() -> None:
    text = "on Friday, in March, on 4 July"
    past = [borders(each)[0] for each in find_times(text, MONDAY)]
    future = [borders(each)[0] for each in find_times(text, MONDAY, prefer="future")]
    assert past == ["2023-05-05", "2023-03-01", "2022-07-04"]
    assert future == ["2023-05-12", "2024-03-01", "2023-07-04"]


def test_offsets_match_the_text_and_are_in_order() -> None:
    text = "Last Friday we met; on 7 MAY 2023 İ left; tomorrow I return."
    found = find_times(text, MONDAY)
    assert [each.text for each in found] == ["Last Friday", "7 MAY 2023", "tomorrow"]
    assert all(text[each.start : each.end] == each.text for each in found)


def test_a_day_starts_at_midnight_in_the_time_zone_of_the_reference() -> None:
    found = only("yesterday", datetime(2023, 5, 8, 1, tzinfo=ZoneInfo("America/New_York")))
    assert found.interval.start == datetime(2023, 5, 7, 4, tzinfo=UTC)
    assert found.interval.end == datetime(2023, 5, 8, 4, tzinfo=UTC)


def test_a_day_with_a_clock_change_has_its_real_length() -> None:
    found = only("yesterday", datetime(2023, 3, 27, 12, tzinfo=ZoneInfo("Europe/Berlin")))
    assert found.interval.start is not None
    assert found.interval.end is not None
    assert found.interval.end - found.interval.start == timedelta(hours=23)


def test_the_next_day_is_counted_from_the_previous_date_of_the_text() -> None:
    found = find_times("We met on 5 May 2016. The next day we left, and two weeks later we moved.", MONDAY)
    assert [borders(each)[0] for each in found] == ["2016-05-05", "2016-05-06", "2016-05-20"]


def test_the_broad_interval_includes_the_last_day() -> None:
    months, ago = only("from July to October 2022"), only("two years ago")
    assert months.interval.end == datetime(2022, 10, 1, tzinfo=UTC)
    assert months.broad_interval.end == datetime(2022, 11, 1, tzinfo=UTC)
    assert ago.broad_interval.start == datetime(2021, 1, 1, tzinfo=UTC)
    assert ago.broad_interval.end == datetime(2022, 1, 1, tzinfo=UTC)


def test_the_broad_interval_of_by_and_as_of_ends_with_the_named_period() -> None:
    by, as_of = only("by 10 July 2022"), only("as of September 2022")
    assert (by.broad_interval.start, by.broad_interval.end) == (None, datetime(2022, 7, 11, tzinfo=UTC))
    assert (as_of.broad_interval.start, as_of.broad_interval.end) == (None, datetime(2022, 10, 1, tzinfo=UTC))


def test_a_reference_without_a_time_zone_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        find_times("yesterday", MONDAY.replace(tzinfo=None))


WORDS = st.sampled_from([*LEXICON, *"1 5 12 31 32 99 2023 20231301 100 1st 90s , . - / ~ < > = '".split()])
DAYS = st.dates(date(3, 1, 1), date(9989, 12, 31))
HOURS = st.integers(-12, 14)


@given(words=st.lists(WORDS, max_size=12), day=DAYS, hours=HOURS, glue=st.sampled_from(["", " "]))
def test_any_words_give_ordered_expressions(words: list[str], day: date, hours: int, glue: str) -> None:
    text = glue.join(words)
    reference = datetime(day.year, day.month, day.day, 23, tzinfo=timezone(timedelta(hours=hours)))
    position = 0
    for found in find_times(text, reference):
        assert position <= found.start < found.end
        position = found.end


def test_a_date_is_found_next_to_any_unicode_character() -> None:
    reference = datetime(2024, 5, 1, tzinfo=UTC)
    for first in range(1, 0x20000, 0x40):
        text = " ".join(chr(point) for point in range(first, first + 0x40) if not 0xD800 <= point < 0xE000)
        assert any(found.text == "yesterday" for found in find_times(f"10{text} yesterday {text}x2", reference))


def test_a_range_across_new_year_is_one_expression() -> None:
    found = only("He was away 31 December 2023-6 January 2024.").broad_interval
    assert (found.start, found.end) == (datetime(2023, 12, 31, tzinfo=UTC), datetime(2024, 1, 7, tzinfo=UTC))
