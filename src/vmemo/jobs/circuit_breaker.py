"""A circuit breaker for the language model."""

from __future__ import annotations

import time
from dataclasses import dataclass

from vmemo.errors import LLMDenied, LLMUnavailable
from vmemo.models.results import Retained

MAX_CONSECUTIVE_FAILURES = 5
"""Jobs that may fail one after the other because the model is unavailable, before others are held back."""


@dataclass
class CircuitBreaker:
    """Pauses the start of jobs after consecutive failures of the language model."""

    pause_seconds: float
    _failures: int = 0
    _open_until: float = float("-inf")

    def record(self, outcome: Retained | Exception) -> None:
        """Count the outcome of one job."""
        if not isinstance(outcome, LLMUnavailable | LLMDenied):
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= MAX_CONSECUTIVE_FAILURES:
            self._open_until = time.monotonic() + self.pause_seconds
            self._failures = 0

    @property
    def is_open(self) -> bool:
        """True if no job may start now."""
        return time.monotonic() < self._open_until
