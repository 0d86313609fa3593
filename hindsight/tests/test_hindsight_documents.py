"""Comparison of retained items with the stored lines of their documents."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import FrameType

import pytest

from vmemo import InvalidInput
from vmemo.models import Message, MessageId
from vmemo_hindsight.retain import DocumentChanges, HindsightRetain, compare

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 13, tzinfo=UTC)


def line(id: str, content: str, at: datetime = NOON, *tags: str) -> Message:
    return Message(id=MessageId(id), content=content, timestamp=at, document="d", tags=tags)


def retain(*items: Mapping[str, object], mode: str = "replace") -> HindsightRetain:
    return HindsightRetain.model_validate(
        {"items": [{"document_id": "d", "update_mode": mode, **item} for item in items]}
    )


def changed(changes: DocumentChanges) -> tuple[list[str], list[str | None], list[str]]:
    """Return the added texts, and the ids of unchanged and removed messages."""
    removed: list[str] = [*changes.removed]
    return [m.content for m in changes.added], [m.id for m in changes.unchanged], removed


def test_unchanged_lines_stay_and_the_rest_of_a_replaced_document_is_removed() -> None:
    stored = [line("1", "a"), line("2", "b"), line("3", "c")]
    items = [{"content": "c", "timestamp": NOON.isoformat()}, {"content": "x"}, {"content": "a"}]
    assert changed(compare(retain(*items), "op", stored)) == (["x"], ["3", "1"], ["2"])


def test_an_appended_document_loses_nothing() -> None:
    stored = [line("1", "a"), line("2", "b")]
    assert changed(compare(retain({"content": "x"}, mode="append"), "op", stored)) == (["x"], [], [])


def test_each_stored_line_is_matched_once_and_by_its_time_if_one_is_given() -> None:
    stored = [line("1", "ok"), line("2", "ok", LATER), line("3", "ok")]
    items = [{"content": "ok", "timestamp": LATER.isoformat()}, {"content": "ok"}, {"content": "ok"}, {"content": "ok"}]
    assert changed(compare(retain(*items), "op", stored)) == (["ok"], ["2", "1", "3"], [])


def test_a_line_with_other_tags_replaces_the_stored_one() -> None:
    changes = compare(retain({"content": "a", "timestamp": NOON.isoformat(), "tags": ["new"]}), "op", [line("1", "a")])
    assert changed(changes) == (["a"], [], ["1"])


def test_an_item_of_a_document_is_data() -> None:
    of_document, without = retain({"content": "a"}), retain({"content": "a", "document_id": None})
    roles = [compare(body, "op", []).added[0].author for body in (of_document, without)]
    assert roles == ["document", "user"]


def test_items_of_one_document_have_one_update_mode() -> None:
    body = HindsightRetain.model_validate(
        {"items": [{"content": "a", "document_id": "d", "update_mode": mode} for mode in ("replace", "append")]}
    )
    with pytest.raises(InvalidInput, match="both update modes"):
        body.check()


def calls_of_comparison(stored: Sequence[Message], body: HindsightRetain) -> int:
    """Return how many Python functions a comparison calls."""
    count = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        compare(body, "op", stored)
    finally:
        sys.setprofile(None)
    return count


def test_work_grows_linearly_with_items_and_lines() -> None:
    def calls(size: int) -> int:
        stored = [line(str(n), f"Line {n}.") for n in range(size)]
        body = retain(*({"content": f"Line {n + size}.", "timestamp": NOON.isoformat()} for n in range(size)))
        body.check()
        return calls_of_comparison(stored, body)

    calls(1)
    assert calls(400) < 5 * calls(100)
