"""A benchmark's report as compact tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from vmemo.cli.output import one_line, table
from vmemo_bench import Report
from vmemo_bench.plots import amount

_COMPACT = ("recall@10", "evidence@1000", "recall_any@5", "recall_all@10", "ndcg@10", "mrr")
_COMPACT_QA = ("accuracy_strict", "accuracy_lenient", "declined", "flawed", "cited_evidence", "recall@10")
"""What the table of categories shows of each; the whole is in the JSON."""
_SMALL, _LARGE = 0.001, 100.0
_SEEN = 0.0005
"""A difference that shows in three digits."""


def tables(report: Report) -> Iterator[Table]:
    """Metrics, categories and timings, each where there are any; of an ablation what its variants change."""
    if report.variants:
        yield _variants(report, f"ablation of {report.config.get('ablation_of')}")
        yield _variants_by_category(report)
        return
    if report.metrics:
        yield _metrics(report)
    if report.categories:
        yield _categories(report.categories, _COMPACT_QA if report.questions else _COMPACT)
    if report.timings:
        yield _timings(report.timings)


def _variants(report: Report, title: str) -> Table:
    """The whole's scores, and under them what each variant adds or takes."""
    made = _by_variant(report.full.metrics, title)
    made.add_row("full", *(f"{value:.3f}" for value in report.full.metrics.values()))
    for name, outcome in report.variants.items():
        if name != "full":
            made.add_row(name, *map(_change, outcome.less(report.full).metrics.values()))
    return made


def _variants_by_category(report: Report) -> Table:
    """The same of the first metric, a column per category."""
    metric = next(iter(report.full.metrics), "")
    categories = report.full.categories
    made = _by_variant(map(one_line, categories), f"{metric} by category")
    made.add_row("full", *(f"{categories[name].get(metric, 0.0):.3f}" for name in categories))
    for name, outcome in report.variants.items():
        if name != "full":
            change = outcome.less(report.full).categories
            made.add_row(name, *(_change(change[category].get(metric, 0.0)) for category in categories))
    return made


def _by_variant(columns: Iterable[str], title: str) -> Table:
    made = table("variant", *(f"{name}>" for name in columns), title=title)
    made.columns[0].no_wrap = True
    return made


def _change(value: float) -> Text:
    if abs(value) < _SEEN:
        return Text("·", style="dim")
    return Text(f"{value:+.3f}", style="green" if value > 0 else "red")


def _metrics(report: Report) -> Table:
    """All metrics in two columns of names and values."""
    made = table("metric", "value>", "metric", "value>", title=report.benchmark)
    named = [(name, _value(report.metrics[name])) for name in sorted(report.metrics, key=_by_number)]
    half = (len(named) + 1) // 2
    for left, right in zip(named[:half], [*named[half:], ("", "")], strict=False):
        made.add_row(*left, *right)
    return made


def _value(value: float) -> str:
    """Shares with three digits, amounts as they deserve."""
    return f"{value:.3f}" if value == 0 or _SMALL <= abs(value) < _LARGE else amount(value)


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
    made = table("stage", "p50 ms>", "p95 ms>")
    for stage, times in timings.items():
        made.add_row(stage, f"{times.get('p50_ms', 0):.2f}", f"{times.get('p95_ms', 0):.2f}")
    return made
