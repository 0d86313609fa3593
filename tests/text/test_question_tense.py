"""The tense of a question: about the present, about the past, or for a state that is over."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vmemo.text.questions import analyse_query

NOW = datetime(2025, 2, 10, 9, 0, tzinfo=UTC)

FORMER = """
Where did Maya work before the agency?
What did I use to eat for breakfast?
What car did we have until the accident?
What was my phone number before I changed carriers?
How did Ben's opinion of the plan change?
How has my training plan evolved over the year?
What has changed about the wedding?
What was the original budget?
Who was the project's first lead?
Which dentist did I originally go to?
What was my previous address?
Who is his former boss?
What was the name of her old band?
What did I take for my back at first?
Where were we going to meet in the first place?
What did I weigh back in 2023?
What did she switch from?
Where did they live in the past?
What was my salary prior to the raise?
Up to when did he smoke, and what brand was it before that?
Who used to drive me to school?
Where did Ana stay until she found a flat?
"""
PAST = """
What did Maya say about the recipe?
Who was at the party?
Where did I park the car?
What gift had Leo bought for Ana?
Didn't I mention my allergy?
Who owned the migration at kickoff?
Which team won the cup?
What price stood in the offer?
Maya's job in 2023
What time was practice in November 2024?
Which gym was I a member of last year?
Where was Tom living in spring 2024?
"""
PRESENT = """
Where does Maya work?
What is my phone number?
Am I still a member of the gym?
Which medicine is Helmut on now?
Does Leo drink coffee anymore?
I am used to getting up early, what time is my alarm?
What should I finish before Friday?
When is my next appointment?
What does my old friend Tom do?
Who do I call first in an emergency?
What is planned for next spring?
favourite tea
What do I have today?
When does the Friday boat leave?
When does the fiscal year start, in July?
Who is Ed?
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("question", lines(FORMER))
def test_a_question_for_a_state_that_is_over(question: str) -> None:
    assert analyse_query(question, NOW).tense == "former"


@pytest.mark.parametrize("question", lines(PAST))
def test_a_question_about_something_that_happened(question: str) -> None:
    assert analyse_query(question, NOW).tense == "past"


@pytest.mark.parametrize("question", lines(PRESENT))
def test_a_question_about_the_present(question: str) -> None:
    assert analyse_query(question, NOW).tense == "present"
