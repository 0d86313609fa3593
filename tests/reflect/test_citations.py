"""Citation marks in any text: only shown facts become citations, and streamed deltas form the answer."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from vmemo.models.results import Event, Retracted, TextDelta
from vmemo.reflect.citations import (
    cited_marks,
    complete_part,
    escape_marks,
    parse_marks,
    resolve_citations,
    unknown_marks,
    without_citations,
)
from vmemo.reflect.streaming import AnswerStreamer

ID = "0190abcd-1234-7123-8123-123456789abc"
IDS = {"F1": "one", "F2": "two", "F3": "three", "S1": "sum", "O1": "opinion"}
PARTS = [*IDS, *"[]【】[]B b,-–;.:1…‹()", "F9", "12", "2023", ID, " ", "  ", "\n", " and ", "see ", "fact ", "items"]
ODD = [
    "\x00",
    "\r",
    "\x1b",
    "ſ1",
    "F١",
    "ß",
    "🏛️",
    "日本",
    "́",
    "[F1]",
    " [F9]",
    " [1]",
    "[F1-F3]",
    "[x](y)",
    "][",
    "“",
    "\\",
]
TEXTS = st.lists(st.sampled_from([*PARTS, *ODD]) | st.text(max_size=3), max_size=12).map("".join)
QUICK = settings(max_examples=150, deadline=None)


@QUICK
@given(TEXTS)
def test_resolving_leaves_no_mark_and_creates_none(text: str) -> None:
    out = resolve_citations(text, IDS.get)
    assert cited_marks(out) == unknown_marks(out, ()) == []
    assert {id for id in IDS.values() if f"[{id}]" in out} == {IDS[mark] for mark in cited_marks(text) if mark in IDS}
    assert cited_marks(without_citations(text)) == unknown_marks(without_citations(text), ()) == []
    assert "\x00" not in out


@QUICK
@given(TEXTS)
def test_the_complete_part_of_a_partial_text_does_not_change(text: str) -> None:
    told = [resolve_citations(complete_part(text[:end]), IDS.get) for end in range(len(text) + 1)]
    whole = resolve_citations(text, IDS.get)
    assert all(whole.startswith(part) for part in told)
    assert all(later.startswith(earlier) or len(later) < len(earlier) for earlier, later in pairwise(told))


@QUICK
@given(TEXTS)
def test_nothing_in_a_memory_can_be_taken_for_a_mark(text: str) -> None:
    shown = escape_marks(text)
    assert cited_marks(shown) == unknown_marks(shown, ()) == []


@QUICK
@given(TEXTS, st.booleans(), st.integers(1, 9), st.booleans())
def test_the_deltas_of_any_text_form_it_without_a_retraction(text: str, ascii_: bool, size: int, fenced: bool) -> None:
    events: list[Event] = []
    streamer = AnswerStreamer(events.append, IDS.get, may_call=True)
    written = json.dumps({"calls": [], "found": True, "text": text, "opinions": []}, ensure_ascii=ascii_)
    written = f"<Think>{{hm}}</Think>\n```json\n{written}\n```" if fenced else written
    streamer.start()
    for start in range(0, len(written), size):
        streamer.feed(written[start : start + size])
    streamer.finish(resolve_citations(text, IDS.get))
    assert not any(isinstance(event, Retracted) for event in events)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == resolve_citations(text, IDS.get)


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("Tom [F1].", "Tom [one]."),
        ("Tom [F1, F2][S1].", "Tom [one][two][sum]."),
        ("Tom [F1-F3].", "Tom [one][two][three]."),
        ("Tom [F1–3].", "Tom [one][two][three]."),
        ("Tom [F1, 2].", "Tom [one][two]."),
        ("Tom [facts F1 and F2].", "Tom [one][two]."),
        ("Tom [see F1].", "Tom [one]."),
        ("Tom 【f1】.", "Tom [one]."),
        ("توم [F١].", "توم [one]."),
        ("Tom [F9].", "Tom."),
        ("Tom [F9-F1].", "Tom [one]."),
        ("Tom [1], [fact 2], [#3], [^4].", "Tom,,,."),
        (f"Tom [{ID}] [{ID}, {ID}] [id: {ID}].", "Tom."),
        (f"Tom [F1, {ID}].", "Tom [one]."),
        ("Tom [B].", "Tom."),
        ("Tom [F1](https://example.com).", "Tom [one](https://example.com)."),
        # What is no citation stays what it is.
        ("It [sic] was in [2023], [b]so[/b] [they] say.", "It [sic] was in [2023], [b]so[/b] [they] say."),
        ("Take items[1], rows[0] and list[int].", "Take items[1], rows[0] and list[int]."),
        ("See [the notes](https://example.com), [x] and [ ].", "See [the notes](https://example.com), [x] and [ ]."),
        ("Open [F1 and [ never", "Open [F1 and [ never"),
        ("Use\n```\nx = [0]\n``` [F1].", "Use\n```\nx = [0]\n``` [one]."),
        # What is taken out leaves no other mark behind.
        ("``[F9]` [F1]", "``…` [one]"),
        ("[[F9]F1]", "[…F1]"),
        ("[F [9]1]", "[F…1]"),
        ("To\x00m\x1b\r\n[F\x001].", "Tom\n[one]."),
    ],
)
def test_marks_become_ids_and_other_brackets_stay(text: str, out: str) -> None:
    assert resolve_citations(text, IDS.get) == out


def test_a_list_of_marks_may_be_written_in_any_way() -> None:
    assert parse_marks(["F1", "[F2]", " f3 ", "S1, O1", "none", "", "F1", "Tom"]) == ["F1", "F2", "F3", "S1", "O1"]


@pytest.mark.parametrize("part", [" ", "\n", "[", "[F1 ", "[F1, ", "[F1-", "[fact ", "[1 ", "[ "])
def test_long_texts_of_brackets_and_spaces_take_no_time(part: str) -> None:
    text = part * (20_000 // len(part))
    assert len(resolve_citations(text, IDS.get)) <= len(text)
    assert len(escape_marks(text)) == len(text)


def test_an_open_bracket_holds_back_no_more_than_could_be_a_mark() -> None:
    assert complete_part("He said [or so. It went on") == "He said [or so. It went on"
    assert complete_part("He said [F1, ") == "He said"
