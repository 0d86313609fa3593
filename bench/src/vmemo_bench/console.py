"""A report on the terminal: compact tables, and progress bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.progress import Progress as RichProgress, TaskID
from rich.table import Table

from vmemo.cli.output import one_line, table
from vmemo_bench.progress import Progress
from vmemo_bench.report import Report, format_cell

_RETRIEVAL = ("recall@10", "evidence@1000", "recall_any@5", "recall_all@10", "ndcg@10", "mrr")
_QA = ("score", "accuracy_strict", "accuracy_lenient", "declined", "flawed", "cited_evidence", "recall@10")
"""Metrics in the table of categories; the JSON has all of them."""


class ProgressBars:
    """A progress sink that draws one bar per part of a run."""

    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, progress: Progress, /) -> None:
        if progress.part not in self._tasks:
            self._tasks[progress.part] = self._bars.add_task(progress.part, total=progress.total)
        self._bars.update(self._tasks[progress.part], completed=progress.done, total=progress.total)


def tables_of(report: Report) -> Iterator[Table]:
    """Yield the tables of a report: metrics, categories and timings, then its own."""
    if report.metrics:
        yield _metrics(report)
    if report.categories:
        yield _categories(report.categories, _QA if report.questions else _RETRIEVAL)
    if report.timings:
        yield _timings(report.timings)
    yield from _report_tables(report)


def _metrics(report: Report) -> Table:
    """Return all metrics in two columns of names and values."""
    made = table("metric", "value>", "metric", "value>", title=report.benchmark)
    rows = [(name, format_cell(report.metrics[name])) for name in sorted(report.metrics, key=_by_number)]
    half = (len(rows) + 1) // 2
    for left, right in zip(rows[:half], [*rows[half:], ("", "")], strict=False):
        made.add_row(*left, *right)
    return made


def _by_number(metric: str) -> tuple[str, int]:
    name, _, size = metric.partition("@")
    return name, int(size) if size.isdecimal() else 0


def _categories(categories: Mapping[str, Mapping[str, float]], wanted: Sequence[str]) -> Table:
    shown = [name for name in wanted if any(name in metrics for metrics in categories.values())]
    made = table("category", *(f"{name}>" for name in shown))
    for name, metrics in categories.items():
        values = [f"{metrics[metric]:.3f}" if metric in metrics else "" for metric in shown]
        made.add_row(one_line(name), *values)
    return made


def _timings(timings: Mapping[str, Mapping[str, float]]) -> Table:
    made = table("stage", "p50 ms>", "p95 ms>", "p99 ms>")
    for stage, times in timings.items():
        made.add_row(stage, *(f"{times.get(name, 0):.2f}" for name in ("p50_ms", "p95_ms", "p99_ms")))
    return made


def _report_tables(report: Report) -> Iterator[Table]:
    for title, rows in report.tables.items():
        if not rows:
            continue
        columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
        texts = {column for column in columns if any(isinstance(cells.get(column), str) for cells in rows.values())}
        made = table("", *(column if column in texts else f"{column}>" for column in columns), title=title)
        for name, cells in rows.items():
            made.add_row(name, *(one_line(format_cell(cells.get(column))) for column in columns))
        yield made
