"""Summaries and orders: what was replied to each statement, days, and the facts of later lookups."""

from __future__ import annotations

from datetime import timedelta

import pytest
from reflect_fixtures import NOON, answers_in_turn, lookup_request, memory_with_model, retain_lines, said, says, shown

from vmemo import Message
from vmemo.embedding.token_counter import count_tokens
from vmemo.models import QueryType
from vmemo.reflect.condense import advice, asks_back, condense, condense_outline, outline, resolution, without_requests
from vmemo.text.questions.types import answer_type, asks_for_former_state

REPLY = """Certainly! Here are some ideas for your stall:

### Step 1: Choose the Right Place
- **Visit the harbour market**: it is busy on Sundays.
- **Talk to Ines**: she knows the fees.

### Example
```python
print("# No heading")
```
2. **Set Your Prices**
- P(A): \\( \\frac{1}{2} \\)
- **Led a team of fifteen people who sold bread in all the markets of the coast.**

### Conclusion
Good luck!"""


def test_the_outline_of_a_reply_names_what_was_advised() -> None:
    assert outline(REPLY) == [
        "Choose the Right Place",
        "Visit the harbour market",
        "Talk to Ines",
        "Set Your Prices",
    ]
    assert outline("I like it. It rains.") == []


def test_an_outline_keeps_the_labels_that_say_most() -> None:
    text = "Assistant: Preparation; Talk to Ines About Fees; Overview; The stall by the sea"
    assert (
        condense_outline(text, 15, count_tokens, ["stall"])
        == "Assistant: Talk to Ines About Fees; The stall by the sea"
    )


def test_a_shortened_line_keeps_a_request_with_a_subject_and_drops_empty_openings() -> None:
    request = "User: I met Greg, and he is much younger than me in every way that one can think of, can you give me "
    short = condense(f"{request}tips for a joint research project on media influence?", 36, count_tokens)
    assert short is not None
    assert "joint research project on media influence" in short
    reply = "Assistant: Certainly! Of course. Salt the dough at the end."
    assert condense(reply, 16, count_tokens) == "Assistant: Salt the dough at the end."


def test_a_statement_loses_its_request_and_keeps_its_numbers() -> None:
    stated = "User: I cut the page to 1.2MB, and Ines agreed on 15 March"
    assert without_requests(f"{stated}, can you help me with that?") == stated
    assert without_requests("User: Can you help me?") == "User: Can you help me?"


def test_the_solution_of_a_problem_is_found_in_a_reply() -> None:
    reply = "Sure!\n```\nx = 1\n```\n**The issue** is that the oven loses heat when both of its doors are open. Bye!"
    assert resolution(reply) == "The issue is that the oven loses heat when both of its doors are open."
    assert resolution("By following these steps, you should be able to fix the oven and to bake on.") is None
    assert resolution(REPLY) is None


def test_the_most_specific_proposal_of_a_reply_is_found() -> None:
    reply = (
        "Sure! To limit the calls, you can use a queue with `rq` and Redis, so that none is lost. You should rest. "
        "You can improve your day."
    )
    assert advice(reply) == "use a queue with rq and Redis"
    assert advice("You can improve the bread. You should rest well after a long day.") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User: hmm, how do I salt the dough?", True),
        ("User: Okay, so can I bake it twice? Or does it burn?", True),
        ("User: hmm, I burned the bread. Can I bake it twice?", False),
        ("User: Can I bake it twice?", False),
        ("User: hmm, it burned", False),
    ],
)
def test_a_follow_up_question_is_told_from_a_statement(text: str, expected: bool) -> None:
    assert asks_back(text) is expected


def test_a_quoted_message_is_one_clause_and_stands_for_it() -> None:
    text = (
        "User: I'm trying to bake rye bread and I always get the same old error message that says "
        '"Error: the oven, at 300 degrees, is too hot" - can you help?'
    )
    assert condense(text, 14, count_tokens) == "User: bake rye bread …"
    assert condense(text, 26, count_tokens) == 'User: bake rye bread "Error: the oven, at 300 degrees, is too hot" …'


