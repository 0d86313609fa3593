"""A report as one HTML page that opens offline: inline style, inline plots, escaped text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from vmemo.bench.metrics import TOKENS
from vmemo.bench.plots import Axes, Row, amount, bars, lines, share
from vmemo.bench.report import Report, Setting

_TILES = ("recall@10", "evidence@1000", "recall_any@5", "recall_all@10", "ndcg@10", "mrr")
_SPEED_TILES = ("recall_p50_over_embed", "retain_over_embed", "retain_facts_per_second", "bytes_per_fact")
_PAIR = ("recall@10", "evidence@1000")

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6878; --page: #f4f6f9; --card: #fff;
  --rule: #e1e6ed; --one: #2f6fde; --two: #e0861a; --three: #2c9c6a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebf1; --soft: #98a3b3; --page: #12161c;
  --card: #1b212a; --rule: #2d3643; --one: #6ea3ff; --two: #f2b45c; --three: #63cf9c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 32px 20px 64px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 15px; margin: 0 0 12px; }
p { color: var(--soft); margin: 0 0 24px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 16px;
  margin: 16px 0; }
.tile, .card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 16px; }
.tile b { display: block; font-size: 24px; font-variant-numeric: tabular-nums; }
.tile span { overflow-wrap: anywhere; } .tile span, .key { color: var(--soft); font-size: 13px; }
.key i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 6px 0 14px; }
.wide { overflow-x: auto; margin: 16px 0; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 10px; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
.words td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--soft); }
svg .value { fill: var(--ink); font-size: 11px; } svg .rule { stroke: var(--rule); }
svg polyline { fill: none; stroke-width: 2.5; }
.s0 { fill: var(--one); background: var(--one); } .s1 { fill: var(--two); background: var(--two); }
.s2 { fill: var(--three); background: var(--three); }
.l0 { stroke: var(--one); } .l1 { stroke: var(--two); } .l2 { stroke: var(--three); }
"""


def render(report: Report) -> str:
    """The whole page."""
    name = escape(report.benchmark)
    cards = _speed_cards(report) if report.benchmark == "speed" else _retrieval_cards(report)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>vmemo benchmark {name}</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>vmemo benchmark {name}</h1><p>{escape(_subtitle(report.config))}</p>\n"
        f'{_tiles(report)}\n<div class="cards">{"".join(cards)}</div>\n{_tables(report)}\n</body></html>\n'
    )


def _subtitle(config: Mapping[str, Setting]) -> str:
    keys = ("vmemo", "embedder", "budget", "questions", "facts")
    return " · ".join(f"{key} {config[key]}" for key in keys if key in config)


def _tiles(report: Report) -> str:
    speed = report.benchmark == "speed"
    wanted = [key for name in _SPEED_TILES for key in _keys(report.metrics, name)] if speed else _TILES
    values = [(report.metrics[name], name) for name in wanted if name in report.metrics]
    show = amount if speed else share
    tiles = (f'<div class="tile"><b>{show(value)}</b><span>{escape(name)}</span></div>' for value, name in values)
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _keys(metrics: Mapping[str, float], name: str) -> list[str]:
    """The metric itself, or else the metric at every size."""
    return [name] if name in metrics else [f"{name}@{size:.0f}" for size, _ in _by_size(metrics, name)]


def _retrieval_cards(report: Report) -> list[str]:
    groups = {**report.categories, "all": report.metrics}
    rows = [Row(label=name, values=[found.get(metric) for metric in _PAIR]) for name, found in groups.items()]
    kept = [(float(n), report.metrics[f"evidence@{n}"]) for n in TOKENS if f"evidence@{n}" in report.metrics]
    axes = Axes(x_label="tokens returned", log_x=True, tall=1.0)
    return [
        _card("By category", bars(rows, top=1.0), _PAIR),
        _card("Evidence inside the first N tokens", lines({"evidence": kept}, axes)),
        _card("Milliseconds per stage of recall", _stage_bars(report.timings), ("p50", "p95")),
    ]


def _speed_cards(report: Report) -> list[str]:
    ratios = {p: _by_size(report.metrics, f"recall_{p}_over_embed") for p in ("p50", "p95")}
    axes = Axes(x_label="facts in the bank", log_x=True, show=amount)
    return [
        _card("Recall time over the embedder's own time for the query", lines(ratios, axes), ("p50", "p95")),
        _card("Peak memory of the process, MB", lines({"MB": _by_size(report.metrics, "rss_mb")}, axes)),
        *(_stages_at(report, size) for size, _ in ratios["p50"]),
    ]


def _stages_at(report: Report, size: float) -> str:
    prefix = f"recall@{size:.0f}/"
    stages = {name.removeprefix(prefix): t for name, t in report.timings.items() if name.startswith(prefix)}
    return _card(f"Milliseconds per stage of recall, {size:,.0f} facts", _stage_bars(stages), ("p50", "p95"))


def _by_size(metrics: Mapping[str, float], name: str) -> list[tuple[float, float]]:
    sizes = (key.removeprefix(f"{name}@") for key in metrics if key.startswith(f"{name}@"))
    return [(float(size), metrics[f"{name}@{size}"]) for size in sorted(sizes, key=int)]


def _stage_bars(timings: Mapping[str, Mapping[str, float]]) -> str:
    rows = [Row(label=stage, values=[times["p50_ms"], times["p95_ms"]]) for stage, times in timings.items()]
    return bars(rows, show=amount)


def _card(title: str, plot: str, series: Sequence[str] = ()) -> str:
    key = "".join(f'<i class="s{number}"></i>{escape(name)}' for number, name in enumerate(series))
    legend = f'<div class="key">{key}</div>' if key else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{plot}{legend}</section>'


def _tables(report: Report) -> str:
    groups = {"all": report.metrics, **report.categories}
    names = sorted(report.metrics, key=_natural)
    metrics = [[name, *(_cell(found.get(name)) for found in groups.values())] for name in names]
    times = [[stage, *map(amount, report.timings[stage].values())] for stage in sorted(report.timings, key=_natural)]
    config = [[name, str(value)] for name, value in sorted(report.config.items())]
    return (
        _table("Metrics", ["metric", *groups], metrics)
        + _table("Timings", ["stage", "p50 ms", "p95 ms"], times)
        + _table("Configuration", ["setting", "value"], config, kind="words")
    )


def _natural(name: str) -> tuple[str, int, str]:
    """Sorts `recall@5` before `recall@10`."""
    stem, _, rest = name.partition("@")
    number, _, stage = rest.partition("/")
    return stem, int(number) if number.isdecimal() else 0, stage


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, kind: str = "numbers") -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<section class="card wide"><h2>{escape(title)}</h2>'
        f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></section>'
    )
