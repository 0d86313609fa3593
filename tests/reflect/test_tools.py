"""The tools that a model may use while it answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import JsonValue
from reflect_fixtures import NOON, answers_in_turn, memory_with_model, retain_lines, said, says, shown

from vmemo import Message
from vmemo_conformance.fake_llm import FakeLLM

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


def test_a_count_groups_what_says_the_same(sqlite_url: str) -> None:
    retain_lines(
        sqlite_url,
        "I like roses in my garden.",
        later(1, "I bought a red boat in Oslo last summer with Ben."),
        later(2, "I bought a blue boat in Bergen."),
        later(3, "With Ben I bought a red boat in Oslo last summer, cheap."),
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
