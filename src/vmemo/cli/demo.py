"""`vmemo demo`: retain, recall, time travel and reflect on a sample conversation."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from vmemo import Memory, Message
from vmemo.cli.command import command
from vmemo.cli.content import parse_lines
from vmemo.cli.demo_pages import DemoResult, show
from vmemo.cli.options import AsJson, BankName
from vmemo.cli.output import print_json, stderr
from vmemo.cli.target import Target, run
from vmemo.errors import MissingExtra

_QUESTIONS = ("Where does Maya work?", "Which city does Maya live in?")
"""Questions whose answers change during the conversation."""
_THEN = datetime(2024, 5, 1, tzinfo=UTC)
_REFLECTION = "What food does Maya avoid?"


@command(
    "vmemo demo",
    "vmemo demo --db demo.db   keeps the database for other commands",
    "vmemo demo --console   serves the web console on the sample data",
    "vmemo demo --json",
)
def demo(
    db: Annotated[
        str | None, typer.Option("--db", metavar="URL|FILE", help="The database to create. Default: a temporary file.")
    ] = None,
    bank: BankName = "demo",
    console: Annotated[
        bool, typer.Option("--console", help="Serve the web console on the sample data and print its address.")
    ] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port of the console.")] = 8000,
    as_json: AsJson = False,
) -> None:
    """Run vmemo on a sample conversation of one year. Needs no API key, server or download."""
    with tempfile.TemporaryDirectory(prefix="vmemo-demo-", ignore_cleanup_errors=True) as folder:
        target = Target(db or str(Path(folder) / "demo.db"), bank)
        if console:
            memory = Memory(target.url, target.bank, settings=target.settings())
            _console()(memory, conversation(), port)
            return
        with stderr().status("processing the conversation"):
            shown = run(target, _tour, requires="nothing")
    if as_json:
        print_json(shown.to_json())
    else:
        show(shown, target if db else None)


def _console() -> Callable[[Memory, Sequence[Message], int], None]:
    try:
        [point] = entry_points(group="vmemo.demo", name="console")
        return point.load()
    except (ValueError, ImportError) as error:
        raise MissingExtra(
            "vmemo demo --console needs another package. Install it with: pip install 'vmemo[server]'"
        ) from error


async def _tour(memory: Memory) -> DemoResult:
    retained = await memory.retain(conversation(), document="demo")
    recalled = [await memory.recall(question, max_tokens=120) for question in _QUESTIONS]
    history = [await memory.retrieve(question, 10, include_expired=True) for question in _QUESTIONS]
    changed = [hit for found in history for hit in found.hits if hit.status == "former"]
    return DemoResult(
        retained=retained,
        facts=tuple(await memory.facts(limit=1000)),
        recalled=tuple(recalled),
        history=tuple(history),
        then=await memory.retrieve(_QUESTIONS[0], 2, at_time=_THEN),
        now=await memory.retrieve(_QUESTIONS[0], 2),
        answer=await memory.reflect(_REFLECTION),
        why=await memory.why((changed or recalled[0].hits)[0].short_id),
    )


def conversation() -> list[Message]:
    """Return the built-in conversation."""
    text = (resources.files("vmemo.cli") / "demo.jsonl").read_text(encoding="utf-8")
    return parse_lines(text, "demo.jsonl")
