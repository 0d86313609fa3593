"""Instants as the databases keep them: whole microseconds since 1970, the same in every dialect."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """An aware datetime as microseconds."""
    return (moment - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=16_384)
def instant(value: int) -> datetime:
    """Microseconds as an aware UTC datetime."""
    return _EPOCH + timedelta(microseconds=value)


def micros_or_none(moment: datetime | None) -> int | None:
    """As `micros`, keeping None."""
    return None if moment is None else micros(moment)
