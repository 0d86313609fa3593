"""Short ids: abbreviations of UUIDs for prompts, citations and the command line.

The short id of a UUID is its first eight digits. UUIDs that begin with a time (versions 6 and 7), of which many share
these digits, have their last six digits added: `01a1e25d-75e81f`. An id that is not a UUID is its own short id. It
depends on the id alone, so it never changes, and a store finds it by the index of its ids, which begin with it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHORT = re.compile(r"([0-9a-f]{8})(?:-([0-9a-f]{6}))?")
TIME_ORDERED = ("6", "7")
"""Versions of UUIDs that begin with a time."""


class ShortId(NamedTuple):
    """The digits that a UUID begins with, and those that it ends with if it is ordered by time."""

    start: str
    end: str = ""


def short_id(id: str) -> str:
    """Return the short id of an id."""
    uuid = _UUID.fullmatch(id)
    if uuid is None:
        return id
    return f"{id[:8]}-{id[-6:]}" if uuid[1] in TIME_ORDERED else id[:8]


def parse_short_id(text: str) -> ShortId | None:
    """Return the parts of the short id of a UUID, or None if the text is not one."""
    short = _SHORT.fullmatch(text)
    return ShortId(short[1], short[2] or "") if short else None
