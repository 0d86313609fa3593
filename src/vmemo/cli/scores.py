"""A benchmark's report as compact tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.table import Table

from vmemo.bench import Report
from vmemo.cli.output import clipped, table

_COMPACT = ("recall@10", "evidence@1000", "recall_any@5", "recall_all@10", "ndcg@10", "mrr")
"""What the table of categories shows of each; the whole is in the JSON."""


def tables(report: Report) -> Iterator[Table]:
    """Metrics, categories and timings, each where there are any."""
    if report.metrics:
        yield _metrics(report)
    if report.categories:
        yield _categories(report.categories)
    if report.timings:
        yield _timings(report.timings)


def _metrics(report: Report) -> Table:
    """All metrics in two columns of names and values."""
    made = table("metric", "value>", "metric", "value>", title=report.benchmark)
    named = [(name, f"{report.metrics[name]:.3f}") for name in sorted(report.metrics, key=_by_number)]
    half = (len(named) + 1) // 2
    for left, right in zip(named[:half], [*named[half:], ("", "")], strict=False):
        made.add_row(*left, *right)
    return made


def _by_number(metric: str) -> tuple[str, int]:
    name, _, size = metric.partition("@")
    return name, int(size) if size.isdecimal() else 0


def _categories(categories: Mapping[str, Mapping[str, float]]) -> Table:
    shown = [name for name in _COMPACT if any(name in metrics for metrics in categories.values())]
    made = table("category", *(f"{name}>" for name in shown))
    for name, metrics in categories.items():
        values = [f"{metrics[metric]:.3f}" if metric in metrics else "" for metric in shown]
        made.add_row(clipped(name), *values)
    return made


def _timings(timings: Mapping[str, Mapping[str, float]]) -> Table:
    made = table("stage", "p50 ms>", "p95 ms>")
    for stage, times in timings.items():
        made.add_row(stage, f"{times.get('p50_ms', 0):.2f}", f"{times.get('p95_ms', 0):.2f}")
    return made
