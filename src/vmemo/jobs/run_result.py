"""The result of one run of the worker."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from vmemo.models import JobKind
from vmemo.models.results import Retained

PROCESSING_JOBS: tuple[JobKind, ...] = ("process", "extract")
"""Jobs that derive facts from messages."""
MAX_ERRORS = 100
"""Errors that are kept of a run; each of them is also recorded on its job."""


def _errors() -> deque[Exception]:
    return deque(maxlen=MAX_ERRORS)


@dataclass
class RunResult:
    """The number of jobs of a run, their errors and what they retained."""

    keep: bool = True
    """Keep what was retained; a worker that runs indefinitely does not."""
    errors: deque[Exception] = field(default_factory=_errors)
    """The last errors."""
    processing_errors: deque[Exception] = field(default_factory=_errors)
    """The last errors that left messages pending."""
    jobs: int = 0
    failed: int = 0
    _parts: list[Retained] = field(default_factory=list[Retained])

    @property
    def retained(self) -> Retained:
        """Everything that the jobs retained."""
        return Retained.combined(self._parts)

    def add(self, kind: JobKind, outcome: Retained | Exception) -> None:
        """Count the outcome of one job."""
        self.jobs += 1
        if isinstance(outcome, Exception):
            self.failed += 1
            self.errors.append(outcome)
            if kind in PROCESSING_JOBS:
                self.processing_errors.append(outcome)
        elif self.keep:
            self._parts.append(outcome)
