"""The status of a recalled fact at the time that a question is about."""

from __future__ import annotations

from datetime import datetime

from vmemo.models import Fact, HitStatus
from vmemo.models.search import Scope


def status_of(fact: Fact, scope: Scope, now: datetime, *, outdated: bool) -> HitStatus:
    """Return "former" if a fact no longer holds at the time of the scope; at the time `now` if it has none.

    A fact that a newer one of the scope may have `outdated` is "maybe_outdated".
    """
    return "former" if _is_former(fact, scope, now) else "maybe_outdated" if outdated else "current"


def _is_former(fact: Fact, scope: Scope, now: datetime) -> bool:
    if scope.at_time is not None:
        # The store returns only what was true then.
        return False
    if scope.known_at is not None:
        # The end of a fact that was closed later was not known then.
        return fact.expired_at is None and _ended(fact, scope.known_at)
    return fact.expired_at is not None or _ended(fact, now)


def _ended(fact: Fact, at: datetime) -> bool:
    return fact.invalid_at is not None and fact.invalid_at <= at
