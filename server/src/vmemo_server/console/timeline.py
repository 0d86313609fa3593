"""Positions of facts on a common time axis: when they happened, when they were learned, and until when they held."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from vmemo.models import Fact, utc_now

WIDTH = 240
"""Units of the axis."""
LEAST = timedelta(days=1)
_MARGIN = 6


@dataclass(frozen=True)
class Track:
    """The places of one fact on the axis; None for a time that it has not."""

    learned: float
    happened: tuple[float, float] | None
    held: tuple[float, float]
    closed: bool


@dataclass(frozen=True)
class Timeline:
    """A time axis that all facts of a list share."""

    start: datetime
    end: datetime

    @staticmethod
    def between(first: datetime, last: datetime) -> Timeline:
        """Return the axis from one time to another; times outside are drawn at its ends."""
        return Timeline(first.astimezone(UTC), max(last, first + LEAST).astimezone(UTC))

    def place(self, time: datetime) -> float:
        """Return the place of a time on the axis."""
        share = (min(max(time, self.start), self.end) - self.start) / (self.end - self.start)
        return round(_MARGIN + share * (WIDTH - 2 * _MARGIN), 1)

    def track(self, fact: Fact) -> Track:
        """Return the places of a fact."""
        over = fact.invalid_at if fact.invalid_at and fact.invalid_at <= utc_now() else None
        closed = over or fact.expired_at
        start = fact.valid_at or fact.mentioned_at
        happened = None
        if fact.occurred_start is not None:
            last = fact.occurred_end or fact.occurred_start
            happened = (self.place(fact.occurred_start), self.place(last))
        until = self.place(closed) if closed else WIDTH - _MARGIN
        return Track(
            learned=self.place(fact.mentioned_at),
            happened=happened,
            held=(min(self.place(start), until), until),
            closed=closed is not None,
        )
