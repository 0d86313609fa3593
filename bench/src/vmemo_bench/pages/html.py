"""Building blocks of a page: style, tiles, cards with plots, and tables. All text is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources


@cache
def asset(name: str) -> str:
    """Return the text of a style sheet or script of this package."""
    return (resources.files("vmemo_bench.pages") / name).read_text(encoding="utf-8")


def page(title: str, subtitle: str, body: str, *, style: str = "", script: str = "") -> str:
    """Return the whole document; its security policy allows only this script and no external resource."""
    allowed = f"; script-src {_hash(script)}" if script else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'{allowed}"
    scripted = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{asset('page.css')}{style}</style></head>\n<body>"
        f"<h1>{escape(title)}</h1><p>{escape(subtitle)}</p>\n{body}\n{scripted}</body></html>\n"
    )


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def tiles(values: Sequence[tuple[str, str]]) -> str:
    """Return large values, each with its name below."""
    made = (f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in values)
    return f'<div class="tiles">{"".join(made)}</div>'


def cards(parts: Sequence[str]) -> str:
    return f'<div class="cards">{"".join(parts)}</div>'


def card(title: str, plot: str, series: Sequence[str] = ()) -> str:
    """Return a plot with its title and legend."""
    key = "".join(f'<i class="s{number}"></i>{escape(name)}' for number, name in enumerate(series))
    legend = f'<div class="key">{key}</div>' if key else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{plot}{legend}</section>'


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, css: str = "numbers") -> str:
    """Return a table in a card as wide as the page."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<section class="card wide"><h2>{escape(title)}</h2>'
        f'<table class="{css}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></section>'
    )
