"""Hindsight's ways of matching tags, in ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vmemo.models import Fact
from vmemo.models.search import TagsMatch
from vmemo.recall.query import RecallOptions
from vmemo.server.hindsight.unsupported import absent

Match = Literal["any", "all", "any_strict", "all_strict", "exact"]
_OURS: dict[Match, TagsMatch] = {
    "any": "any_or_none",
    "all": "all_or_none",
    "any_strict": "any",
    "all_strict": "all",
    "exact": "exact",
}


def wanted(tags: Sequence[str] | None, match: Match | None) -> RecallOptions:
    """The filter of a recall. Tags that are asked for with `exact` and none given mean untagged facts alone."""
    if match == "exact" and not tags:
        raise absent("tags_match", "'exact' needs at least one tag here.")
    return {"tags": tuple(tags), "tags_match": _OURS[match or "any"]} if tags else {}


def carries(fact: Fact, tags: Sequence[str] | None, match: Match | None) -> bool:
    """The same of a fact that was read already."""
    return meets(fact.tags, tags, match, bare=fact.network in ("world", "experience"))


def meets(own: Sequence[str], tags: Sequence[str] | None, match: Match | None, *, bare: bool = True) -> bool:
    """Whether tags are those that are asked for; `bare` tells whether having none may do."""
    asked, held = set(tags or ()), set(own)
    none = bare and not held
    if not asked:
        return match != "exact" or none
    match match or "any":
        case "any":
            return none or bool(asked & held)
        case "all":
            return none or asked <= held
        case "any_strict":
            return bool(asked & held)
        case "all_strict":
            return asked <= held
        case "exact":
            return asked == held
