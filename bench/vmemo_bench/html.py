"""A report as one HTML page that opens offline: what of it is shown as tiles, plots and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

from vmemo_bench.ablation.page import variants
from vmemo_bench.metrics import TOKENS
from vmemo_bench.pieces import card, cards, page, table
from vmemo_bench.plots import Axes, Row, amount, bars, lines, share
from vmemo_bench.qa.question_table import SCRIPT, STYLE, drill
from vmemo_bench.report import Report, Setting, Table, plain

_TILES = ("recall@10", "evidence@1000", "recall_any@5", "recall_all@10", "ndcg@10", "mrr")
_SPEED_TILES = ("retain_over_embed", "retain_facts_per_second", "bytes_per_fact")
_PAIR = ("recall@10", "evidence@1000")
_QA_TILES = (
    "accuracy_strict",
    "accuracy_lenient",
    "abstention_strict",
    "abstention_lenient",
    "declined",
    "flawed",
    "cited_evidence",
    "judges_agree",
    "context_tokens",
    "answer_tokens",
    "judge_tokens",
    "dollars",
)
_ACCURACY = ("accuracy_strict", "accuracy_lenient")
_TINY = 0.001
"""Below it three digits would show nothing."""


def render(report: Report) -> str:
    """The whole page."""
    body = variants(report) if report.variants else f"{_tiles(report)}\n{cards(_plots(report))}"
    title, subtitle = f"vmemo benchmark {report.benchmark}", _subtitle(report.config)
    if not report.questions:
        return page(title, subtitle, f"{body}\n{_tables(report)}")
    whole = f"{body}\n{drill(report.questions)}\n{_tables(report)}"
    return page(f"{title} (QA)", subtitle, whole, style=STYLE, script=SCRIPT)


def _plots(report: Report) -> list[str]:
    match report.benchmark:
        case "speed":
            return _speed_cards(report)
        case "retain" | "load":
            return []
        case _ if report.questions:
            return _qa_cards(report)
        case _:
            return _retrieval_cards(report)


def _subtitle(config: Mapping[str, Setting]) -> str:
    keys = ("vmemo", "ablation_of", "engine", "embedder", "answerer", "judge", "budget", "questions", "facts")
    return " · ".join(f"{key} {config[key]}" for key in keys if key in config)


def _tiles(report: Report) -> str:
    if report.benchmark in ("retain", "load"):
        return _tiled([(amount(value), name) for name, value in report.metrics.items()])
    if report.questions:
        return _tiled([(_cell(report.metrics[name]), name) for name in _QA_TILES if name in report.metrics])
    speed = report.benchmark == "speed"
    ratios = [f"{name}_p50_over_embed" for name in _paces(report.metrics)]
    wanted = [key for name in (*ratios, *_SPEED_TILES) for key in _keys(report.metrics, name)] if speed else _TILES
    values = [(report.metrics[name], name) for name in wanted if name in report.metrics]
    show = amount if speed else share
    return _tiled([(show(value), name) for value, name in values])


def _tiled(values: Sequence[tuple[str, str]]) -> str:
    tiles = (f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in values)
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _keys(metrics: Mapping[str, float], name: str) -> list[str]:
    """The metric itself, or else the metric at every size."""
    return [name] if name in metrics else [f"{name}@{size:.0f}" for size, _ in _by_size(metrics, name)]


def _qa_cards(report: Report) -> list[str]:
    """Accuracy, and beside it what was recalled where that is known."""
    accuracy = card("Accuracy by category", bars(_by_category(report, _ACCURACY), top=1.0), _ACCURACY)
    # An answer takes so long that beside it no stage of recall would show.
    stages = {stage: times for stage, times in report.timings.items() if stage != "answer"}
    return [accuracy, *(_retrieval_cards(replace(report, timings=stages)) if stages else ())]


def _by_category(report: Report, metrics: Sequence[str]) -> list[Row]:
    groups = {**report.categories, "all": report.metrics}
    return [Row(label=name, values=[found.get(metric) for metric in metrics]) for name, found in groups.items()]


def _retrieval_cards(report: Report) -> list[str]:
    rows = _by_category(report, _PAIR)
    kept = [(float(n), report.metrics[f"evidence@{n}"]) for n in TOKENS if f"evidence@{n}" in report.metrics]
    axes = Axes(x_label="tokens returned", log_x=True, tall=1.0)
    return [
        card("Recall by category", bars(rows, top=1.0), _PAIR),
        card("Evidence inside the first N tokens", lines({"evidence": kept}, axes)),
        card("Milliseconds per stage of recall", _stage_bars(report.timings), ("p50", "p95")),
    ]


def _speed_cards(report: Report) -> list[str]:
    axes = Axes(x_label="facts in the bank", log_x=True, show=amount)
    return [
        *(_ratios(report, name, axes) for name in _paces(report.metrics)),
        card("Peak memory of the process, MB", lines({"MB": _by_size(report.metrics, "rss_mb")}, axes)),
        *(
            _stages_at(report, name, size)
            for name in _paces(report.metrics)
            for size, _ in _by_size(report.metrics, f"{name}_p50_over_embed")
        ),
    ]


def _paces(metrics: Mapping[str, float]) -> list[str]:
    """`recall`, or `recall_low` and the like where several budgets were measured."""
    mark = "_p50_over_embed@"
    return list(dict.fromkeys(key.partition(mark)[0] for key in metrics if mark in key))


def _ratios(report: Report, name: str, axes: Axes) -> str:
    series = {p: _by_size(report.metrics, f"{name}_{p}_over_embed") for p in ("p50", "p95")}
    return card(f"{_spoken(name)} time over the embedder's own time for the query", lines(series, axes), ("p50", "p95"))


def _stages_at(report: Report, name: str, size: float) -> str:
    prefix = f"{name}@{size:.0f}/"
    stages = {key.removeprefix(prefix): t for key, t in report.timings.items() if key.startswith(prefix)}
    return card(
        f"Milliseconds per stage of {_spoken(name).lower()}, {size:,.0f} facts", _stage_bars(stages), ("p50", "p95")
    )


def _spoken(name: str) -> str:
    verb, _, budget = name.partition("_")
    if budget == "scan":
        return f"{verb.capitalize()} (without an index)"
    return f"{verb.capitalize()} (budget {budget})" if budget else verb.capitalize()


def _by_size(metrics: Mapping[str, float], name: str) -> list[tuple[float, float]]:
    sizes = (key.removeprefix(f"{name}@") for key in metrics if key.startswith(f"{name}@"))
    return [(float(size), metrics[f"{name}@{size}"]) for size in sorted(sizes, key=int)]


def _stage_bars(timings: Mapping[str, Mapping[str, float]]) -> str:
    rows = [Row(label=stage, values=[times["p50_ms"], times["p95_ms"]]) for stage, times in timings.items()]
    return bars(rows, show=amount)


def _tables(report: Report) -> str:
    groups = {"all": report.metrics, **report.categories}
    names = sorted(report.metrics, key=_natural)
    metrics = [[name, *(_cell(found.get(name)) for found in groups.values())] for name in names]
    times = [[stage, *map(amount, report.timings[stage].values())] for stage in sorted(report.timings, key=_natural)]
    config = [[name, str(value)] for name, value in sorted(report.config.items())]
    return (
        (table("Metrics", ["metric", *groups], metrics) if metrics else "")
        + "".join(_found(title, rows) for title, rows in report.tables.items() if rows)
        + (table("Timings", ["stage", "p50 ms", "p95 ms"], times) if times else "")
        + table("Configuration", ["setting", "value"], config, kind="words")
    )


def _found(title: str, rows: Table) -> str:
    """A table of the report's own, with words to the left and numbers to the right."""
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    words = any(isinstance(value, str) for cells in rows.values() for value in cells.values())
    body = [[name, *(plain(cells.get(column)) for column in columns)] for name, cells in rows.items()]
    return table(title.capitalize(), ["", *columns], body, kind="words" if words else "numbers")


def _natural(name: str) -> tuple[str, int, str]:
    """Sorts `recall@5` before `recall@10`."""
    stem, _, rest = name.partition("@")
    number, _, stage = rest.partition("/")
    return stem, int(number) if number.isdecimal() else 0, stage


def _cell(value: float | None) -> str:
    if value is not None and 0 < abs(value) < _TINY:
        return f"{value:.2g}"
    return "" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
