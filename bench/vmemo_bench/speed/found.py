"""What one part of the speed benchmark has found."""

from __future__ import annotations

from dataclasses import dataclass, field

from vmemo_bench.metrics import Metrics
from vmemo_bench.report import Table
from vmemo_bench.speed.recalls import Timings


@dataclass(frozen=True, kw_only=True)
class Found:
    """Metrics, milliseconds and tables, each by name."""

    metrics: Metrics = field(default_factory=dict[str, float])
    timings: Timings = field(default_factory=dict[str, dict[str, float]])
    tables: dict[str, Table] = field(default_factory=dict[str, Table])

    def __or__(self, other: Found) -> Found:
        """Both together."""
        return Found(
            metrics=self.metrics | other.metrics,
            timings=self.timings | other.timings,
            tables=self.tables | other.tables,
        )
