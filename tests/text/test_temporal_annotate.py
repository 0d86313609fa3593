"""Texts annotated with dates, and intervals formatted as text."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from vmemo.models import Interval
from vmemo.text.temporal import annotate, find_times, format_interval
from vmemo.text.temporal.annotation import date_text

MONDAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "annotated"),
    [
        ("I went yesterday and it was fun", "I went yesterday (= 7 May 2023) and it was fun"),
        ("Last week was hard.", "Last week (= 1-7 May 2023) was hard."),
        ("We moved two years ago.", "We moved two years ago (= 2021)."),
        ("We moved two months ago.", "We moved two months ago (= March 2023)."),
        ("It was last month.", "It was last month (= April 2023)."),
        ("I swam last summer.", "I swam last summer (= June-August 2022)."),
        ("It rained early last year.", "It rained early last year (= early 2022)."),
        ("from last Monday to Wednesday", "from last Monday to Wednesday (= 1-3 May 2023)"),
        ("I live here since March.", "I live here since March (= March 2023)."),
        ("We met on Christmas.", "We met on Christmas (= 25 December 2022)."),
        ("on 4 March we danced", "on 4 March (= 4 March 2023) we danced"),
    ],
)
def test_annotate_adds_the_date_after_a_relative_expression(text: str, annotated: str) -> None:
    assert annotate(text, MONDAY).text == annotated


@pytest.mark.parametrize(
    "text",
    [
        "I feel good today, this morning and tonight; now and currently too.",
        "Recently I have been busy; soon, these days, the other day.",
        "On 7 May 2023 we met; in 2019 we had not.",
        "It took three weeks, and I lived there for two years.",
        "Thanksgiving is always special, like the Christmas magic.",
        "No dates here.",
    ],
)
def test_annotate_leaves_other_expressions_unchanged(text: str) -> None:
    assert annotate(text, MONDAY).text == text


@pytest.mark.parametrize(
    ("text", "annotated"),
    [
        ("I raised my savings target to $900 by October 15.", "by October 15 (= 15 October 2023)."),
        ("My sponsor wanted the slides by August 20.", "by August 20 (= 20 August 2023)."),
        ("I need to have the draft done by October 15.", "by October 15 (= 15 October 2023)."),
        ("We want the wall painted by July 1 and the roof fixed by October 2.", "by October 2 (= 2 October 2023)."),
        ("I want to know if the wall was painted by October 2.", "by October 2 (= 2 October 2022)."),
        ("I missed my target by October 15.", "by October 15 (= 15 October 2022)."),
        ("I made the plan on October 12.", "on October 12 (= 12 October 2022)."),
        ("I told Ana about the meeting on October 12.", "on October 12."),
        ("We agreed on October 12 for the handover.", "on October 12 (= 12 October 2023) for the handover."),
        ("We agreed on October 12 that it is over.", "on October 12 (= 12 October 2022) that it is over."),
    ],
)
def test_a_plan_that_was_made_or_changed_has_a_date_ahead(text: str, annotated: str) -> None:
    assert annotate(text, MONDAY).text.endswith(annotated)


@pytest.mark.parametrize(
    "text",
    [
        "I met her on a Sunday three weeks ago.",
        "Two days ago, a Monday, I sold it.",
        "My exam is in ten days, on a Monday.",
    ],
)
def test_a_date_on_another_weekday_than_the_words_say_is_left_out(text: str) -> None:
    assert annotate(text, MONDAY).text == text
    assert date_text(text, MONDAY).doubtful in ((), [])


def test_a_date_on_the_weekday_that_the_words_say_is_written() -> None:
    assert annotate("Yesterday, Sunday, we went.", MONDAY).text == "Yesterday (= 7 May 2023), Sunday, we went."
    assert annotate("It was a Monday, three weeks ago.", MONDAY).text.endswith("three weeks ago (= 17 April 2023).")


def test_annotate_is_idempotent() -> None:
    once = annotate("Yesterday we met, two weeks ago we did not, and next month we will.", MONDAY).text
    assert once.count("(") == 3
    assert annotate(once, MONDAY).text == once


def test_a_weekday_in_a_sentence_about_the_future_is_the_next_one() -> None:
    text = "I ran on Friday. I will rest on Friday."
    assert annotate(text, MONDAY).text == "I ran on Friday (= 5 May 2023). I will rest on Friday (= 12 May 2023)."


def test_dates_are_in_the_time_zone_of_the_reference() -> None:
    reference = datetime(2023, 5, 8, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert annotate("yesterday", reference).text == "yesterday (= 7 May 2023)"
    assert format_interval(find_times("yesterday", reference)[0].interval, ZoneInfo("Asia/Tokyo")) == "7 May 2023"


@pytest.mark.parametrize(
    ("start", "end", "written"),
    [
        ("2023-05-07", "2023-05-08", "7 May 2023"),
        ("2023-05-01", "2023-06-01", "May 2023"),
        ("2022-01-01", "2023-01-01", "2022"),
        ("1990-01-01", "2000-01-01", "1990s"),
        ("2014-01-01", "2018-01-01", "2014-2017"),
        ("2023-06-05", "2023-06-12", "5-11 June 2023"),
        ("2023-05-29", "2023-06-05", "29 May - 4 June 2023"),
        ("2022-12-30", "2023-01-03", "30 December 2022 - 2 January 2023"),
        ("2022-06-01", "2022-09-01", "June-August 2022"),
        ("2022-12-01", "2023-03-01", "December 2022 - February 2023"),
        ("2023-05-07", None, "since 7 May 2023"),
        (None, "2023-05-07", "before 7 May 2023"),
        (None, None, "any time"),
    ],
)
def test_format_interval_is_as_short_as_the_dates_allow(start: str | None, end: str | None, written: str) -> None:
    interval = Interval(
        start=datetime.fromisoformat(start).replace(tzinfo=UTC) if start else None,
        end=datetime.fromisoformat(end).replace(tzinfo=UTC) if end else None,
    )
    assert format_interval(interval) == written


def test_format_interval_writes_part_of_a_day_as_that_day() -> None:
    interval = Interval(
        start=datetime(2023, 5, 7, 15, tzinfo=UTC),
        end=datetime(2023, 5, 7, 16, tzinfo=UTC),
    )
    assert format_interval(interval) == "7 May 2023"


@pytest.mark.parametrize(
    ("text", "said", "annotated"),
    [
        ("I start there on 1 July", "2024-06-11", "I start there on 1 July (= 1 July 2024)"),
        ("She is getting married in September", "2025-03-03", "She is getting married in September (= September 2025)"),
        ("We got married in September", "2025-03-03", "We got married in September (= September 2024)"),
        ("My sister turns thirty next month", "2024-02-07", "My sister turns thirty next month (= March 2024)"),
        ("I saw him on Friday", "2024-10-29", "I saw him on Friday (= 25 October 2024)"),
        ("We should have pizza on Friday", "2024-03-05", "We should have pizza on Friday (= 8 March 2024)"),
        ("We should have gone on Friday", "2024-03-05", "We should have gone on Friday (= 1 March 2024)"),
        ("She might have been there on Sunday", "2024-03-05", "She might have been there on Sunday (= 3 March 2024)"),
    ],
)
def test_the_tense_of_the_sentence_decides_the_year_of_a_yearless_date(text: str, said: str, annotated: str) -> None:
    assert annotate(text, datetime.fromisoformat(said).replace(tzinfo=UTC)).text == annotated


@pytest.mark.parametrize(
    ("text", "said", "annotated"),
    [
        ("March 30 is the deadline.", "2024-03-15", "March 30 (= 30 March 2024) is the deadline."),
        ("I will marry on the 21st of June.", "2024-10-15", "I will marry on the 21st of June (= 21 June 2025)."),
        (
            "We are away Saturday 26 to Monday 28 October.",
            "2024-05-08",
            "We are away Saturday 26 to Monday 28 October (= 26-28 October 2024).",
        ),
        ("I will work between March and May.", "2024-02-08", "I will work between March and May (= March-May 2024)."),
        ("We met on Easter Monday.", "2024-05-08", "We met on Easter Monday (= 1 April 2024)."),
        ("I had to decline the May 20 offer.", "2024-06-01", "I had to decline the May 20 (= 20 May 2024) offer."),
        ("I was there 2 weeks and 2 days ago.", "2024-05-18", "I was there 2 weeks and 2 days ago (= 2 May 2024)."),
        ("We flew on 18 and 19 June.", "2024-07-01", "We flew on 18 (= 18 June 2024) and 19 June (= 19 June 2024)."),
    ],
)
def test_a_date_takes_its_year_from_tense_and_the_nearest_occurrence(text: str, said: str, annotated: str) -> None:
    assert annotate(text, datetime.fromisoformat(said).replace(tzinfo=UTC)).text == annotated


@pytest.mark.parametrize(
    "text",
    [
        "Week 1: warm up. Week 2: run.",
        "I do ten sun salutations on the mat.",
        "I use 10-10-10 fertilizer.",
        "Turn it by 1/4° and add 1/4 cup.",
        "You can learn it in two weeks.",
        "I want 30% more calls within 3 months.",
        "I love spring in New Zealand.",
        "I study 20th-century art.",
        "A few years ago we met, and in the next few weeks we may again.",
        "We drank, and the next day I was ill.",
        "They pay next day, and for the week.",
        "I will see her next Friday, or next weekend.",
        "I run on Monday, Wednesday and Friday.",
        "My rehearsals are Tuesday to Thursday.",
        "Does Monday sound good?",
        "I've never been in New York on New Year's Eve.",
        "My birthday is on May 20.",
        "The shop closes on 5/12.",
        'He wrote: "I leave tomorrow."',
        "Dear Sir,\n\nI will come tomorrow.\n\nSincerely, A. B.",
        "```\n# last month\ntotal = sum(month)\n```",
        "def income():\n    # for last month\n    return total",
        "It is currently Friday, and he said that he would come yesterday.",
        "I ran three weeks ago, on April 20th.",
        "We have met on 9/11 memorials.",
        "I bought it last Sunday.",
    ],
)
def test_no_date_is_written_where_the_reading_is_in_doubt(text: str) -> None:
    assert annotate(text, MONDAY).text == text


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("The club is back the third Saturday of January, eight people.", "8 January"),
        ("We have lived there since June, 30 minutes by bus.", "30 June"),
    ],
)
def test_a_number_after_a_month_and_a_comma_is_no_day(text: str, day: str) -> None:
    assert day not in annotate(text, MONDAY).text


def test_an_uncertain_time_is_found_for_search_and_marked() -> None:
    (found,) = annotate("I will see her next Friday.", MONDAY).expressions
    assert (found.text, format_interval(found.interval), found.certain) == ("next Friday", "19 May 2023", False)


def test_southern_seasons_begin_half_a_year_later() -> None:
    assert annotate("I swam last summer.", MONDAY, southern=True).text == (
        "I swam last summer (= December 2022 - February 2023)."
    )
    (winter,) = find_times("What did I read in the winter of 2022?", MONDAY, southern=True)
    assert format_interval(winter.interval) == "June-August 2022"
