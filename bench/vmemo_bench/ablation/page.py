"""An ablation on a page: what each variant changed, plotted and in tables."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo_bench.pieces import Cell, card, cards, table
from vmemo_bench.plots import Row, bars, differences
from vmemo_bench.report import Outcome, Report

_PLOTTED = ("recall@10", "recall_all@10", "evidence@1000")
_SEEN = 0.0005
"""A difference that shows in three digits."""


def variants(report: Report) -> str:
    """A plot of the differences to the whole, one table over all questions, and one per metric by category."""
    metrics = tuple(report.full.metrics)
    overall = [[name, *(_cell(report, name, "all", metric) for metric in metrics)] for name in report.variants]
    groups = tuple(report.full.groups)
    tables = [table("Every variant, and its difference to the whole", ["variant", *metrics], overall)]
    for metric in metrics:
        rows = [[name, *(_cell(report, name, group, metric) for group in groups)] for name in report.variants]
        tables.append(table(f"{metric} by category", ["variant", *groups], rows))
    return cards(_plots(report)) + "".join(tables)


def _plots(report: Report) -> list[str]:
    metrics = [metric for metric in _PLOTTED if metric in report.full.metrics]

    def rows(outcomes: Mapping[str, Outcome]) -> list[Row]:
        return [Row(label=name, values=[o.metrics.get(metric) for metric in metrics]) for name, o in outcomes.items()]

    changes = {name: outcome.less(report.full) for name, outcome in report.variants.items() if name != "full"}
    return [
        card("What changes when a part is left out", differences(rows(changes)), metrics),
        card("Every variant", bars(rows(report.variants), top=1.0), metrics),
    ]


def _cell(report: Report, name: str, group: str, metric: str) -> str | Cell:
    outcome = report.variants[name]
    value = outcome.groups.get(group, {}).get(metric)
    if value is None:
        return ""
    change = outcome.less(report.full).groups[group].get(metric, 0.0)
    if abs(change) < _SEEN:
        return f"{value:.3f}"
    return Cell(f"{value:.3f} {change:+.3f}", "up" if change > 0 else "down")
