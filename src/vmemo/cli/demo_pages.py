"""The output of `vmemo demo`, section by section."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from vmemo import Answer, Fact, Provenance, Recalled, Retained
from vmemo.cli.output import day, occurred, one_line, stdout, table, when
from vmemo.cli.recall import summary
from vmemo.cli.tables import marked_hit
from vmemo.cli.target import Target
from vmemo.cli.why import tree

FORMER = 2
"""Former values that are shown for a question."""


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """The results of the demo's verbs."""

    retained: Retained
    facts: tuple[Fact, ...]
    recalled: tuple[Recalled, ...]
    history: tuple[Recalled, ...]
    """The same questions, including facts that are no longer true."""
    now: Recalled
    then: Recalled
    answer: Answer
    why: Provenance

    def to_json(self) -> JsonValue:
        """Return the results as JSON."""
        return {
            "retained": self.retained.model_dump(mode="json"),
            "facts": [fact.model_dump(mode="json") for fact in self.facts],
            "recalled": [found.model_dump(mode="json") for found in self.recalled],
            "history": [found.model_dump(mode="json") for found in self.history],
            "now": self.now.model_dump(mode="json"),
            "then": self.then.model_dump(mode="json"),
            "answer": self.answer.model_dump(mode="json"),
            "why": self.why.model_dump(mode="json"),
        }


def show(shown: DemoResult, kept: Target | None) -> None:
    """Print all sections; `kept` is the database, if the demo keeps it."""
    console = stdout()
    for number, (title, part) in enumerate(_parts(shown, kept), start=1):
        console.print()
        console.print(Rule(f"{number}. {title}", align="left", style="cyan"))
        console.print(part)
    console.print()


def _parts(shown: DemoResult, kept: Target | None) -> Iterable[tuple[str, RenderableType]]:
    yield "Retain: messages become dated facts", _retained(shown)
    yield "Recall: what is true now first, former values marked", Group(*map(_recalled, shown.recalled, shown.history))
    yield "Time travel: the same question at two points in time", _travelled(shown)
    yield "Reflect: an answer with citations", _reflected(shown.answer)
    yield "Why: the provenance of a fact", tree(shown.why)
    yield "Try next", Text("\n".join(_next(shown, kept)), no_wrap=True, overflow="ignore")


def _retained(shown: DemoResult) -> RenderableType:
    episodes = len({episode for fact in shown.facts for episode in fact.episodes})
    head = f"{len(shown.facts)} facts in {episodes} episodes. Facts that mention a time, with the time resolved:"
    again = "" if shown.retained.stored else "The conversation is stored already; nothing was stored twice. "
    rows = table("said", "happened", "fact")
    for fact in shown.facts:
        if fact.occurred_start is not None:
            rows.add_row(day(fact.mentioned_at), occurred(fact), one_line(fact.text))
    return Group(again + head, rows)


def _recalled(found: Recalled, history: Recalled) -> RenderableType:
    """Return the recalled facts of a question, followed by former ones, which are recalled on request."""
    rows = table("id", "date", "fact", title=found.query)
    former = [hit for hit in history.hits if hit.status == "former"]
    for hit in (*found.hits, *former[:FORMER]):
        rows.add_row(Text(hit.short_id, style="dim"), when(hit.fact), marked_hit(hit))
    return Group(rows, Text(summary(found), style="dim"))


def _travelled(shown: DemoResult) -> RenderableType:
    return Columns([_moment(shown.then), _moment(shown.now)], equal=True, expand=True)


def _moment(found: Recalled) -> Panel:
    lines = [Text.assemble((day(hit.fact.mentioned_at), "dim"), "\n", one_line(hit.text)) for hit in found.hits]
    return Panel(Group(*lines), title=f"at {day(found.at_time)}" if found.at_time else "now", width=48)


def _reflected(answer: Answer) -> RenderableType:
    cited = Text(f"{len(answer.citations)} citations, extractive: {answer.extractive}", style="dim")
    return Group(Text(answer.query, style="bold"), Text(answer.readable()), cited)


def _next(shown: DemoResult, kept: Target | None) -> list[str]:
    if kept is None:
        first, where = ["vmemo demo --db demo.db"], "--db demo.db --bank demo"
    else:
        first, where = [], f"--db {shlex.quote(kept.db)} --bank {shlex.quote(kept.bank)}"
    return [
        *first,
        f'vmemo recall "Which city does Maya live in?" --at-time 2024-09-01T00:00Z {where}',
        f'vmemo recall "Ines" --prompt {where}',
        f"vmemo why {shown.why.fact.short_id} {where}",
        f'vmemo forget --entity "Priya" {where}',
        "vmemo benchmark sample",
    ]
