"""A report as one HTML page that works offline: totals, a timeline with a slider, and marks to save as cases."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from importlib import resources

from vmemo_replay.report import Report, as_json

_SHOW = "showReport(document.querySelector('.replay'), JSON.parse(document.getElementById('report').textContent));\n"


def page(report: Report, rows: Sequence[Sequence[str]]) -> str:
    """Return the document; `rows` are its totals. Its security policy allows its own script and nothing external."""
    shared = "console/static/replay_view"
    script, style = _asset(f"{shared}.js") + _SHOW, _asset("page.css") + _asset(f"{shared}.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = f"vmemo replay: {', '.join(report.files)}"
    return _asset("page.html").format(
        policy=policy,
        title=escape(title),
        style=style,
        view=view(report, rows),
        report=as_json(report),
        script=script,
    )


def view(report: Report, rows: Sequence[Sequence[str]]) -> str:
    """Return the parts in which `replay_view.js` shows the report."""
    sessions = report.messages[-1].session + 1
    said = f"{len(report.messages):,} messages in {sessions:,} sessions, {len(report.turns):,} turns"
    notes = (f"{said}; replayed on {report.created_at:%Y-%m-%d %H:%M} UTC", *report.notes)
    return _asset("console/static/replay_view.html").format(
        notes="".join(f'<p class="soft small">{escape(note)}</p>' for note in notes),
        totals=_table(["", *(column.label for column in report.columns)], rows),
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
