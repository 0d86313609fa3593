"""What a run of the worker comes to, and when it had better rest."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from vmemo.errors import LLMDenied, LLMUnavailable
from vmemo.models import JobKind
from vmemo.models.results import Retained
from vmemo.retain.pipeline import combine

READING: tuple[JobKind, ...] = ("process", "extract")
"""Work without which something said is not yet known."""
MOST_ERRORS = 100
"""Errors that are kept of a run; each of them is also noted on its job."""
IN_A_ROW = 5
"""Jobs that may fail one after the other because the model is not there, before the rest is spared the try."""


@dataclass
class RunResult:
    """What a run of the worker came to: what was retained, what went wrong, and how many pieces of work there were.

    `unread` are those errors because of which something said is not yet known; of both the last ones are kept, and
    `failed` counts them all. A worker that runs on and on does not `keep` what it retained.
    """

    keep: bool = True
    errors: deque[Exception] = field(default_factory=lambda: deque[Exception](maxlen=MOST_ERRORS))
    unread: deque[Exception] = field(default_factory=lambda: deque[Exception](maxlen=MOST_ERRORS))
    jobs: int = 0
    failed: int = 0
    _parts: list[Retained] = field(default_factory=list[Retained])

    @property
    def retained(self) -> Retained:
        """All that was retained."""
        return combine(*self._parts)

    def add(self, kind: JobKind, done: Retained | Exception) -> None:
        """Count the end of one piece of work."""
        self.jobs += 1
        if isinstance(done, Exception):
            self.failed += 1
            self.errors.append(done)
            if kind in READING:
                self.unread.append(done)
        elif self.keep:
            self._parts.append(done)


@dataclass
class CircuitBreaker:
    """Leaves a model alone that has failed several times in a row: a thousand jobs need not each find it gone."""

    rest: float
    """Seconds for which nothing is tried then."""
    _failures: int = 0
    _until: float = float("-inf")

    def add(self, done: Retained | Exception) -> None:
        """Take note of the end of one piece of work."""
        if isinstance(done, LLMUnavailable | LLMDenied):
            self._failures += 1
            if self._failures >= IN_A_ROW:
                self._until = time.monotonic() + self.rest
                self._failures = 0
        else:
            self._failures = 0

    @property
    def resting(self) -> bool:
        """Whether the model is to be left alone now."""
        return time.monotonic() < self._until
