"""Request limits: sizes of bodies and batches, tokens, and requests per minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct

from vmemo.errors import InvalidInput
from vmemo_server.auth.records import LocalRecords, Records


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server or local process, with their defaults."""

    body_bytes: int = 10_000_000
    """Bytes of a request body."""
    import_bytes: int = 2_000_000_000
    """Bytes of an imported file."""
    batch: int = 1_000
    """Messages of one request."""
    max_tokens: int = 100_000
    """Tokens that one recall may return."""
    rate: float = 6_000.0
    """Requests per minute and API key; 0 disables the limit."""
    burst: float = 200.0
    """Requests that an idle API key may send at once."""
    open_rate: float = 0.0
    """Requests per minute of all callers without a key together; 0 disables the limit."""

    def __post_init__(self) -> None:
        if min(self.body_bytes, self.import_bytes, self.batch, self.max_tokens, self.burst) < 1:
            raise InvalidInput("body_bytes, import_bytes, batch, max_tokens and burst must be at least 1.")
        if min(self.rate, self.open_rate) < 0:
            raise InvalidInput("rate and open_rate are requests per minute; 0 disables the limit.")


_BUCKET = Struct("<dd")
"""The tokens of a bucket, and the time of that number."""


@dataclass
class RateLimiter:
    """Token bucket per API key; processes with shared records count together."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    buckets: Records = field(default_factory=LocalRecords)

    def acquire(self, key: str | None) -> float:
        """Take one request from the bucket of a key; return 0, or the seconds to wait if the bucket is empty."""
        per_minute = self.limits.open_rate if key is None else self.limits.rate
        if per_minute <= 0:
            return 0.0
        with self.buckets.locked():
            return self._take(key or "", per_minute / 60)

    def _take(self, key: str, per_second: float) -> float:
        now, found = self.clock(), self.buckets.get(key)
        left, updated_at = (self.limits.burst, now) if found is None else _BUCKET.unpack_from(found)
        left = min(self.limits.burst, left + (now - updated_at) * per_second)
        taken = left >= 1
        self.buckets.put(key, _BUCKET.pack(left - taken, now))
        return 0.0 if taken else (1 - left) / per_second
