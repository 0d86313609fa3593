"""Small SVG plots as text, drawn with the page's own colours. No scripts, no outside references."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

Points = Sequence[tuple[float, float]]
Show = Callable[[float], str]

WIDTH = 640
_LABEL = 170
_VALUE = 64
_BAR = 13
_GAP = 12
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 52, 24, 24, 44
_HEIGHT = 280


def share(value: float) -> str:
    """A share of one with three digits: `.642`."""
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.3f}"


def amount(value: float) -> str:
    """A number with as many digits as its size deserves."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One label of a bar plot with a value per series; None leaves its bar out."""

    label: str
    values: Sequence[float | None]


def bars(rows: Sequence[Row], *, top: float | None = None, show: Show = share) -> str:
    """Horizontal bars, grouped by label, one colour per series."""
    values = [value for row in rows for value in row.values if value is not None]
    highest = top or max(values, default=0.0) or 1.0
    parts: list[str] = []
    y = 4
    for row in rows:
        height = _BAR * len(row.values)
        parts.append(_text(_LABEL - 10, y + height / 2 + 4, row.label, anchor="end"))
        for place, value in enumerate(row.values):
            if value is not None:
                parts.append(_bar(y + place * _BAR, place, min(1.0, value / highest), show(value)))
        y += height + _GAP
    return _svg(y, parts)


def _bar(y: float, place: int, filled: float, label: str) -> str:
    length = filled * (WIDTH - _LABEL - _VALUE)
    bar = f'<rect class="s{place}" x="{_LABEL}" y="{y:.1f}" width="{length:.1f}" height="{_BAR - 2}" rx="2"/>'
    return bar + _text(_LABEL + length + 6, y + _BAR - 3, label, kind="value")


def differences(rows: Sequence[Row]) -> str:
    """Bars to the left of a middle line for losses and to the right of it for gains, the longest as far as it goes."""
    farthest = max((abs(value) for row in rows for value in row.values if value is not None), default=0.0) or 1.0
    reach = (WIDTH - _LABEL) / 2 - _VALUE
    middle = _LABEL + _VALUE + reach
    parts: list[str] = []
    y = 4
    for row in rows:
        height = _BAR * len(row.values)
        parts.append(_text(_LABEL - 10, y + height / 2 + 4, row.label, anchor="end"))
        for place, value in enumerate(row.values):
            if value is not None:
                parts.append(_swing(y + place * _BAR, place, middle, value / farthest * reach, f"{value:+.3f}"))
        y += height + _GAP
    parts.append(f'<line class="rule" x1="{middle:.1f}" x2="{middle:.1f}" y1="0" y2="{y}"/>')
    return _svg(y, parts)


def _swing(y: float, place: int, middle: float, length: float, label: str) -> str:
    x, width = min(middle, middle + length), abs(length)
    bar = f'<rect class="s{place}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BAR - 2}" rx="2"/>'
    side, anchor = (x - 6, "end") if length < 0 else (x + width + 6, "start")
    return bar + _text(side, y + _BAR - 3, label, anchor=anchor, kind="value")


@dataclass(frozen=True, kw_only=True)
class Axes:
    """How lines are scaled and labelled; `tall` is the top of the y axis, or else the highest point."""

    x_label: str
    log_x: bool = False
    tall: float | None = None
    show: Show = share


def lines(series: Mapping[str, Points], axes: Axes) -> str:
    """One line per series over a shared x axis whose ticks are the points' own x values."""
    across = sorted({x for points in series.values() for x, _ in points})
    if not across:
        return ""
    highest = axes.tall or max(y for points in series.values() for _, y in points) * 1.1 or 1.0
    place_x = _scale(across, log=axes.log_x)
    drawn = _HEIGHT - _MARGIN_TOP - _MARGIN_BOTTOM

    def place_y(y: float) -> float:
        return _MARGIN_TOP + drawn * (1 - min(1.0, y / highest))

    parts = [_rule(place_y(highest * step / 4), axes.show(highest * step / 4)) for step in range(5)]
    parts += [_text(place_x(x), _HEIGHT - _MARGIN_BOTTOM + 18, amount(x), anchor="middle") for x in across]
    parts.append(_text(WIDTH / 2, _HEIGHT - 6, axes.x_label, anchor="middle"))
    for number, points in enumerate(series.values()):
        # Labels of the first of several lines stand below it, so that close lines stay readable.
        lift = 18 if number == 0 and len(series) > 1 else -9
        parts.append(_line(number, [(place_x(x), place_y(y), axes.show(y)) for x, y in points], lift))
    return _svg(_HEIGHT, parts)


def _scale(across: Sequence[float], *, log: bool) -> Callable[[float], float]:
    def grow(x: float) -> float:
        return math.log10(x) if log else x

    low, high = grow(across[0]), grow(across[-1])
    drawn = WIDTH - _MARGIN_LEFT - _MARGIN_RIGHT - 40
    if high == low:
        return lambda _: _MARGIN_LEFT + 20 + drawn / 2
    return lambda x: _MARGIN_LEFT + 20 + drawn * (grow(x) - low) / (high - low)


def _line(number: int, points: Sequence[tuple[float, float, str]], lift: float) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    dots = "".join(
        f'<circle class="s{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        + _text(x, y + lift, label, anchor="middle", kind="value")
        for x, y, label in points
    )
    return f'<polyline class="l{number}" points="{path}"/>{dots}'


def _rule(y: float, label: str) -> str:
    rule = f'<line class="rule" x1="{_MARGIN_LEFT}" x2="{WIDTH - _MARGIN_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return rule + _text(_MARGIN_LEFT - 8, y + 4, label, anchor="end")


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'
