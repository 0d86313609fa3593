"""The status of a recalled fact at the time that a question is about."""

from __future__ import annotations

from datetime import datetime

from vmemo.models import Fact, HitStatus
from vmemo.models.search import Scope


def status_of(fact: Fact, scope: Scope, now: datetime) -> HitStatus:
    """Return "former" if a fact no longer holds at the time of the scope; at the time `now` if it has none."""
    if scope.at_time is not None:
        # The store returns only what was true then.
        return "current"
    if scope.known_at is not None:
        # The end of a fact that was closed later was not known then.
        return "former" if fact.expired_at is None and _ended(fact, scope.known_at) else "current"
    return "former" if fact.expired_at is not None or _ended(fact, now) else "current"


def _ended(fact: Fact, at: datetime) -> bool:
    return fact.invalid_at is not None and fact.invalid_at <= at
