"""`vmemo demo`: retain, recall, time travel and reflect on a sample conversation."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from vmemo import Answer, Fact, Memory, Message, Provenance, Recalled, Retained
from vmemo.cli.command import Output, command
from vmemo.cli.inspect import tree
from vmemo.cli.options import AsJson, BankName
from vmemo.cli.output import day, marked_hit, occurred, one_line, stderr, table, when
from vmemo.cli.recall import summary
from vmemo.cli.target import Target, run
from vmemo.errors import MissingExtra
from vmemo.models.records import Record

_QUESTIONS = ("Where does Maya work?", "Which city does Maya live in?")
"""Questions whose answers change during the conversation."""
_THEN = datetime(2024, 3, 1, tzinfo=UTC)
_MAX_TOKENS = 150
_REFLECTION = "What food does Maya avoid?"


class DemoResult(Record):
    """The results of the demo's verbs."""

    retained: Retained
    facts: tuple[Fact, ...]
    recalled: tuple[Recalled, ...]
    now: Recalled
    then: Recalled
    answer: Answer
    why: Provenance


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
) -> Output | None:
    """Run vmemo on a sample conversation of one year. Needs no API key, server or download."""
    with tempfile.TemporaryDirectory(prefix="vmemo-demo-", ignore_cleanup_errors=True) as folder:
        target = Target(db or str(Path(folder) / "demo.db"), bank)
        if console:
            memory = Memory(target.url, target.bank, settings=target.settings())
            _console()(memory, conversation(), port)
            return None
        with stderr().status("processing the conversation"):
            shown = run(target, _tour, requires="nothing")
    where = f"--db {shlex.quote(db or 'demo.db')} --bank {shlex.quote(bank)}"
    return Output(shown, Group(*_sections(shown, where, [] if db else ["vmemo demo --db demo.db"])))


def _console() -> Callable[[Memory, Sequence[Message], int], None]:
    try:
        [point] = entry_points(group="vmemo.demo", name="console")
        return point.load()
    except (ValueError, ImportError) as error:
        needed = "vmemo demo --console needs another package. Install it with: pip install 'vmemo[server]'"
        raise MissingExtra(needed) from error


async def _tour(memory: Memory) -> DemoResult:
    retained = await memory.retain(conversation(), document="demo")
    facts = tuple(await memory.facts(limit=1000))
    closed = next((fact for fact in facts if fact.invalid_at is not None), facts[0])
    return DemoResult(
        retained=retained,
        facts=facts,
        recalled=tuple([await memory.recall(question, max_tokens=_MAX_TOKENS) for question in _QUESTIONS]),
        then=await memory.retrieve(_QUESTIONS[0], 1, at_time=_THEN),
        now=await memory.retrieve(_QUESTIONS[0], 1),
        answer=await memory.reflect(_REFLECTION),
        why=await memory.why(closed.short_id),
    )


def conversation() -> list[Message]:
    text = (resources.files("vmemo.cli") / "demo.jsonl").read_text(encoding="utf-8")
    return [Message.of(json.loads(line)) for line in text.splitlines()]


def _sections(shown: DemoResult, where: str, first: Sequence[str]) -> Iterator[RenderableType]:
    """Yield all sections; `where` are the options of the database, and `first` the commands that create it."""
    suggestions = [
        *first,
        f'vmemo recall "Which city does Maya live in?" --at-time 2024-05-01T00:00Z {where}',
        f'vmemo context "What shall we cook tonight?" {where}',
        f"vmemo why {shown.why.fact.short_id} {where}",
        f'vmemo forget --entity "Priya" {where}',
    ]
    answer = shown.answer
    cited = Text(f"{len(answer.citations)} citations, extractive: {answer.extractive}", style="dim")
    parts: list[tuple[str, RenderableType]] = [
        ("Retain: messages become dated facts", _retained(shown)),
        ("Recall: the current value first", Group(*map(_recalled, shown.recalled))),
        ("Time travel: the same question at two points in time", Group(*map(_recalled, (shown.then, shown.now)))),
        ("Reflect: an answer with citations", Group(Text(answer.query, style="bold"), Text(answer.readable()), cited)),
        ("Why: the provenance of a fact", tree(shown.why)),
        ("Try next", Text("\n".join(suggestions), no_wrap=True, overflow="ignore")),
    ]
    for number, (title, part) in enumerate(parts, start=1):
        yield from ("", Rule(f"{number}. {title}", align="left", style="cyan"), part)
    yield ""


def _retained(shown: DemoResult) -> RenderableType:
    episodes = len({episode for fact in shown.facts for episode in fact.episodes})
    head = f"{len(shown.facts)} facts in {episodes} episodes. Facts that mention a time, with the time resolved:"
    again = "" if shown.retained.stored else "The conversation is stored already; nothing was stored twice. "
    rows = table("said", "happened", "fact")
    for fact in shown.facts:
        if fact.occurred_start is not None:
            rows.add_row(day(fact.mentioned_at), occurred(fact), one_line(fact.text))
    return Group(again + head, rows)


def _recalled(found: Recalled) -> RenderableType:
    moment = f" (at {day(found.at_time)})" if found.at_time else ""
    rows = table("id", "date", "fact", title=found.query + moment)
    for hit in found.hits:
        rows.add_row(Text(hit.short_id, style="dim"), when(hit.fact), marked_hit(hit))
    return Group(rows, Text(summary(found), style="dim"))
