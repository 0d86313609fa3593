"""The rule by which an observation holds: enough of the facts that it rests on are still true."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from vmemo.models.facts import Fact
from vmemo.models.ids import EntityType, FactId

MIN_SUPPORT = 0.5
"""Share of its facts that must still be true; at exactly this share an observation no longer holds."""
PERSON_FACTS = 5
"""Facts from which a person has a profile."""
OTHER_FACTS = 12
"""Facts from which an organization or a product has one; places, events and concepts have none."""


def least_facts(type: EntityType) -> int | None:
    """Return the number of facts from which an entity has a profile; None for types that have none."""
    if type == "PERSON":
        return PERSON_FACTS
    return OTHER_FACTS if type in ("ORGANIZATION", "PRODUCT") else None


def is_true(fact: Fact | None, now: datetime) -> bool:
    """Return True if a fact is stored, believed and true at a time."""
    return fact is not None and fact.expired_at is None and (fact.invalid_at is None or fact.invalid_at > now)


def is_supported(observation: Fact, basis: Mapping[FactId, Fact], now: datetime) -> bool:
    """Return True if more than half of the facts behind an observation are true; one of two may be what it is about."""
    held = sum(is_true(basis.get(id), now) for id in observation.basis)
    return held > MIN_SUPPORT * len(observation.basis)
