"""Claims and the relation between two of them."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from vmemo.text.claims.values import Attribute
from vmemo.text.names.places import place_level

_NEEDS_CHANGE: frozenset[Attribute] = frozenset(("employer", "job", "name", "thing", "car"))
"""Attributes that may have several values, unless a claim reports a change."""
# Divorced people are single too, and "got married" may refer to a time before a divorce.
_NEXT_RELATIONSHIPS = {
    "single": ("engaged", "married", "in a relationship"),
    "in a relationship": ("single",),
    "engaged": ("married", "single"),
    "married": ("divorced", "widowed", "single"),
}


class Claim(NamedTuple):
    """A value that a text states for an attribute of a subject."""

    subject: str
    attribute: Attribute
    value: str
    mistaken: bool = False
    """Corrects an earlier mistake, so that the denied value was never true."""
    changes: bool = False
    """Reports that the value is new."""
    about: str = ""
    """Subtype of the attribute, such as the "work" of a phone number."""
    denied: str = ""
    """The value that the text negates."""
    event: bool = False
    """Reports the change itself, as "moved to" does."""
    detail: str = ""
    """A time, role or origin that the text adds."""


def compare_claims(new: Claim, old: Claim) -> Literal["supersede", "duplicate"] | None:
    """Return the effect of a newer claim on an older one, or None if both stay valid."""
    if (new.subject, new.attribute, new.about) != (old.subject, old.attribute, old.about):
        return None
    if new.value == old.value:
        return "duplicate" if _adds_nothing(new, old) else None
    if old.detail or (new.denied and new.denied != old.value):
        return None
    if new.denied:
        return "supersede"
    if (new.attribute in _NEEDS_CHANGE and not new.changes) or not _are_exclusive(new, old):
        return None
    return "supersede"


def _adds_nothing(new: Claim, old: Claim) -> bool:
    return not new.denied and new.detail in ("", old.detail) and (old.event or not new.event)


def _are_exclusive(new: Claim, old: Claim) -> bool:
    """Return True if both values cannot be valid at once. A value that may be a more precise form of the other can."""
    new_words, old_words = set(re.split(r"[\s,]+", new.value)), set(re.split(r"[\s,]+", old.value))
    if new_words <= old_words or old_words <= new_words:
        return False
    match new.attribute:
        case "residence":
            return _are_distinct_places(new.value, old.value)
        case "employer":
            return not new_words & old_words
        case "phone":
            return not (new.value.endswith(old.value) or old.value.endswith(new.value))
        case "age":
            return int(new.value) > int(old.value)
        case "relationship":
            return new.value in _NEXT_RELATIONSHIPS.get(old.value, ())
        case "timezone" | "weight" | "height":
            return _notation(new.value) == _notation(old.value)
        case _:
            return True


def _are_distinct_places(new: str, old: str) -> bool:
    """Return True for two known places of the same level, of which neither contains the other."""
    level = place_level(new)
    same_level = level == place_level(old) and level in ("city", "state", "country")
    return same_level and new.split(",")[0] != old.split(",")[0]


def _notation(value: str) -> str:
    """Return the notation of a time zone or measure; values in two notations may be equal."""
    if value.startswith("utc"):
        return "offset"
    return "area" if "/" in value else re.sub(r"^\w+$|[\d.]+", "", value)
