"""Times of the stages of one recall."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter


class Stopwatch:
    """Collects milliseconds by stage. Stages that run side by side overlap, so they may add up to more than all."""

    def __init__(self) -> None:
        self._began = perf_counter()
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Time a block."""
        began = perf_counter()
        try:
            yield
        finally:
            self._stages[name] = self._stages.get(name, 0.0) + (perf_counter() - began) * 1000

    def timings(self) -> dict[str, float]:
        """Milliseconds by stage, and in total since the start."""
        return {**self._stages, "total": (perf_counter() - self._began) * 1000}
