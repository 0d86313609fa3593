"""Progress of a run: named parts, each counted in steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of one named part of a run."""

    part: str
    done: int
    total: int


class ProgressSink(Protocol):
    """Receives a `Progress` after every step; the command line draws a bar from it."""

    def __call__(self, progress: Progress, /) -> None: ...


def silent(progress: Progress, /) -> None:
    """Ignore progress."""


class StepCounter:
    """Counts the steps of one part of a run and reports them to a sink."""

    def __init__(self, sink: ProgressSink, part: str, total: int) -> None:
        self._sink = sink
        self._part = part
        self._total = total
        self._done = 0
        self.advance(0)

    def advance(self, steps: int = 1) -> None:
        """Report that many more steps as done."""
        self._done += steps
        self._sink(Progress(part=self._part, done=self._done, total=self._total))
