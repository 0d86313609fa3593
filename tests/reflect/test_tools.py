"""The tools that a model may use while it answers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import JsonValue
from reflect_fixtures import LINE, NOON, answers_in_turn, citing, memory_with_model, retain_lines, said, says, shown

from vmemo import Message
from vmemo_conformance.fake_llm import FakeLLM, ReceivedRequest

STORES = ("sqlite",)

ASKED = datetime(2024, 6, 1, tzinfo=UTC)
UNKNOWN = says("It is not known.", found=False)


def later(days: int, text: str, **more: str) -> Message:
    return said(text, NOON + timedelta(days=days), **more)


def after_calls(url: str, question: str, *calls: dict[str, JsonValue], max_tokens: int = 100) -> tuple[FakeLLM, str]:
    """Let a model make calls in one round; return it, and the lines about its calls in the next prompt."""
    memory, model = memory_with_model(url, answers_in_turn(says("", calls=list(calls)), UNKNOWN))
    with memory:
        answer = memory.reflect_sync(question, now=ASKED, max_tokens=max_tokens)
        assert [each.tool for each in answer.lookups] == [each["tool"] for each in calls]
    return model, model.received[-1].user.partition("Tool calls so far")[2]


def retain_boats(url: str) -> None:
    noise = [later(n, f"Note {n} on gardens, with roses of sort {n}.") for n in range(30)]
    retain_lines(
        url,
        *noise,
        later(1, "The boat is green."),
        later(40, "I painted the boat red."),
        later(80, "The boat got a new sail."),
    )


def test_a_search_may_be_limited_to_dates(sqlite_url: str) -> None:
    retain_boats(sqlite_url)
    model, told = after_calls(
        sqlite_url,
        "Which roses are in the gardens?",
        {"tool": "search", "query": "the boat", "after": "2024-02-01", "before": "2024-02-28"},
        max_tokens=300,
    )
    found = [text for text in shown(model.received[1]).values() if "boat" in text]
    assert found == ["Alice: I painted the boat red."]
    assert "search: the boat from 2024-02-01 to 2024-02-28 | F" in told


def test_a_timeline_has_all_statements_on_a_subject_in_order(sqlite_url: str) -> None:
    retain_boats(sqlite_url)
    model, told = after_calls(
        sqlite_url, "Which roses are in the gardens?", {"tool": "timeline", "query": "the boat"}, max_tokens=300
    )
    texts = [text for text in shown(model.received[1]).values() if "boat" in text]
    assert texts == ["Alice: The boat is green.", "Alice: I painted the boat red.", "Alice: The boat got a new sail."]
    assert "timeline: the boat | F" in told
    late: dict[str, JsonValue] = {"tool": "timeline", "query": "the boat", "after": "2024-03-01"}
    model, told = after_calls(sqlite_url, "Which roses are in the gardens?", late, max_tokens=300)
    texts = [text for text in shown(model.received[1]).values() if "boat" in text]
    assert (texts, "timeline: the boat from 2024-03-01 | F" in told) == (["Alice: The boat got a new sail."], True)


def test_a_timeline_shortens_what_does_not_fit_whole_and_counts_the_rest(sqlite_url: str) -> None:
    long = "The boat has a story. " + "It sailed from one harbour to another one on the coast. " * 12
    retain_lines(sqlite_url, "I like roses.", *(later(n, f"{n}: {long}") for n in range(1, 30)))
    model, told = after_calls(
        sqlite_url, "Which roses do I like?", {"tool": "timeline", "query": "the boat's story"}, max_tokens=900
    )
    assert "more did not fit" in told
    boats = [text for text in shown(model.received[1]).values() if "boat" in text]
    assert {text.endswith("[…]") for text in boats} == {True, False}


def test_what_a_timeline_leaves_out_is_shown_by_asking_with_the_days_that_it_names(sqlite_url: str) -> None:
    story = (
        "sailed to harbour number {0} with {1} crates of fish for the market, and came back in the rain to the pier."
    )
    retain_lines(sqlite_url, "I like roses.", *(later(n, f"The boat {story.format(n, 100 + n)}") for n in range(1, 40)))
    asked: list[tuple[str, str]] = []

    def next_page(request: ReceivedRequest) -> JsonValue:
        days = re.findall(r"ask again with `after` (\S+) and `before` ([\d-]+)", request.user)
        asked.extend(days[-1:])
        call: dict[str, JsonValue] = {"tool": "timeline", "query": "the boat sailed"}
        return says("", calls=[{**call, "after": days[-1][0], "before": days[-1][1]} if days else call])

    memory, model = memory_with_model(sqlite_url, answers_in_turn(next_page, next_page, UNKNOWN))
    with memory:
        memory.reflect_sync("Which roses do I like?", now=ASKED, max_tokens=1200)
    first, second = (shown(each) for each in model.received[1:])
    assert len(asked) == 1
    new = {text for mark, text in second.items() if mark not in first}
    assert new
    days = re.findall(r"number (\d+) ", " ".join(new))
    after, before = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in asked[0])
    assert all(after <= NOON + timedelta(days=int(day)) <= before + timedelta(days=1) for day in days)


def test_what_tools_find_stands_under_a_heading_of_its_own_after_what_the_first_call_had(sqlite_url: str) -> None:
    retain_boats(sqlite_url)
    call: dict[str, JsonValue] = {"tool": "search", "query": "the boat"}
    model, _ = after_calls(sqlite_url, "Which roses are in the gardens?", call, max_tokens=300)
    first, second = model.received
    old, _, new = second.user.partition("New facts, which the last tool calls found:")
    assert second.system == first.system
    assert old == f"{first.user}\n\n", "a provider's cache of prompts serves the second call"
    assert "boat" not in old
    assert len([text for text in dict(LINE.findall(new)).values() if "boat" in text]) == 3


def test_a_timeline_does_not_ask_for_the_same_days_again(sqlite_url: str) -> None:
    story = "The boat sailed to harbour number {0} with {1} crates of fish, and came back in the rain to the pier."
    day = "2024-01-09"
    retain_lines(sqlite_url, "I like roses.", *(later(1, story.format(n, 100 + n)) for n in range(1, 40)))
    whole: dict[str, JsonValue] = {"tool": "timeline", "query": "the boat sailed"}
    _, told = after_calls(sqlite_url, "Which roses do I like?", whole, max_tokens=600)
    assert f"ask again with `after` {day} and `before` {day}" in told
    _, told = after_calls(sqlite_url, "Which roses do I like?", {**whole, "after": day, "before": day}, max_tokens=600)
    assert "more did not fit\n" in told


def test_a_count_of_what_the_assistant_said_has_its_own_words(sqlite_url: str) -> None:
    retain_lines(
        sqlite_url,
        "I like roses in my garden.",
        later(1, "I bought a red boat in Oslo."),
        said("Buy a green boat.", NOON + timedelta(days=3), speaker=None, role="assistant"),
    )
    call: dict[str, JsonValue] = {"tool": "count", "query": "buy a boat"}
    for question, own in (("How many boats did you recommend?", True), ("How many boats were bought?", False)):
        model, told = after_calls(sqlite_url, question, call, max_tokens=600)
        mark = next(mark for mark, text in shown(model.received[1]).items() if "green boat" in text)
        assert (mark in told.partition("count: ")[2]) == own


def test_long_replies_are_shortened_to_what_is_asked_and_a_search_shows_them_whole(sqlite_url: str) -> None:
    advice = (
        "Here are some ideas for the garden. Roses need six hours of sun and a good soil. The rake costs 38 euros at "
        "Miller's on the corner. Lavender keeps the greenfly away from the beds. Water early in the morning and never "
        "on the leaves. Prune in February before the buds open, above a bud that points outwards. A layer of bark "
        "keeps the weeds down for a year. Feed them twice, in spring and after the first flowers have gone."
    )
    retain_lines(
        sqlite_url,
        "I want a rake for the garden, what does a rake cost?",
        "The rake for my garden may cost 50 euros.",
        "I bought no rake for the garden, the cost was too high.",
        said(advice, NOON, speaker=None, role="assistant"),
    )
    call: JsonValue = {"tool": "search", "query": "pruning roses in February above a bud"}
    cites = citing("At Miller's {}.", "Miller")
    memory, model = memory_with_model(sqlite_url, answers_in_turn(says("", calls=[call]), cites, cites))
    with memory:
        question = "What does a rake for the garden cost?"
        memory.reflect_sync(question, now=ASKED)
        answer = memory.reflect_sync(question, now=ASKED)
    assert [fact.text for fact in answer.facts] == [f"Assistant: {advice}"]
    *_, last = [text for text in shown(model.received.pop()).values() if "Miller" in text]
    assert "[…]" in last
    (short,), (whole,) = ([text for text in shown(each).values() if "Miller" in text] for each in model.received)
    assert "The rake costs 38 euros at Miller's on the corner." in short
    assert "[…]" in short
    assert "A layer of bark" not in short
    assert whole == f"Assistant: {advice}"
    assert '"[…]" stands for words that are left out' in model.received[0].system
    assert "`search` and `timeline` show them" in model.received[0].system


def test_a_count_groups_what_says_the_same(sqlite_url: str) -> None:
    retain_lines(
        sqlite_url,
        "I like roses in my garden.",
        later(1, "I bought a red boat in Oslo last summer with Ben."),
        later(2, "I bought a blue boat in Bergen."),
        later(3, "With Ben I bought a red boat in Oslo last summer."),
        said("Buy a green boat.", NOON + timedelta(days=3), speaker=None, role="assistant"),
    )
    model, told = after_calls(
        sqlite_url, "How are roses kept?", {"tool": "count", "query": "I bought a boat"}, max_tokens=600
    )
    texts = shown(model.received[1])
    first, second = (mark for mark, text in texts.items() if "red boat" in text)
    other = next(mark for mark, text in texts.items() if "blue boat" in text)
    assert f"count: I bought a boat | {first} (again in {second}), {other}\n" in told


def test_the_time_between_two_events_is_exact_and_cites_both(sqlite_url: str) -> None:
    retain_lines(
        sqlite_url,
        "I like roses.",
        later(0, "I bought the boat on 7 January 2024."),
        later(60, "I sold the boat today."),
    )
    model, told = after_calls(
        sqlite_url,
        "Which roses do I like?",
        {"tool": "between", "query": "bought the boat", "other": "sold the boat"},
        {"tool": "between", "query": "bought the boat", "other": "today"},
    )
    marks = {text: mark for mark, text in shown(model.received[1]).items()}
    bought, sold = (next(mark for text, mark in marks.items() if word in text) for word in ("bought", "sold"))
    assert f"{bought} and {sold}: from 7 January 2024 to 8 March 2024: 61 days" in told
    assert f"{bought} and the question: from 7 January 2024 to 1 June 2024: 146 days" in told


def test_events_may_be_given_by_their_marks(sqlite_url: str) -> None:
    retain_lines(sqlite_url, later(0, "I bought the boat."), later(31, "I sold the boat."))
    memory, model = memory_with_model(
        sqlite_url, answers_in_turn(says("", calls=[{"tool": "between", "query": "F1", "other": "[F2]"}]), UNKNOWN)
    )
    with memory:
        memory.reflect_sync("How long did I have the boat?", now=ASKED)
    assert "31 days" in model.received[1].user.partition("Tool calls so far")[2]


@pytest.mark.parametrize(
    "call",
    [
        {"tool": "between", "query": "the boat"},
        {"tool": "search", "query": ""},
        {"tool": "timeline", "query": "[F1]"},
    ],
)
def test_a_call_that_asks_for_nothing_is_not_made(sqlite_url: str, call: dict[str, JsonValue]) -> None:
    retain_lines(sqlite_url, "The boat is green.")
    memory, model = memory_with_model(sqlite_url, answers_in_turn(says("", calls=[call]), UNKNOWN))
    with memory:
        assert memory.reflect_sync("What colour is the sail?").lookups == ()
    assert len(model.received) == 2


def test_an_unknown_tool_is_a_search_and_a_wrong_date_is_ignored(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "The boat is green.")
    call: JsonValue = {"tool": "look", "query": "sails", "after": "last May"}
    memory, _ = memory_with_model(sqlite_url, answers_in_turn(says("", calls=[call]), UNKNOWN))
    with memory:
        (lookup,) = memory.reflect_sync("What colour is the boat?").lookups
    assert (lookup.tool, lookup.query) == ("search", "sails")
