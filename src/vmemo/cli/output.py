"""Console output: JSON, tables, dates, progress, and text from memory made safe for a terminal."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, TypeVar

import typer
from pydantic import JsonValue
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from vmemo.errors import VmemoError
from vmemo.models import Fact, Hit, Interval
from vmemo.models.records import counted
from vmemo.models.results import Backlog, Spending, Status
from vmemo.text.temporal import format_interval

R = TypeVar("R")
WIDTH = 100
"""Columns when the output is not a terminal."""
_POLL = 0.2


def stdout(*, errors: bool = False) -> Console:
    return Console(width=shutil.get_terminal_size((WIDTH, 24)).columns, highlight=False, stderr=errors)


def stderr() -> Console:
    """Return the console for errors and progress, so that results can be piped."""
    return stdout(errors=True)


def print_json(value: JsonValue) -> None:
    lines = json.dumps(value, ensure_ascii=False, indent=2).split("\n")
    for number, line in enumerate(lines):
        if not line.isprintable():
            # Escape the control characters that JSON allows in strings.
            lines[number] = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
    typer.echo("\n".join(lines))


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


def day(at: datetime) -> str:
    """Return a date with its weekday."""
    return f"{at:%a} {at.day} {at:%b %Y}"


def timestamp(at: datetime) -> str:
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


def table(*columns: str, rows: Iterable[Iterable[RenderableType]] = (), title: str | None = None) -> Table:
    """Return a table; a column whose name ends with > is right-aligned."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD)
    for column in columns:
        side: Literal["left", "right"] = "right" if column.endswith(">") else "left"
        made.add_column(column.rstrip(">"), justify=side, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def page(rows: RenderableType, after: str | None) -> RenderableType:
    """Return a page of a list with a hint at the next one, which follows the record `after`."""
    return rows if after is None else Group(rows, Text(f"For the next page add --after {plain(after)}", style="dim"))


def fields(*named: tuple[str, str]) -> Table:
    """Return names and values as a table without a head."""
    grid = Table.grid(padding=(0, 2))
    for name, value in named:
        grid.add_row(Text(name, style="bold"), Text(value))
    return grid


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


async def with_progress(
    work: Coroutine[Any, Any, R], left: Callable[[], Awaitable[int]], *, what: str, shown: bool
) -> R:
    """Await work while a progress bar shows the remaining count that `left` returns."""
    with progress(shown=shown) as bar:
        updates = asyncio.create_task(_update(left, bar, what))
        try:
            return await work
        finally:
            updates.cancel()


async def _update(left: Callable[[], Awaitable[int]], bar: Progress, what: str) -> None:
    task, most = bar.add_task(what, total=None), 0
    while not bar.disable:
        await asyncio.sleep(_POLL)
        # The store may be busy or closed already; the work itself raises errors.
        with suppress(VmemoError):
            count = await left()
            most = max(most, count)
            bar.update(task, total=most or None, completed=most - count)


def status_table(status: Status) -> RenderableType:
    parts: list[RenderableType] = [
        fields(
            ("bank", one_line(status.bank)),
            ("engine", one_line(status.engine)),
            ("embedder", f"{one_line(status.embedder)} ({status.dimension} dimensions)"),
            ("messages", f"{status.messages:,} ({status.pending:,} pending)"),
            ("episodes", f"{status.episodes:,}"),
            ("facts", f"{status.facts:,} ({status.closed_facts:,} closed)"),
            ("entities", f"{status.entities:,}"),
            ("links", f"{status.links:,}"),
            *([("size", size(status.bytes))] if status.bytes else []),
            *([("scrub", "pending: run vmemo doctor")] if status.scrub_pending else []),
        )
    ]
    for each in status.problems:
        parts.append(Text(f"{counted(each.messages, 'message')} pending: {one_line(each.error)}", style="red"))
    if status.backlog:
        parts.append(table(*_BACKLOG, rows=map(_backlog_row, status.backlog)))
    if spending := status.spending:
        total = [sum(spending, Spending(step="all", model=""))] if len(spending) > 1 else []
        parts.append(table(*_SPENDING, rows=map(_spending_row, (*spending, *total))))
    return Group(*parts)


_BACKLOG = ("queued jobs", "waiting>", "running>", "failed>", "next due", "last error")
_SPENDING = ("step", "model", "calls>", "failures>", "tokens in>", "tokens out>", "cost>")


def _backlog_row(each: Backlog) -> tuple[RenderableType, ...]:
    due, error = "" if each.next_at is None else timestamp(each.next_at), Text(one_line(each.error or ""), style="red")
    return each.kind, str(each.waiting), str(each.running), str(each.failed), due, error


def _spending_row(each: Spending) -> tuple[RenderableType, ...]:
    counts = (each.calls, each.failures, each.input_tokens, each.output_tokens)
    return each.step, Text(one_line(each.model)), *(f"{count:,}" for count in counts), f"${each.cost:.4f}"


def size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{count / 1000:.0f} kB"


def marked_hit(hit: Hit) -> Text:
    note = Text(f"({hit.status_note}) ", style="yellow") if hit.status_note else Text()
    return note.append(one_line(hit.text), style="default")
