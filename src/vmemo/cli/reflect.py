"""`vmemo reflect`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, cast

import typer
from pydantic import JsonValue

from vmemo import Answer, Memory, MemoryLookup, Retracted, TextDelta
from vmemo.cli.command import command
from vmemo.cli.filters import takes_filters
from vmemo.cli.options import (
    DEFAULT_BANK,
    DEFAULT_DB,
    AsJson,
    BankName,
    Budgeted,
    Db,
    EmbedderName,
    Model,
    parse_budget,
    parse_time,
)
from vmemo.cli.output import counted, plain, print_json, stderr
from vmemo.cli.target import Target, run
from vmemo.models.requests import RecallOptions, ReflectOptions
from vmemo.models.results import Event

_ID = re.compile(r"\[([0-9a-f]{8}-[0-9a-f-]{27})\]")


@command(
    'vmemo reflect "What present would suit Maya?" --llm openai:gpt-5-mini',
    'vmemo reflect "Where does Maya live?" --at-time 2024-05-01T00:00Z',
    'vmemo reflect "What did I promise?" --network experience --json',
    'vmemo reflect "Who is coming?" --llm ollama:qwen3:8b --stream',
    'vmemo reflect "Where does Maya live?" --llm openai:gpt-5-mini --schema home.json --json',
    resume="",
)
@takes_filters
def reflect(  # noqa: PLR0913 - each is an option of the command line
    query: Annotated[str, typer.Argument(help="The question.")],
    stream: Annotated[bool, typer.Option("--stream", help="Print the answer as it is generated.")] = False,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON schema for a structured answer.")] = None,
    max_lookups: Annotated[int, typer.Option(min=0, max=3, help="Maximum number of further memory lookups.")] = 3,
    opinions: Annotated[
        bool, typer.Option("--opinions/--no-opinions", help="Form opinions and update their confidence.")
    ] = True,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens of recalled facts.")] = 8192,
    budget: Budgeted = "mid",
    now: Annotated[
        datetime | None,
        typer.Option("--now", parser=parse_time, metavar="TIME", help="The date of the question. Default: now."),
    ] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
    *,
    filters: RecallOptions,
) -> None:
    """Answer a question from memory, with citations, in the bank's character."""
    options: ReflectOptions = {
        **filters,
        "now": now,
        "max_lookups": max_lookups,
        "opinions": opinions,
        "max_tokens": max_tokens,
        "budget": parse_budget(budget),
        "schema": _schema(schema),
    }
    target = Target(db, bank, llm, embedder)
    if stream and not as_json:
        _print_details(run(target, lambda memory: _streamed(memory, query, options)))
        return
    answer = run(target, lambda memory: memory.reflect(query, **options))
    if as_json:
        print_json(answer.model_dump(mode="json"))
        return
    typer.echo(plain(answer.readable()))
    _print_details(answer)


def _schema(file: Path | None) -> Mapping[str, JsonValue] | None:
    if file is None:
        return None
    try:
        value: object = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise typer.BadParameter(f"{file} is not JSON: {error}.", param_hint="--schema") from error
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{file} must contain a JSON schema, which is an object.", param_hint="--schema")
    return cast("dict[str, JsonValue]", value)


@dataclass
class _EventPrinter:
    """Prints streamed events: lookups on stderr, the answer's text with numbers in place of ids."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def print(self, event: Event) -> None:
        match event:
            case MemoryLookup(query=query, found=found):
                stderr().print(f"lookup: {plain(query)} ({found:,} new)", markup=False)
            case Retracted(reason=reason):
                typer.echo("")
                stderr().print(f"retracted: {plain(reason)}", markup=False)
            case TextDelta(text=text):
                typer.echo(plain(_ID.sub(self._number, text)), nl=False)
            case Answer():
                typer.echo("\n\n" + plain(event.footnotes()) if event.citations else "")

    def _number(self, match: re.Match[str]) -> str:
        return f"[{self.numbers.setdefault(match[1], len(self.numbers) + 1)}]"


async def _streamed(memory: Memory, query: str, options: ReflectOptions) -> Answer:
    printer, last = _EventPrinter(), None
    async for event in memory.reflect_stream(query, **options):
        printer.print(event)
        last = event
    assert isinstance(last, Answer)
    return last


def _print_details(answer: Answer) -> None:
    """Print structured data, opinions and usage."""
    if answer.data is not None:
        print_json(answer.data)
    for opinion in answer.formed:
        stderr().print(f"opinion formed ({opinion.confidence:.2f}): {plain(opinion.text)}", markup=False)
    for move in answer.confidence_changes:
        stderr().print(f"opinion changed ({move.before:.2f} to {move.after:.2f}): {move.opinion}", markup=False)
    if answer.usage.calls:
        used = answer.usage.input_tokens + answer.usage.output_tokens
        stderr().print(f"[dim]{counted(answer.usage.calls, 'call')}, {counted(used, 'token')}[/dim]")
