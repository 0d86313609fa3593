"""Times of questions that the rules cannot resolve, which a language model is called for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from vmemo.text.questions import analyse_query, find_unresolved_times

NOW = datetime(2024, 6, 12, 15, 30, tzinfo=UTC)
"""A Wednesday."""
QUESTIONS = Path(__file__).parent / "temporal_questions.jsonl"

SEEN: list[tuple[str, str]] = [
    ("What did I plant a quarter of a year ago?", "a quarter of a year ago"),
    ("Where did I live 1.5 years ago?", "1.5 years ago"),
    ("What did I cook 2½ weeks ago?", "2½ weeks ago"),
    ("What broke half a dozen weeks ago?", "half a dozen weeks ago"),
    ("What did Ben say a dozen days ago?", "a dozen days ago"),
    ("Who moved in a score of years ago?", "a score of years ago"),
    ("Which course did I take two semesters ago?", "two semesters ago"),
    ("What did Dana cook last Hanukkah?", "last Hanukkah"),
    ("a dozen days ago dentist", "a dozen days ago"),
]
FOREIGN: list[tuple[str, str]] = [
    ("Was habe ich gestern gemacht?", "gestern"),
    ("Wo war ich letzte Woche?", "letzte Woche"),
    ("Was hat Mira vor zwei Wochen gekauft?", "vor zwei Wochen"),
    ("Où étais-je la semaine dernière ?", "semaine dernière"),
    ("Qu'ai-je mangé il y a deux jours ?", "il y a deux jours"),
    ("¿Qué hice ayer?", "ayer"),
    ("¿Dónde estuve el mes pasado?", "mes pasado"),
    ("O que eu fiz ontem?", "ontem"),
    ("Cosa ho comprato due settimane fa?", "due settimane fa"),
    ("Wat deed ik gisteren?", "gisteren"),
    ("Что я делал на прошлой неделе?", "на прошлой неделе"),
    ("Co robiłem wczoraj?", "wczoraj"),
    ("先週何をしましたか？", "先週"),
    ("我上个月去了哪里？", "上个月"),
    ("지난주에 무엇을 했나요?", "지난주"),
    ("ماذا فعلت أمس؟", "أمس"),
]
NOTHING: list[str] = [
    # What the rules resolve by themselves
    "What did I do the fortnight before last?",
    "What happened the Monday after next?",
    "What did I do two Fridays ago?",
    "What did I buy the day before Easter?",
    "What did we eat the Tuesday before Thanksgiving?",
    "What did I do ten days prior to 3 May?",
    "What did I do in the second half of last month?",
    "What did I do on the last day of the month before last?",
    "What did I do in week 12 of last year?",
    "What did I do one and a half decades ago?",
    "What do I have Tuesday week?",
    "Who called yesterday?",
    "What did I eat a month and a day ago?",
    "What did we earn in Q3 of last fiscal year?",
    "Who rang two and a half weeks before Christmas?",
    # How long, how many, when
    "How many weeks ago did the boiler break?",
    "How many business days did the repair take?",
    "How many days before Christmas did I buy the tree?",
    "How long does a business day last at the bank?",
    "How long had I lived in Rome before 2020?",
    "When did I start the diet?",
    "When is the next full moon?",
    "What day is the last working day of May?",
    "How long until the end of the month?",
    # First and last times, and how often
    "When was the last time I saw Ana?",
    "What was the first time we met about?",
    "What do I do every week?",
    "What do we do on the last working day of every month?",
    "How often do I swim?",
    "Who do I call twice a year?",
    "What do I usually cook for Diwali?",
    "What do I cook for Hanukkah?",
    "What do I do at the turn of the month?",
    # Named by an event alone
    "What did I do after Anna's wedding?",
    "What did I eat when I was in Paris?",
    "Who stayed the week after the wedding?",
    "What did I do two days before the exam?",
    "What happened halfway through the marathon?",
    "What did I feel in the final days of the project?",
    "Who spoke at the Diwali party?",
    "What did I wear the day after the Christmas party?",
    "What did I do on the eve of my birthday?",
    "What happened in the run-up to the election?",
    # Too vague for a calendar
    "What did I say the other day?",
    "What did I do ages ago?",
    "Who lived here many years ago?",
    "What have I been up to lately?",
    "What did I do in my twenties?",
    # No times at all
    "Which book did I lend Omar, and which has he lent me?",
    "Who wrote A Midsummer Night's Dream?",
    "What is a leap year?",
    "What has changed since the advent of electric cars?",
    "What are my terms for business days off?",
    "Was ist hier passiert?",
    "Which model is the W12 engine?",
    "Is the new moon pendant silver?",
    "Do I own a Monday mug?",
]


@pytest.mark.parametrize(("question", "words"), [*SEEN, *FOREIGN])
def test_unresolved_times_are_reported(question: str, words: str) -> None:
    missed = analyse_query(question, NOW, report_unresolved=True).unresolved_time
    assert missed
    assert missed.text == words


@pytest.mark.parametrize(("question", "words"), FOREIGN)
def test_foreign_times_are_marked_as_foreign(question: str, words: str) -> None:
    assert [each.foreign for each in find_unresolved_times(question, ())] == [True]


@pytest.mark.parametrize("question", NOTHING)
def test_resolved_times_and_other_words_are_not_reported(question: str) -> None:
    assert analyse_query(question, NOW, report_unresolved=True).unresolved_time is None


def test_no_question_with_a_resolved_time_has_an_unresolved_one() -> None:
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    asked = [(str(row["q"]), datetime.fromisoformat(row["now"])) for row in rows]
    assert asked
    assert not [
        question for question, now in asked if analyse_query(question, now, report_unresolved=True).unresolved_time
    ]


def test_unresolved_times_are_reported_only_on_request() -> None:
    assert analyse_query("Who called me a dozen days ago?", NOW).unresolved_time is None


def test_a_question_with_an_unresolved_time_is_temporal() -> None:
    question = "Where did I have lunch a dozen days ago?"
    assert (analyse_query(question, NOW).type, analyse_query(question, NOW, report_unresolved=True).type) == (
        "factual",
        "temporal",
    )


def test_times_outside_a_question_with_a_time_are_ignored() -> None:
    text = "I was ill a dozen days ago. What did I eat yesterday?"
    assert analyse_query(text, NOW, report_unresolved=True).unresolved_time is None
    assert analyse_query("I was ill a dozen days ago. What did I eat?", NOW, report_unresolved=True).unresolved_time


@given(st.text(max_size=200))
def test_any_text_gets_an_answer(text: str) -> None:
    for each in find_unresolved_times(text, ()):
        assert text[each.start :].startswith(each.text)
