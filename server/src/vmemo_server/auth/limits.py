"""Request limits: sizes of bodies and batches, tokens, and requests per minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vmemo.errors import InvalidInput


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


@dataclass
class RateLimiter:
    """Token bucket per API key, in this process."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str | None, tuple[float, float]] = field(
        default_factory=dict[str | None, tuple[float, float]], init=False, repr=False
    )
    """The tokens of each bucket, and the time of that number."""

    def acquire(self, key: str | None) -> float:
        """Take one request from the bucket of a key; return 0, or the seconds to wait if the bucket is empty."""
        per_second = (self.limits.open_rate if key is None else self.limits.rate) / 60
        if per_second <= 0:
            return 0.0
        now = self.clock()
        left, updated_at = self._buckets.get(key, (self.limits.burst, now))
        left = min(self.limits.burst, left + (now - updated_at) * per_second)
        taken = left >= 1
        self._buckets[key] = (left - taken, now)
        return 0.0 if taken else (1 - left) / per_second
