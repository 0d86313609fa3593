"""Hours and minutes, as the days they fall on: an hour ago, in the last 24 hours."""

from __future__ import annotations

from datetime import timedelta

from vmemo.text.temporal.day_range import FIRST_YEAR, ONE_DAY, Stretch
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.reading import Reading

_MOST = 100_000
"""Minutes up to which people count in hours; a number beyond it is no time."""


def _ago(reading: Reading) -> Stretch | None:
    return _days_since(reading, up_to_now=False)


def _lately(reading: Reading) -> Stretch | None:
    return _days_since(reading, up_to_now=True)


def _days_since(reading: Reading, *, up_to_now: bool) -> Stretch | None:
    minutes = (reading.value("n") if reading.has("n") else 1) * reading.value("u")
    if not 0 < minutes <= _MOST or reading.scene.today.year <= FIRST_YEAR:
        return None
    start = (reading.scene.now - timedelta(minutes=minutes)).date()
    end = reading.scene.today if up_to_now else start
    return Stretch(start, end + ONE_DAY, kind="span" if up_to_now else "day", quiet=True)


RULES = (
    rule("n=(COUNT|A|SOME) u=HOUR (ago|back)", _ago),
    rule("half A u=HOUR (ago|back)", _ago),
    rule("the? (last|past|previous) n=(COUNT|SOME)? u=HOUR (?!of)", _lately),
)
