"""A report as one HTML page that works offline: totals, a timeline with a slider, and marks to save as cases."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from importlib import resources

from vmemo_replay.report import Report, as_json


def page(report: Report, rows: Sequence[Sequence[str]]) -> str:
    """Return the document; `rows` are its totals. Its security policy allows its own script and nothing external."""
    script, style = _asset("page.js"), _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = f"vmemo replay: {', '.join(report.files)}"
    sessions = report.messages[-1].session + 1
    said = f"{len(report.messages):,} messages in {sessions:,} sessions, {len(report.turns):,} turns"
    return _asset("page.html").format(
        policy=policy,
        title=escape(title),
        style=style,
        subtitle=escape(f"{said}; replayed on {report.created_at:%Y-%m-%d %H:%M} UTC"),
        notes="".join(f'<p class="soft small">{escape(note)}</p>' for note in report.notes),
        totals=_table(["", *(column.label for column in report.columns)], rows),
        report=as_json(report),
        script=script,
    )


def _asset(name: str) -> str:
    return (resources.files("vmemo_replay") / name).read_text(encoding="utf-8")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for name, *cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
