"""Short forms of records for the interactive shell (`repr`) and for notebooks (`_repr_html_`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SHOWN = 5
"""Records of a list that are shown."""
_WIDTH = 100


def shortened(text: str, width: int = _WIDTH) -> str:
    """Return a text on one line, cut to `width` characters."""
    line = " ".join(text[: 4 * width].split())
    return line if len(line) <= width and len(text) <= 4 * width else f"{line[: width - 1]}…"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun in the right number."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def with_lines(head: str, lines: Sequence[str]) -> str:
    """Return `<head>` with the first lines below it, and the number of the others."""
    more = [f"  and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
    return "\n".join([f"<{head}>", *(f"  {line}" for line in lines[:SHOWN]), *more])


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in which every text is escaped: a stored script is text."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    style = ' style="text-align:left"'
    return f"<table><caption{style}>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


def html_block(caption: str, text: str) -> str:
    """Return a caption and a text as it is, both escaped."""
    return f'<p>{escape(caption)}</p><pre style="white-space:pre-wrap">{escape(text)}</pre>'
