"""What a run found, in one flat and stable form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from vmemo_bench.options import BenchmarkName
from vmemo_bench.qa.records import Examined

Setting = str | int | float | bool | None
Table = Mapping[str, Mapping[str, Setting]]
"""Rows by name, and in each the values by column."""


_TINY = 0.01


def plain(value: Setting) -> str:
    """A table's value as it is shown: large numbers whole, small ones with two digits."""
    if isinstance(value, float):
        if 0 < abs(value) < _TINY:
            return f"{value:.2g}"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else value


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Metrics over all questions and per category."""

    metrics: Mapping[str, float]
    categories: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])

    @property
    def groups(self) -> dict[str, Mapping[str, float]]:
        """All questions, then each category."""
        return {"all": self.metrics, **self.categories}

    def less(self, other: Outcome) -> Outcome:
        """By how much each metric is above the other's."""
        categories = {name: _less(self.categories[name], other.categories.get(name, {})) for name in self.categories}
        return Outcome(metrics=_less(self.metrics, other.metrics), categories=categories)


def _less(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one[name] - other[name] for name in one if name in other}


@dataclass(frozen=True, kw_only=True)
class Report:
    """Metrics over all questions and per category, milliseconds per stage, and what was run."""

    benchmark: BenchmarkName
    metrics: Mapping[str, float]
    categories: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    timings: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    config: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    variants: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])
    """What an ablation's variants scored, `full` first; empty for every other benchmark."""
    tables: Mapping[str, Table] = field(default_factory=dict[str, Table])
    """What else was found, each under its title."""
    questions: tuple[Examined, ...] = ()
    """In QA mode every question with its answer, the verdicts on it, and what was recalled."""

    def to_json(self) -> str:
        """The report as JSON with sorted keys."""
        body: dict[str, object] = {
            "benchmark": self.benchmark,
            "metrics": dict(self.metrics),
            "categories": {name: dict(metrics) for name, metrics in self.categories.items()},
            "timings": {stage: dict(times) for stage, times in self.timings.items()},
            "config": dict(self.config),
        }
        if self.tables:
            body["tables"] = {title: {row: dict(cells) for row, cells in t.items()} for title, t in self.tables.items()}
        if self.variants:
            body["variants"] = {name: self._variant(outcome) for name, outcome in self.variants.items()}
        if self.questions:
            body["questions"] = [question.model_dump(mode="json") for question in self.questions]
        return json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def full(self) -> Outcome:
        """What an ablation's variants are compared with."""
        return next(iter(self.variants.values()))

    def _variant(self, outcome: Outcome) -> dict[str, object]:
        change = outcome.less(self.full)
        return {
            "metrics": dict(outcome.metrics),
            "categories": {name: dict(metrics) for name, metrics in outcome.categories.items()},
            "difference": {
                "metrics": dict(change.metrics),
                "categories": {name: dict(metrics) for name, metrics in change.categories.items()},
            },
        }
