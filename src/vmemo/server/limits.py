"""How much a door lets through: the size of bodies and batches, and requests per minute of each guest."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from vmemo.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Each limit with its default, stated here and nowhere else."""

    body_bytes: int = 10_000_000
    """Bytes that the body of a request may have."""
    import_bytes: int = 2_000_000_000
    """Bytes that an imported file may have."""
    batch: int = 1_000
    """Messages of one request."""
    max_tokens: int = 100_000
    """Tokens that one recall may return."""
    rate: float = 6_000.0
    """Requests per minute of one key; 0 sets no limit."""
    burst: float = 200.0
    """Requests that a key which was quiet may make at once."""
    open_rate: float = 0.0
    """Requests per minute where no key is asked for, all guests together; 0 sets no limit."""

    def __post_init__(self) -> None:
        if min(self.body_bytes, self.import_bytes, self.batch, self.max_tokens, self.burst) < 1:
            raise InvalidInput("Sizes, batches and bursts must allow at least one.")
        if min(self.rate, self.open_rate) < 0:
            raise InvalidInput("A rate is a number of requests per minute, or 0 for no limit.")


@dataclass
class _Bucket:
    left: float
    at: float


@dataclass
class Rates:
    """A bucket of requests for each guest, filled evenly. Each process of a server has its own buckets."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, _Bucket] = field(default_factory=dict[str, _Bucket])

    def wait(self, guest: str | None) -> float:
        """Take one request out of a guest's bucket; the seconds to wait first, or 0 if it may pass."""
        rate = self.limits.open_rate if guest is None else self.limits.rate
        if rate <= 0:
            return 0.0
        now, pace = self.clock(), rate / 60
        bucket = self._buckets.setdefault(guest or "", _Bucket(self.limits.burst, now))
        bucket.left = min(self.limits.burst, bucket.left + (now - bucket.at) * pace)
        bucket.at = now
        if bucket.left < 1:
            return (1 - bucket.left) / pace
        bucket.left -= 1
        return 0.0
