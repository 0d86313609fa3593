"""SVG plots in the colours of the page, without scripts or external references."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from vmemo_bench.report import format_cell

Points = Sequence[tuple[float, float]]

WIDTH = 640
_LABEL = 170
_VALUE = 64
_BAR = 13
_GAP = 12
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 52, 24, 24, 44
_HEIGHT = 280


@dataclass(frozen=True, kw_only=True)
class BarRow:
    """One label of a bar plot with a value per series; None omits the bar."""

    label: str
    values: Sequence[float | None]


def bars(rows: Sequence[BarRow], *, top: float | None = None) -> str:
    """Draw horizontal bars, grouped by label, one colour per series."""
    values = [value for row in rows for value in row.values if value is not None]
    highest = top or max(values, default=0.0) or 1.0
    scale = (WIDTH - _LABEL - _VALUE) / highest
    parts: list[str] = []
    y = 4.0
    for row in rows:
        height = _BAR * len(row.values)
        parts.append(_text(_LABEL - 10, y + height / 2 + 4, row.label, anchor="end"))
        for series, value in enumerate(row.values):
            if value is not None:
                parts.append(_bar(y + series * _BAR, series, min(highest, value) * scale, format_cell(value)))
        y += height + _GAP
    return _svg(y, parts)


def _bar(y: float, series: int, length: float, label: str) -> str:
    """Draw one bar with its label at the end."""
    bar = f'<rect class="s{series}" x="{_LABEL}" y="{y:.1f}" width="{length:.1f}" height="{_BAR - 2}" rx="2"/>'
    return bar + _text(_LABEL + length + 6, y + _BAR - 3, label, css="value")


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Scale and labels of a line plot; `top` is the end of the y axis, by default above the highest point."""

    x_label: str
    log_x: bool = False
    top: float | None = None


def lines(series: Mapping[str, Points], axes: Axes) -> str:
    """Draw one line per series; the ticks of the x axis are the x values of the points."""
    ticks = sorted({x for points in series.values() for x, _ in points})
    if not ticks:
        return ""
    highest = axes.top or max(y for points in series.values() for _, y in points) * 1.1 or 1.0
    to_x = _scale(ticks, log=axes.log_x)
    plot_height = _HEIGHT - _MARGIN_TOP - _MARGIN_BOTTOM

    def to_y(y: float) -> float:
        return _MARGIN_TOP + plot_height * (1 - min(1.0, y / highest))

    parts = [_rule(to_y(highest * step / 4), format_cell(highest * step / 4)) for step in range(5)]
    parts += [_text(to_x(x), _HEIGHT - _MARGIN_BOTTOM + 18, f"{x:,.0f}", anchor="middle") for x in ticks]
    parts.append(_text(WIDTH / 2, _HEIGHT - 6, axes.x_label, anchor="middle"))
    for number, points in enumerate(series.values()):
        # Labels of the first of several lines are below it, so that close lines stay readable.
        offset = 18 if number == 0 and len(series) > 1 else -9
        parts.append(_line(number, [(to_x(x), to_y(y), format_cell(y)) for x, y in points], offset))
    return _svg(_HEIGHT, parts)


def _scale(ticks: Sequence[float], *, log: bool) -> Callable[[float], float]:
    def value(x: float) -> float:
        return math.log10(x) if log else x

    low, high = value(ticks[0]), value(ticks[-1])
    width = WIDTH - _MARGIN_LEFT - _MARGIN_RIGHT - 40
    if high == low:
        return lambda _: _MARGIN_LEFT + 20 + width / 2
    return lambda x: _MARGIN_LEFT + 20 + width * (value(x) - low) / (high - low)


def _line(number: int, points: Sequence[tuple[float, float, str]], offset: float) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    dots = "".join(
        f'<circle class="s{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        + _text(x, y + offset, label, anchor="middle", css="value")
        for x, y, label in points
    )
    return f'<polyline class="l{number}" points="{path}"/>{dots}'


def _rule(y: float, label: str) -> str:
    rule = f'<line class="rule" x1="{_MARGIN_LEFT}" x2="{WIDTH - _MARGIN_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return rule + _text(_MARGIN_LEFT - 8, y + 4, label, anchor="end")


def _text(x: float, y: float, text: str, *, anchor: str = "start", css: str = "label") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'
