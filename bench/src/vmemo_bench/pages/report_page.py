"""A report as one HTML page that works offline: tiles, plots and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vmemo_bench.pages.html import asset, card, cards, page, table, tiles
from vmemo_bench.pages.plots import Axes, BarRow, bars, lines
from vmemo_bench.pages.question_list import question_list
from vmemo_bench.report import Report, Setting, Table, format_cell
from vmemo_bench.statistics import TOKENS

_RETRIEVAL_TILES = ("recall@10", "evidence@1000", "recall_any@5", "recall_all@10", "ndcg@10", "mrr")
_SPEED_TILES = ("retain_over_embed", "retain_facts_per_second", "bytes_per_fact")
_QA_TILES = (
    *("score", "all_met"),
    *("accuracy_strict", "accuracy_lenient", "abstention_strict", "abstention_lenient", "declined", "flawed"),
    *("cited_evidence", "judges_agree", "context_tokens", "answer_tokens", "judge_tokens", "dollars"),
)
_SUBTITLE = ("vmemo", "ablation_of", "engine", "embedder", "answerer", "judge", "budget", "questions", "facts")
_RETRIEVAL_BARS = ("recall@10", "evidence@1000")
_QA_BARS = ("accuracy_strict", "accuracy_lenient")
_RUBRIC_BARS = ("score", "all_met")


def render(report: Report) -> str:
    body = f"{tiles(_tiles(report))}\n{cards(_plots(report))}"
    title = f"vmemo benchmark {report.benchmark}"
    subtitle = " · ".join(f"{key} {report.config[key]}" for key in _SUBTITLE if key in report.config)
    if not report.questions:
        return page(title, subtitle, f"{body}\n{_tables(report)}")
    body = f"{body}\n{question_list(report.questions)}\n{_tables(report)}"
    return page(f"{title} (QA)", subtitle, body, style=asset("questions.css"), script=asset("questions.js"))


def _tiles(report: Report) -> list[tuple[str, str]]:
    """Return the formatted value and the name of each tile."""
    metrics = report.metrics
    if report.questions:
        names = _QA_TILES
    elif report.benchmark == "speed":
        ratios = [f"{name}_p50_over_embed" for name in _recall_names(metrics)]
        names = [key for name in (*ratios, *_SPEED_TILES) for key in _keys(metrics, name)]
    else:
        names = _RETRIEVAL_TILES if _RETRIEVAL_TILES[0] in metrics else metrics
    return [(format_cell(metrics[name]), name) for name in names if name in metrics]


def _keys(metrics: Mapping[str, float], name: str) -> list[str]:
    """Return the metric itself, or the metric at every size."""
    return [name] if name in metrics else [f"{name}@{size:.0f}" for size, _ in _by_size(metrics, name)]


def _plots(report: Report) -> list[str]:
    if report.benchmark == "speed":
        return _speed_cards(report)
    if report.questions:
        return _qa_cards(report)
    return _retrieval_cards(report) if _RETRIEVAL_TILES[0] in report.metrics else []


def _qa_cards(report: Report) -> list[str]:
    """Plot the accuracy, and the recalled facts where they are known."""
    shown = _RUBRIC_BARS if "score" in report.metrics else _QA_BARS
    accuracy = card("Accuracy by category", bars(_by_category(report, shown), top=1.0), shown)
    # An answer takes so long that no stage of recall would be visible next to it.
    stages = {stage: times for stage, times in report.timings.items() if stage != "answer"}
    return [accuracy, *(_retrieval_cards(replace(report, timings=stages)) if stages else ())]


def _by_category(report: Report, metrics: Sequence[str]) -> list[BarRow]:
    groups = {**report.categories, "all": report.metrics}
    return [BarRow(label=name, values=[scores.get(metric) for metric in metrics]) for name, scores in groups.items()]


def _retrieval_cards(report: Report) -> list[str]:
    evidence = [(float(n), report.metrics[f"evidence@{n}"]) for n in TOKENS if f"evidence@{n}" in report.metrics]
    axes = Axes(x_label="tokens returned", log_x=True, top=1.0)
    return [
        card("Recall by category", bars(_by_category(report, _RETRIEVAL_BARS), top=1.0), _RETRIEVAL_BARS),
        card("Evidence within the first N tokens", lines({"evidence": evidence}, axes)),
        card("Milliseconds per stage of recall", _stage_bars(report.timings), ("p50", "p95")),
    ]


def _speed_cards(report: Report) -> list[str]:
    axes = Axes(x_label="facts in the bank", log_x=True)
    names = _recall_names(report.metrics)
    return [
        *(_ratio_card(report, name, axes) for name in names),
        card("Peak memory of the process, MB", lines({"MB": _by_size(report.metrics, "rss_mb")}, axes)),
        *(
            _stage_card(report, name, size)
            for name in names
            for size, _ in _by_size(report.metrics, f"{name}_p50_over_embed")
        ),
    ]


def _recall_names(metrics: Mapping[str, float]) -> list[str]:
    """Return `recall`, or names such as `recall_low` if several budgets were measured."""
    suffix = "_p50_over_embed@"
    return list(dict.fromkeys(key.partition(suffix)[0] for key in metrics if suffix in key))


def _ratio_card(report: Report, name: str, axes: Axes) -> str:
    series = {p: _by_size(report.metrics, f"{name}_{p}_over_embed") for p in ("p50", "p95")}
    title = f"{_title(name)} time over the embedder's own time for the query"
    return card(title, lines(series, axes), ("p50", "p95"))


def _stage_card(report: Report, name: str, size: float) -> str:
    prefix = f"{name}@{size:.0f}/"
    stages = {key.removeprefix(prefix): times for key, times in report.timings.items() if key.startswith(prefix)}
    title = f"Milliseconds per stage of {_title(name).lower()}, {size:,.0f} facts"
    return card(title, _stage_bars(stages), ("p50", "p95"))


def _title(name: str) -> str:
    verb, _, budget = name.partition("_")
    if budget == "scan":
        return f"{verb.capitalize()} (without an index)"
    return f"{verb.capitalize()} (budget {budget})" if budget else verb.capitalize()


def _by_size(metrics: Mapping[str, float], name: str) -> list[tuple[float, float]]:
    sizes = (key.removeprefix(f"{name}@") for key in metrics if key.startswith(f"{name}@"))
    return [(float(size), metrics[f"{name}@{size}"]) for size in sorted(sizes, key=int)]


def _stage_bars(timings: Mapping[str, Mapping[str, float]]) -> str:
    rows = [BarRow(label=stage, values=[times["p50_ms"], times["p95_ms"]]) for stage, times in timings.items()]
    return bars(rows)


def _tables(report: Report) -> str:
    groups = {"all": report.metrics, **report.categories}
    names = sorted(report.metrics, key=_natural)
    metrics = [[name, *(format_cell(scores.get(name)) for scores in groups.values())] for name in names]
    stages = sorted(report.timings, key=_natural)
    times = [[stage, *map(format_cell, report.timings[stage].values())] for stage in stages]
    config = [[name, str(value)] for name, value in sorted(report.config.items())]
    return (
        (table("Metrics", ["metric", *groups], metrics) if metrics else "")
        + "".join(_report_table(title, rows) for title, rows in report.tables.items() if rows)
        + (table("Timings", ["stage", "p50 ms", "p95 ms"], times) if times else "")
        + table("Configuration", ["setting", "value"], config, css="words")
    )


def _report_table(title: str, rows: Table) -> str:
    """Return a table of the report; text is aligned to the left, numbers to the right."""
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    body = [[name, *(format_cell(cells.get(column)) for column in columns)] for name, cells in rows.items()]
    css = "words" if any(_is_text(value) for cells in rows.values() for value in cells.values()) else "numbers"
    return table(title.capitalize(), ["", *columns], body, css=css)


def _is_text(value: Setting) -> bool:
    return isinstance(value, str)


def _natural(name: str) -> tuple[str, int, str]:
    """Return a sort key that puts `recall@5` before `recall@10`."""
    stem, _, rest = name.partition("@")
    number, _, stage = rest.partition("/")
    return stem, int(number) if number.isdecimal() else 0, stage
