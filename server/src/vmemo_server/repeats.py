"""A limit of equal log lines: some per minute are written, and the number of the others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

LINES_PER_MINUTE = 60
_MINUTE = 60.0
_MAX_DIFFERENT = 1_000
"""Different lines that are counted in a minute; all others count as one."""


@dataclass
class RepeatLimit:
    """Counts equal log lines of the current minute."""

    lines: int = LINES_PER_MINUTE
    clock: Callable[[], float] = time.monotonic
    _counts: Counter[str] = field(default_factory=Counter[str])
    _began: float = float("-inf")

    def admit(self, line: str) -> bool:
        """Count a line; return False if it was written often enough."""
        counted = line if line in self._counts or len(self._counts) < _MAX_DIFFERENT else "other lines"
        self._counts[counted] += 1
        return self._counts[counted] <= self.lines

    def suppressed(self, *, now: bool = False) -> dict[str, int]:
        """Return the lines that were not written, with their number, and count again from zero.

        Return nothing before the minute is over, unless `now` is set.
        """
        if not now and self.clock() - self._began < _MINUTE:
            return {}
        found = {line: count - self.lines for line, count in self._counts.items() if count > self.lines}
        self._counts.clear()
        self._began = self.clock()
        return found