def stall(number: int, line: str, *, role: str = "user") -> Message:
    at = NOON + timedelta(days=number // 2, minutes=number)
    return said(line, at, speaker=None, role=role)


@pytest.mark.parametrize(
    "question", ["Give me a summary of how my market stall developed.", "How has my market stall changed over time?"]
)
def test_each_statement_of_a_summary_is_followed_by_the_outline_of_the_reply(sqlite_url: str, question: str) -> None:
    retain_lines(
        sqlite_url,
        stall(0, "Always name the market when I ask about my stall."),
        stall(0, "I want to open a market stall for bread."),
        stall(1, REPLY, role="assistant"),
        stall(2, "I opened my market stall with Ines."),
        stall(3, "That sounds great!", role="assistant"),
    )
    memory, model = memory_with_model(sqlite_url, says("It opened [F3]."))
    with memory:
        memory.reflect_sync(question)
        asked = model.received[0]
    assert list(shown(asked).values()) == [
        "User: I want to open a market stall for bread.",
        "Assistant: Choose the Right Place; Visit the harbour market; Talk to Ines; Set Your Prices",
        "User: I opened my market stall with Ines.",
    ]
    assert "\n8 January 2024:\nF1 | User: I want" in asked.user
    assert "\n9 January 2024:\nF3 | User: I opened" in asked.user


def test_a_summary_has_whole_statements_and_the_replies_to_the_most_relevant_ones(sqlite_url: str) -> None:
    other = "I planted 12 tulips with Anna on the balcony in March, and they cost 30 euros, and I water them Sundays."
    advice = "- **Loosen the Soil**: now.\n- **Buy Better Pots**: soon.\n- **Set Clear Goals**: always."
    lines = [
        *((stall(2 * n, other.replace("12", str(n))), stall(2 * n + 1, advice, role="assistant")) for n in range(30)),
        (stall(60, "Yes"), stall(61, "Good.", role="assistant")),
        (
            stall(62, "I rented a bread stall from Ines for 250 euros, and we open it on 3 May, can you help me?"),
            stall(63, advice.replace("Pots**: soon", "Flour**: for the bread"), role="assistant"),
        ),
    ]
    retain_lines(sqlite_url, *(line for pair in lines for line in pair))
    memory, model = memory_with_model(sqlite_url, says("It opened [F1]."))
    with memory:
        memory.reflect_sync("Give me a summary of how my bread stall with Ines developed.", max_tokens=500)
    texts = list(shown(model.received[0]).values())
    place = next(place for place, text in enumerate(texts) if "bread stall" in text)
    assert "250 euros" in texts[place]
    assert "3 May" in texts[place]
    assert "can you" not in texts[place]
    assert texts[place + 1] == "Assistant: Loosen the Soil; Buy Better Flour; Set Clear Goals"
    assert "User: Yes" not in texts
    assert all("Sundays" in text for text in texts if "tulips" in text)


def test_long_replies_do_not_displace_what_is_put_in_order(sqlite_url: str) -> None:
    words = "oak elm ash fir yew bay fig sage mint dill rose lily iris moss fern reed palm pear plum lime".split()
    reply = "Gardens need water, light and patience, and that is a long story. " * 40
    pairs = [(f"I planted {word} today.", f"The {word}! {reply}") for word in words]
    retain_lines(
        sqlite_url,
        *(
            stall(2 * n + role, pair[role], role=("user", "assistant")[role])
            for n, pair in enumerate(pairs)
            for role in (0, 1)
        ),
    )
    memory, model = memory_with_model(sqlite_url, says("1. Oak [F1]"))
    with memory:
        memory.reflect_sync("In what order did I bring up plants of my garden?", max_tokens=200)
        memory.reflect_sync(
            "In what order did I bring up plants of my garden?", networks=("experience",), max_tokens=900
        )
    texts = list(shown(model.received[0]).values())
    assert len(texts) >= 14
    assert texts == [f"User: I planted {word} today." for word in words if f"User: I planted {word} today." in texts]
    assert all(text.startswith("Assistant: ") for text in shown(model.received[1]).values())


def test_facts_of_a_lookup_take_their_place_in_the_order(sqlite_url: str) -> None:
    lines = ["The boat has a leak.", "Vera works at the harbour.", "The sail of the boat is torn."]
    retain_lines(sqlite_url, *(said(line, NOON + timedelta(days=n), speaker=None) for n, line in enumerate(lines)))
    found = answers_in_turn(lookup_request("Where does Vera work?"), says("1. The leak [F1]"))
    memory, model = memory_with_model(sqlite_url, found)
    with memory:
        memory.reflect_sync("In what order did I bring up problems with the boat?", max_tokens=40)
    last = shown(model.received[-1])
    assert list(last) == [f"F{n}" for n in range(1, len(last) + 1)]
    places = [lines.index(text.removeprefix("User: ")) for text in last.values()]
    assert places == sorted(places)


def test_a_lookup_adds_a_few_facts_only(sqlite_url: str) -> None:
    retain_lines(sqlite_url, *(f"Note {n} on gardens and flowers." for n in range(30)), "My cat is called Tom.")
    found = answers_in_turn(lookup_request("gardens and flowers"), says("Tom [F1]."))
    memory, _ = memory_with_model(sqlite_url, found)
    with memory:
        answer = memory.reflect_sync("What is the name of my cat?", max_tokens=60, max_lookups=1)
        wide = memory.reflect_sync("What is the name of my cat?", max_lookups=1)
    assert all(lookup.found <= 8 for lookup in (*answer.lookups, *wide.lookups))


def test_a_number_that_a_cited_memory_states_needs_no_list(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "I own twelve boats.", "My boats are all red.")
    memory, model = memory_with_model(sqlite_url, says("12 boats, all of them red [F1][F2]."))
    with memory:
        memory.reflect_sync("How many boats does Alice own in total?")
    assert len(model.received) == 1


@pytest.mark.parametrize(
    ("question", "searched", "answered"),
    [
        ("Why was the gate open on the Monday Gertie vanished?", "temporal", "factual"),
        ("Who found Mango on New Year's Eve, and what does he run?", "temporal", "multi-hop"),
        ("Where did we really spend our July holiday?", "temporal", "factual"),
        ("Would she have kept up if I had taken the first lease I could find?", "temporal", "factual"),
        ("Since when has Kalina been living there?", "temporal", "temporal"),
        ("Which came first: the fair or the flood?", "temporal", "temporal"),
        ("On what date was the offer signed?", "temporal", "temporal"),
        ("How should I structure my letter?", "preference", "instruction"),
        ("What should I cook for Ana?", "preference", "preference"),
        ("A colleague wants to send Radka a treat. What would please her?", "factual", "preference"),
        ("Where does Ana live?", "factual", "factual"),
    ],
)
def test_a_question_is_answered_by_what_it_asks_for(question: str, searched: QueryType, answered: QueryType) -> None:
    assert answer_type(question, searched) == answered


@pytest.mark.parametrize(
    ("question", "former"),
    [
        ("What medium did Rafa originally set out to use?", True),
        ("What date did they promise me at first, before the works dragged on?", True),
        ("Where did I work before I changed to the harbour?", True),
        ("Where do I work now, and where did I work originally?", False),
        ("Where do I work?", False),
    ],
)
def test_questions_for_a_former_state_are_recognised(question: str, former: bool) -> None:
    assert asks_for_former_state(question) is former


def test_a_question_for_a_former_state_is_not_answered_with_the_latest_value(sqlite_url: str) -> None:
    retain_lines(sqlite_url, said("I live in Rome.", NOON), said("I now live in Oslo.", NOON + timedelta(days=30)))
    memory, model = memory_with_model(sqlite_url, says("In Rome [F1]."))
    with memory:
        memory.reflect_sync("Where did Alice live originally?")
        memory.reflect_sync("Where does Alice live now?")
    first, second = (" ".join(asked.system.split()) for asked in model.received)
    assert "asks for an earlier state" in first
    assert "The latest value is valid" not in first
    assert "The latest value is valid" in second
