"""Times of statements, each resolved against the day on which it is made."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from vmemo.text.temporal import annotate, find_times, format_interval


def times(text: str, said: str) -> list[str]:
    """Return the times of a statement as formatted intervals."""
    _, found = annotate(text, datetime.fromisoformat(said).replace(tzinfo=UTC))
    return [format_interval(each.interval) for each in found]


AHEAD = [
    ("Won't hear until late April.", "2024-03-24", "before 1 May 2024"),
    ("Not yet. The plan is full time until the end of May, then odd shifts.", "2024-02-11", "before 1 June 2024"),
    ("Mum has a date, October 14, and I promised her three weeks.", "2024-08-08", "14 October 2024"),
    ("It is confirmed: a bakery called Thibault, January 13 through the 31st.", "2024-11-13", "13-30 January 2025"),
    ("Leo is giving me four mornings a week from September 10.", "2024-08-08", "10 September 2024"),
    ("The essay is due March 3 and I've written nothing.", "2024-01-20", "3 March 2024"),
    ("I need the report by May 3.", "2024-04-20", "before 3 May 2024"),
    ("She wants me back at work until Christmas.", "2024-07-02", "before 25 December 2024"),
    ("We can do it by Easter.", "2024-02-01", "before 31 March 2024"),
    ("Could you stay until June?", "2024-03-01", "before 1 June 2024"),
    ("My surgery is on 9 January.", "2024-11-20", "9 January 2025"),
    ("The album is out in February.", "2024-09-01", "February 2025"),
    ("The wedding is still in May.", "2024-10-11", "May 2025"),
    ("I'm seeing the dentist on April 4.", "2024-03-12", "4 April 2024"),
    ("We're getting married on August 17.", "2024-01-05", "17 August 2024"),
    ("I have an exam on January 22.", "2024-12-01", "22 January 2025"),
    ("We've got tickets for March 8.", "2024-12-15", "8 March 2025"),
    ("They pushed the deadline to November 30.", "2024-08-15", "30 November 2024"),
    ("The landlord gave us the flat from February 1.", "2024-12-20", "1 February 2025"),
    ("I said yes, until the end of August.", "2024-05-07", "before 1 September 2024"),
    ("I booked a cabin for July 12.", "2024-01-30", "12 July 2024"),
    ("Anna signed us up for a race on June 2.", "2024-04-25", "2 June 2024"),
    ("She flies home on December 8.", "2024-11-24", "8 December 2024"),
    ("We move to Cork on May 21 and I can't sleep.", "2024-03-03", "21 May 2024"),
    ("I land in Oslo on the 22nd and go back on January 4.", "2023-12-03", "22 December 2023 | 4 January 2024"),
    ("Your birthday's on the 30th and I'm mailing something.", "2024-11-13", "30 November 2024"),
    ("Good luck on the 27th!", "2024-09-07", "27 September 2024"),
    ("In May I will be forty.", "2024-02-02", "May 2024"),
    ("On Friday I'll rest.", "2024-03-12", "15 March 2024"),
    ("I was ill for months, but in May I will run again.", "2024-01-15", "May 2024"),
    ("I promised to visit her in September.", "2024-05-05", "September 2024"),
    ("He told me he will have finished by June.", "2024-02-20", "before 1 June 2024"),
    ("I have to present on Thursday.", "2024-11-17", "21 November 2024"),
    ("Are you ready for Saturday?", "2024-06-09", "15 June 2024"),
    ("I have a dentist appointment on Tuesday.", "2024-06-09", "11 June 2024"),
    ("I remember I have a doctor's appointment on Wednesday.", "2023-03-04", "8 March 2023"),
    ("My flight is at 6 on Friday morning.", "2024-11-25", "29 November 2024"),
    ("The scan is booked for the 18th.", "2024-10-08", "18 October 2024"),
    ("I'd rather do Sunday.", "2024-10-08", "13 October 2024"),
    ("I will start at the museum on Saturday week at ten.", "2024-06-09", "22 June 2024"),
    ("I will be home this Wednesday.", "2025-04-13", "16 April 2025"),
    ("The carers start Monday.", "2025-03-17", "24 March 2025"),
    ("Can we do Falmouth instead, June next year?", "2025-09-14", "June 2026"),
    ("He will leave by March end.", "2025-12-29", "before 1 April 2026"),
    ("We will start 1 march\nMihai does the port.", "2025-01-15", "1 March 2025"),
    ("I'm writing to the school Monday.", "2024-02-10", "12 February 2024"),
    ("Mum comes up on Saturday for a month.", "2024-02-11", "17 February 2024"),
    ("I'll tell you by Friday.", "2024-02-13", "before 16 February 2024"),
    ("The form by Friday, please.", "2024-02-13", "before 16 February 2024"),
    ("Whatever isn't opened by Easter goes to charity.", "2024-01-21", "before 31 March 2024"),
    ("The trip slipped from April to May 13.", "2025-01-05", "1 April - 12 May 2025"),
    ("My lease runs out in June so we're hunting for a place.", "2024-03-02", "June 2024"),
    ("The kids break up on July 19.", "2024-06-30", "19 July 2024"),
    ("My visa expires in October.", "2024-03-30", "October 2024"),
    ("Rent goes up in April.", "2024-02-02", "April 2024"),
    ("Tuesday's fine for me.", "2024-02-02", "6 February 2024"),
    ("Can you pick up the cake on Saturday?", "2024-02-01", "3 February 2024"),
    ("Pencil me in for Thursday.", "2024-02-02", "8 February 2024"),
    ("My brother is visiting from December 20 until January 3.", "2024-11-04", "20 December 2024 - 2 January 2025"),
    ("The vet can see her on Wednesday.", "2024-05-04", "8 May 2024"),
    ("We'd love to have you over on Friday.", "2024-03-07", "8 March 2024"),
    ("The concert on Friday is sold out.", "2024-03-11", "15 March 2024"),
    ("They're closed until the 2nd.", "2024-03-11", "before 2 April 2024"),
    ("My thesis defense is scheduled for May 30.", "2024-03-11", "30 May 2024"),
    ("What are you doing for Thanksgiving?", "2024-11-11", "28 November 2024"),
    ("I take the test on the 3rd of June.", "2024-05-01", "3 June 2024"),
    ("The contractor swears the kitchen's done by mid-April.", "2024-02-20", "before 16 April 2024"),
    ("We've rented a boat for the first week of August.", "2024-05-20", "29 July - 4 August 2024"),
    ("We get together on Thursday to plan it.", "2024-05-06", "9 May 2024"),
    ("I'll be in Kyoto from September to December.", "2024-08-07", "September-November 2024"),
    ("I hope you have fun on Friday.", "2024-05-07", "10 May 2024"),
    ("Hope your interview on Monday goes well!", "2024-05-10", "13 May 2024"),
    ("The meeting on Monday will be short.", "2024-05-10", "13 May 2024"),
]

BEHIND = [
    ("We began on September 28 and Ole is not speaking to me.", "2023-10-15", "28 September 2023"),
    ("I worked there until March.", "2024-07-01", "before 1 March 2024"),
    ("We stayed in Lisbon until May and then came home.", "2024-02-10", "before 1 May 2023"),
    ("All of it was refunded by Sunday.", "2025-02-19", "before 16 February 2025"),
    ("We got engaged on July 4.", "2024-05-20", "4 July 2023"),
    ("We moved to Oslo in May.", "2024-03-10", "May 2023"),
    ("Back in May things were quiet.", "2024-03-10", "May 2023"),
    ("In May, we drove to Wales.", "2024-03-10", "May 2023"),
    ("In May, when we were in Wales, it rained.", "2024-03-10", "May 2023"),
    ("I will call you because we met in May.", "2024-03-10", "May 2023"),
    ("She was born September 3.", "2024-08-15", "3 September 2023"),
    ("I have lived here since May.", "2024-03-10", "since 1 May 2023"),
    ("I will be proud of what I've done since May.", "2024-03-10", "since 1 May 2023"),
    ("I told them on Sunday.", "2024-04-30", "28 April 2024"),
    ("I booked the flights on Friday.", "2024-04-30", "26 April 2024"),
    ("I'm still laughing about Friday.", "2024-04-30", "26 April 2024"),
    ("We met in April and in May.", "2024-03-10", "April 2023 | May 2023"),
    ("School began on the 5th.", "2024-09-15", "5 September 2024"),
    ("Remember May 3, when we got lost?", "2024-03-10", "3 May 2023"),
    ("He said so in May.", "2024-03-10", "May 2023"),
    ("We wanted to leave on Friday.", "2024-04-30", "26 April 2024"),
    ("I found the letter on October 30 and I'm keeping it.", "2024-11-20", "30 October 2024"),
    ("Did you see the game on Saturday?", "2024-02-01", "27 January 2024"),
    ("I quit smoking in December.", "2024-10-04", "December 2023"),
    ("They opened the shop on May 2.", "2024-04-04", "2 May 2023"),
    ("Ever since the accident in November I can't drive.", "2024-05-04", "November 2023"),
    ("My sister had twins in August!", "2024-06-07", "August 2023"),
    ("Thanks for dinner on Friday.", "2024-03-11", "8 March 2024"),
    ("The concert on Friday was amazing.", "2024-03-11", "8 March 2024"),
    ("I took the test on the 3rd of June.", "2024-05-01", "3 June 2023"),
    ("My parents came by on Sunday and we're still eating leftovers.", "2024-05-07", "5 May 2024"),
    ("I'm loving the camera I got for Christmas.", "2024-03-07", "25 December 2023"),
    ("I'm reading the book you gave me in June.", "2024-04-07", "June 2023"),
    ("We're thinking about the trip we took in August.", "2024-06-07", "August 2023"),
    ("The kids are still talking about the circus on Saturday.", "2024-05-07", "4 May 2024"),
    ("My mom passed away in June, and it's hard.", "2024-04-07", "June 2023"),
    ("It's crazy how much has changed since June.", "2024-04-10", "since 1 June 2023"),
    ("I was supposed to fly on Monday but my flight was cancelled.", "2024-05-10", "6 May 2024"),
    ("I should've called on Friday.", "2024-05-06", "3 May 2024"),
    ("You must have been tired on Friday.", "2024-05-06", "3 May 2024"),
    ("It took until May to find a job.", "2024-03-07", "before 1 May 2023"),
    ("I studied in Kyoto from September to December.", "2024-08-07", "September-November 2023"),
    ("I hope you had fun on Friday.", "2024-05-07", "3 May 2024"),
    ("How did your interview on Monday go?", "2024-05-10", "6 May 2024"),
    ("Ben and Ada got married in June and they're so happy.", "2024-04-07", "June 2023"),
]

MIXED = [
    ("He moved out in July and I'm moving in August.", "2024-05-10", "July 2023 | August 2024"),
    ("The house was sold in May and we leave in June.", "2024-03-11", "May 2023 | June 2024"),
]

UNMARKED = [
    ("First day August 6, and it pays more.", "2024-04-30", "6 August 2024"),
    ("Sunday. A proper belly laugh.", "2024-05-07", "5 May 2024"),
    ("October or nothing with that man.", "2024-06-22", "October 2024"),
    ("The party, December 20, a house full of people.", "2025-01-10", "20 December 2024"),
    ("Wednesday the 19th, twenty minutes, four hundred people.", "2024-06-09", "19 June 2024"),
    ("November 12, in Sofia.", "2024-07-30", "12 November 2024"),
    ("A photo from March.", "2024-04-10", "March 2024"),
    ("Sunday. I stayed in bed.", "2025-08-10", "10 August 2025"),
    ("I am with my parents since the weekend.", "2025-07-14", "since 12 July 2025"),
    ("The pilot started on the 24th as promised.", "2025-07-15", "24 June 2025"),
    ("The storm on April 2, that was something.", "2024-04-20", "2 April 2024"),
    ("May 15 instead of March 31, then.", "2025-02-19", "15 May 2025 | 31 March 2025"),
]

AGAIN = [
    "She takes one student every October.",
    "Each March the river floods.",
    "We light a fire every 4 July.",
    "We see them every Christmas and every Easter.",
    "In October every year we pick apples.",
    "Every year on May 3 we plant a tree.",
    "Every year in June and July it is full.",
    "I swim on Mondays and run every other Friday.",
    "Choir is every Tuesday and Thursday.",
    "Class is Tuesday and Thursday evenings.",
    "Never deploy on a Thursday or Friday.",
    "We always go to the lake in August.",
    "They usually open in April.",
    "He comes every second Tuesday.",
]

RATES = [
    ("They asked me for three days a week from January.", "2024-11-13", "January 2025"),
    ("It costs $500 a month from June 1.", "2024-04-13", "1 June 2024"),
    ("I'll train twice a week from May 6.", "2024-04-13", "6 May 2024"),
    ("We meet every two weeks from May 6.", "2024-04-13", "6 May 2024"),
    ("It starts a week from Friday.", "2024-04-13", "26 April 2024"),
    ("I work five days from May 6.", "2024-04-13", "6 May 2024"),
    ("I work three shifts a week on Monday.", "2024-04-13", "15 April 2024"),
    ("I run every Sunday since March.", "2024-04-13", "since 1 March 2024"),
]


@pytest.mark.parametrize(("text", "said", "meant"), AHEAD)
def test_a_clause_about_the_future_means_the_next_such_date(text: str, said: str, meant: str) -> None:
    assert times(text, said) == meant.split(" | ")


@pytest.mark.parametrize(("text", "said", "meant"), BEHIND)
def test_a_clause_about_the_past_means_the_last_such_date(text: str, said: str, meant: str) -> None:
    assert times(text, said) == meant.split(" | ")


@pytest.mark.parametrize(("text", "said", "meant"), MIXED)
def test_each_clause_has_its_own_tense(text: str, said: str, meant: str) -> None:
    assert times(text, said) == meant.split(" | ")


@pytest.mark.parametrize(("text", "said", "meant"), UNMARKED)
def test_without_a_cue_a_weekday_is_past_and_a_date_the_nearest(text: str, said: str, meant: str) -> None:
    assert times(text, said) == meant.split(" | ")


@pytest.mark.parametrize("text", AGAIN)
def test_recurring_dates_are_not_found(text: str) -> None:
    assert times(text, "2024-03-24") == []
    assert annotate(text, datetime(2024, 3, 24, tzinfo=UTC)).text == text


@pytest.mark.parametrize(("text", "said", "meant"), RATES)
def test_a_rate_is_not_a_distance(text: str, said: str, meant: str) -> None:
    assert times(text, said) == meant.split(" | ")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("What did I do in January?", "January 2024"),
        ("What happened on January 13?", "13 January 2024"),
        ("Where was I until March?", "before 1 March 2024"),
        ("What is planned for January?", "January 2025"),
        ("What will I do in January?", "January 2025"),
    ],
)
def test_a_question_is_about_the_past_unless_it_asks_about_plans(text: str, meant: str) -> None:
    found = find_times(text, datetime(2024, 11, 13, tzinfo=UTC))
    assert [format_interval(each.interval) for each in found] == [meant]


WORDS = st.sampled_from(
    "I will was had booked told is going to until by since for on in the every always , and ; : . 's got May Friday "
    "March 3 5th 2024 weekend Christmas from through summer a week last".split()
)


@given(words=st.lists(WORDS, max_size=14), day=st.dates(date(3, 1, 1), date(9989, 12, 31)))
def test_annotate_keeps_any_words_and_their_order(words: list[str], day: date) -> None:
    text = " ".join(words)
    annotated, found = annotate(text, datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
    assert [each.text for each in found] == [text[each.start : each.end] for each in found]
    assert all(first.end <= second.start for first, second in pairwise(found))
    assert len(annotated) >= len(text)


def test_a_long_list_of_dates_is_found() -> None:
    text = "on Friday, in May and on Monday I will call; " * 300
    _, found = annotate(text, datetime(2024, 3, 13, tzinfo=UTC))
    assert len(found) == 900
