"""The report of a run and its JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from vmemo_bench.options import BenchmarkName
from vmemo_bench.qa.records import JudgedQuestion

Setting = str | int | float | bool | None
Table = Mapping[str, Mapping[str, Setting]]
"""Rows by name, each with its values by column."""
_TINY, _SMALL, _LARGE = 0.001, 10, 1000


def format_cell(value: Setting) -> str:
    """Format a value: numbers below ten with three decimals, large ones without, and tiny ones with two digits."""
    if isinstance(value, float):
        size = abs(value)
        digits = ".2g" if 0 < size < _TINY else ".3f" if size < _SMALL else ",.1f" if size < _LARGE else ",.0f"
        return f"{value:{digits}}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else value


@dataclass(frozen=True, kw_only=True)
class Report:
    """Metrics over all questions and per category, milliseconds per stage, and the configuration of the run."""

    benchmark: BenchmarkName
    metrics: Mapping[str, float]
    categories: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    timings: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    config: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    tables: Mapping[str, Table] = field(default_factory=dict[str, Table])
    """Further results, by title."""
    questions: tuple[JudgedQuestion, ...] = ()
    """In QA mode, every question with its answer, the verdicts and the recalled facts."""

    def to_json(self) -> str:
        """Return the report as JSON with sorted keys."""
        body: dict[str, object] = {
            "benchmark": self.benchmark,
            "metrics": dict(self.metrics),
            "categories": {name: dict(metrics) for name, metrics in self.categories.items()},
            "timings": {stage: dict(times) for stage, times in self.timings.items()},
            "config": dict(self.config),
        }
        if self.tables:
            body["tables"] = {title: {row: dict(cells) for row, cells in t.items()} for title, t in self.tables.items()}
        if self.questions:
            body["questions"] = [question.model_dump(mode="json") for question in self.questions]
        return json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
