"""What a run found, in one flat and stable form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from vmemo.bench.options import BenchmarkName

Setting = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """Metrics over all questions and per category, milliseconds per stage, and what was run."""

    benchmark: BenchmarkName
    metrics: Mapping[str, float]
    categories: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    timings: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    config: Mapping[str, Setting] = field(default_factory=dict[str, Setting])

    def to_json(self) -> str:
        """The report as JSON with sorted keys."""
        body = {
            "benchmark": self.benchmark,
            "metrics": dict(self.metrics),
            "categories": {name: dict(metrics) for name, metrics in self.categories.items()},
            "timings": {stage: dict(times) for stage, times in self.timings.items()},
            "config": dict(self.config),
        }
        return json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
