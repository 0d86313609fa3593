"""Console output: tables, dates, and text from memory made safe for a terminal."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from datetime import datetime
from typing import Literal

import typer
from pydantic import JsonValue
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from vmemo.models import Fact, Interval
from vmemo.text.temporal import format_interval

WIDTH = 100
"""Columns when the output is not a terminal."""


def stdout() -> Console:
    """Return the console for results."""
    return Console(width=_width(), highlight=False)


def stderr() -> Console:
    """Return the console for errors and progress, so that results can be piped."""
    return Console(width=_width(), highlight=False, stderr=True)


def _width() -> int:
    return shutil.get_terminal_size((WIDTH, 24)).columns


def print_json(value: JsonValue) -> None:
    """Print one JSON document on stdout."""
    lines = json.dumps(value, ensure_ascii=False, indent=2).split("\n")
    typer.echo("\n".join(line if line.isprintable() else _escaped(line) for line in lines))


def _escaped(line: str) -> str:
    """Return a line of JSON with escapes for the control characters that JSON allows in strings."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def log_line(text: str) -> None:
    """Write a line to stderr; if nobody reads it any more, the line is lost and the work goes on."""
    with suppress(OSError, ValueError):
        typer.echo(text, err=True)


def plain(text: str) -> str:
    """Return the text without control characters: stored text must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def one_line(text: str, most: int = 400) -> str:
    """Return plain text on one line, truncated to `most` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun in the right number."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def day(at: datetime) -> str:
    """Return a date with its weekday."""
    return f"{at:%a} {at.day} {at:%b %Y}"


def timestamp(at: datetime) -> str:
    """Return a time in UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def occurred(fact: Fact) -> Text:
    """Return the time at which the fact occurred, empty if unknown."""
    if fact.occurred_start is None and fact.occurred_end is None:
        return Text()
    return Text(format_interval(Interval(start=fact.occurred_start, end=fact.occurred_end)), style="cyan")


def when(fact: Fact) -> Text:
    """Return the time of occurrence, or, dimmed, of the mention."""
    return occurred(fact) or Text(day(fact.mentioned_at), style="dim")


def with_id(text: str, id: str) -> Text:
    """Return a text with its full id on a second line, so that the id can be copied."""
    return Text.assemble(one_line(text), "\n", (plain(id), "dim"))


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table; a column whose name ends with > is right-aligned."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD)
    for column in columns:
        side: Literal["left", "right"] = "right" if column.endswith(">") else "left"
        made.add_column(column.rstrip(">"), justify=side, overflow="fold")
    return made


def progress(*, shown: bool = True) -> Progress:
    """Return a transient progress bar on stderr, disabled without a terminal."""
    console = stderr()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )
