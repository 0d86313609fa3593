"""Measured durations of the stages of one operation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class StageTimer:
    """Milliseconds by stage. Stages that run concurrently overlap, so their sum may exceed the total."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Add the duration of a block to a stage."""
        started = perf_counter()
        try:
            yield
        finally:
            self.add({name: (perf_counter() - started) * 1000})

    def run(self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function and add its duration to a stage."""
        started = perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            self.add({name: (perf_counter() - started) * 1000})

    def add(self, stages: Mapping[str, float]) -> None:
        """Add milliseconds to stages."""
        for name, milliseconds in stages.items():
            self._stages[name] = self._stages.get(name, 0.0) + milliseconds

    @property
    def stages(self) -> dict[str, float]:
        """Milliseconds by stage."""
        return dict(self._stages)

    @property
    def timings(self) -> dict[str, float]:
        """Milliseconds by stage, and in total since the timer was made."""
        return {**self._stages, "total": (perf_counter() - self._started) * 1000}
