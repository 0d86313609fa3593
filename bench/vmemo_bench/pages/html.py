"""Building blocks of a page: style, tiles, cards with plots, and tables. All text is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6878; --page: #f4f6f9; --card: #fff;
  --rule: #e1e6ed; --one: #2f6fde; --two: #e0861a; --three: #2c9c6a; --down: #c23b32; --up: #1f7d50; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebf1; --soft: #98a3b3; --page: #12161c;
  --card: #1b212a; --rule: #2d3643; --one: #6ea3ff; --two: #f2b45c; --three: #63cf9c;
  --down: #ff8f85; --up: #63cf9c; } }
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
.down { fill: var(--down); color: var(--down); } .up { fill: var(--up); color: var(--up); }
.l0 { stroke: var(--one); } .l1 { stroke: var(--two); } .l2 { stroke: var(--three); }
"""


class StyledCell(NamedTuple):
    """A table cell with a CSS class."""

    text: str
    css: str


def page(title: str, subtitle: str, body: str, *, style: str = "", script: str = "") -> str:
    """Return the whole document; its security policy allows only this script and no external resource."""
    allowed = f"; script-src {_hash(script)}" if script else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'{allowed}"
    scripted = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n<body>"
        f"<h1>{escape(title)}</h1><p>{escape(subtitle)}</p>\n{body}\n{scripted}</body></html>\n"
    )


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def tiles(values: Sequence[tuple[str, str]]) -> str:
    """Return large values, each with its name below."""
    made = (f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in values)
    return f'<div class="tiles">{"".join(made)}</div>'


def cards(parts: Sequence[str]) -> str:
    """Return cards side by side."""
    return f'<div class="cards">{"".join(parts)}</div>'


def card(title: str, plot: str, series: Sequence[str] = ()) -> str:
    """Return a plot with its title and legend."""
    key = "".join(f'<i class="s{number}"></i>{escape(name)}' for number, name in enumerate(series))
    legend = f'<div class="key">{key}</div>' if key else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{plot}{legend}</section>'


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str | StyledCell]], *, css: str = "numbers") -> str:
    """Return a table in a card as wide as the page."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<section class="card wide"><h2>{escape(title)}</h2>'
        f'<table class="{css}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></section>'
    )


def _cell(cell: str | StyledCell) -> str:
    if isinstance(cell, StyledCell):
        return f'<td class="{cell.css}">{escape(cell.text)}</td>'
    return f"<td>{escape(cell)}</td>"
