"""SQL conditions for the tags of a scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlalchemy import Column, ColumnElement, and_, or_

from vmemo.models.search import TagsMatch


def tagged(
    rule: TagsMatch, held: Sequence[ColumnElement[bool]], *, none: ColumnElement[bool], count: ColumnElement[int]
) -> list[ColumnElement[bool]]:
    """Return the condition for a scope's tags; `held` are conditions for each tag, `none` the one for untagged rows."""
    if not held:
        return []
    match rule:
        case "all":
            return list(held)
        case "any":
            return [or_(*held)]
        case "exact":
            return [*held, count == len(held)]
        case "all_or_none":
            return [or_(and_(*held), none)]
        case "any_or_none":
            return [or_(*held, none)]
        case _:
            assert_never(rule)


def untagged(tags: Column[str], network: Column[str] | None = None) -> ColumnElement[bool]:
    """A row without tags, though no belief: one that was formed has none, whatever the facts have that it rests on."""
    bare = tags == "[]"
    return bare if network is None else bare & network.in_(("world", "experience"))
