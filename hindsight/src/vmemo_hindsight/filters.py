"""Filters of lists: Hindsight's tag matching modes, and the query of a memory list.

Hindsight pages by offset and returns totals, so its lists read the whole bank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field

from vmemo.models import Fact
from vmemo.models.records import Name, TagsMatch
from vmemo.models.requests import RecallOptions
from vmemo_hindsight.schemas import FactType, OffsetPage, unsupported_option
from vmemo_hindsight.serializers import context_of, parse_time

HindsightTagsMatch = Literal["any", "all", "any_strict", "all_strict", "exact"]
TimeField = Literal["created_at", "updated_at", "mentioned_at", "occurred_start", "occurred_end"]
_TAGS_MATCH: dict[HindsightTagsMatch, TagsMatch] = {
    "any": "any_or_none",
    "all": "all_or_none",
    "any_strict": "any",
    "all_strict": "all",
    "exact": "exact",
}


def tag_options(tags: Sequence[str] | None, match: HindsightTagsMatch | None) -> RecallOptions:
    """Return the tag filter of a recall; `exact` without tags, which means untagged facts only, is not supported."""
    if match == "exact" and not tags:
        raise unsupported_option("tags_match", "'exact' needs at least one tag here.")
    return {"tags": tuple(tags), "tags_match": _TAGS_MATCH[match or "any"]} if tags else {}


def matches_tags(
    own: Sequence[str],
    tags: Sequence[str] | None,
    match: HindsightTagsMatch | None,
    *,
    untagged: bool = True,
) -> bool:
    """Return True if tags meet a filter; `untagged` lets the lenient modes accept having no tags."""
    wanted, held = set(tags or ()), set(own)
    without = untagged and not held
    if not wanted:
        return match != "exact" or without
    match match or "any":
        case "any":
            return without or bool(wanted & held)
        case "all":
            return without or wanted <= held
        case "any_strict":
            return bool(wanted & held)
        case "all_strict":
            return wanted <= held
        case "exact":
            return wanted == held


def is_current(fact: Fact) -> bool:
    """Return True if a fact is neither expired nor invalidated."""
    return fact.expired_at is None and fact.invalid_at is None


class MemoryListRequest(OffsetPage):
    """Query of a list of facts; valid facts are the default."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {}

    type: FactType | None = None
    q: str = ""
    state: Literal["valid", "invalidated"] = "valid"
    document_id: Name | None = None
    entity_id: str | None = None
    tags: list[str] | None = Field(default=None, max_length=100)
    tags_match: HindsightTagsMatch | None = None
    time_field: TimeField | None = None
    start_date: str | None = None
    end_date: str | None = None

    @cached_property
    def _window(self) -> tuple[datetime | None, datetime | None]:
        return parse_time("start_date", self.start_date), parse_time("end_date", self.end_date)

    def selects(self, fact: Fact) -> bool:
        """Return True if a fact meets every filter except `document_id`."""
        return (
            is_current(fact) == (self.state == "valid")
            and (self.type is None or fact.network == self.type)
            and any(self.q.casefold() in text.casefold() for text in (fact.text, context_of(fact.metadata) or ""))
            and (self.entity_id is None or any(mention.id == self.entity_id for mention in fact.entities))
            and matches_tags(fact.tags, self.tags, self.tags_match, untagged=fact.network in ("world", "experience"))
            and self._in_window(self._time_of(fact))
        )

    def sort_key(self, fact: Fact) -> tuple[datetime, datetime, str]:
        """Return the key that orders the list by time."""
        return self._time_of(fact) or fact.mentioned_at, fact.recorded_at, fact.id

    def _time_of(self, fact: Fact) -> datetime | None:
        """Return the time that the query filters by; facts are written once, so created and updated are the same."""
        has_window = self.start_date or self.end_date
        match self.time_field or ("created_at" if has_window else "mentioned_at"):
            case "created_at" | "updated_at":
                return fact.recorded_at
            case "mentioned_at":
                return fact.mentioned_at
            case "occurred_start":
                return fact.occurred_start
            case "occurred_end":
                return fact.occurred_end

    def _in_window(self, at: datetime | None) -> bool:
        if at is None:
            return False
        start, end = self._window
        return (start is None or at >= start) and (end is None or at < end)
