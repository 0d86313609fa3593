"""How things look: consoles, dates, and text that may hold anything."""

from __future__ import annotations

import json
import shutil
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
"""Columns where there is no terminal to ask."""


def stdout() -> Console:
    """Where results go."""
    return Console(width=_width(), highlight=False)


def stderr() -> Console:
    """Where errors and progress go, so that results can be piped."""
    return Console(width=_width(), highlight=False, stderr=True)


def _width() -> int:
    return shutil.get_terminal_size((WIDTH, 24)).columns


def print_json(value: JsonValue) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def plain(text: str) -> str:
    """Text without control characters: a memory must not be able to steer the terminal that shows it."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def clipped(text: str, most: int = 400) -> str:
    """Plain text on one line, cut where it gets long."""
    line = " ".join(plain(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def many(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def day(moment: datetime) -> str:
    """A day with its weekday."""
    return f"{moment:%a} {moment.day} {moment:%b %Y}"


def moment(at: datetime) -> str:
    """A moment in UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def happened(fact: Fact) -> Text:
    """The time that the fact speaks of, if it names one."""
    if fact.occurred_start is None and fact.occurred_end is None:
        return Text()
    return Text(format_interval(Interval(start=fact.occurred_start, end=fact.occurred_end)), style="cyan")


def when(fact: Fact) -> Text:
    """When it happened, or else, dimmed, when it was said."""
    return happened(fact) or Text(day(fact.mentioned_at), style="dim")


def with_id(text: str, id: str) -> Text:
    """A text with its id on a line of its own, whole, so that it can be copied."""
    return Text.assemble(clipped(text), "\n", (id, "dim"))


def table(*columns: str, title: str | None = None) -> Table:
    """An empty table in the house style; a column whose name ends with > stands to the right."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD)
    for column in columns:
        side: Literal["left", "right"] = "right" if column.endswith(">") else "left"
        made.add_column(column.rstrip(">"), justify=side, overflow="fold")
    return made


def progress(*, shown: bool = True) -> Progress:
    """A bar on stderr that goes away when done; without a terminal there is none."""
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
