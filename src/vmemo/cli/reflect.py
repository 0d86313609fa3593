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
from vmemo.cli.options import (
    DEFAULT_BANK,
    DEFAULT_DB,
    After,
    AsJson,
    AtTime,
    BankName,
    Before,
    Budgeted,
    Db,
    Entities,
    Filters,
    IncludeExpired,
    KnownAt,
    Metadata,
    Model,
    Networks,
    Tags,
    budget,
    instant,
)
from vmemo.cli.output import many, plain, print_json, stderr
from vmemo.cli.target import Place, run
from vmemo.memory.reflect import MAX_TOKENS, ReflectOptions
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
def reflect(  # noqa: PLR0913 - each is an option of the command line
    query: Annotated[str, typer.Argument(help="The question.")],
    stream: Annotated[bool, typer.Option("--stream", help="Show the answer while it is written.")] = False,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON schema that the answer is put into.")
    ] = None,
    looks: Annotated[int, typer.Option(min=0, max=3, help="How often memory may be asked again.")] = 3,
    opinions: Annotated[
        bool, typer.Option("--opinions/--no-opinions", help="Whether opinions may be formed and moved.")
    ] = True,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens that memory may bring.")] = MAX_TOKENS,
    how_far: Budgeted = "mid",
    now: Annotated[
        datetime | None,
        typer.Option("--now", parser=instant, metavar="TIME", help="The question's date; the present if left out."),
    ] = None,
    at_time: AtTime = None,
    known_at: KnownAt = None,
    after: After = None,
    before: Before = None,
    include_expired: IncludeExpired = False,
    network: Networks = None,
    tag: Tags = None,
    entity: Entities = None,
    meta: Metadata = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from memory in the bank's character, and show what the answer rests on."""
    filters = Filters(
        at_time=at_time,
        known_at=known_at,
        after=after,
        before=before,
        include_expired=include_expired,
        network=network,
        tag=tag,
        entity=entity,
        meta=meta,
    ).options()
    options: ReflectOptions = {
        **filters,
        "now": now,
        "looks": looks,
        "opinions": opinions,
        "max_tokens": max_tokens,
        "budget": budget(how_far),
        "schema": _schema(schema),
    }
    place = Place(db, bank, llm)
    if stream and not as_json:
        _closing(run(place, lambda memory: _streamed(memory, query, options)))
        return
    answer = run(place, lambda memory: memory.reflect(query, **options))
    if as_json:
        print_json(answer.model_dump(mode="json"))
        return
    typer.echo(plain(answer.text if answer.extractive else answer.readable()))
    _closing(answer)


def _schema(file: Path | None) -> Mapping[str, JsonValue] | None:
    if file is None:
        return None
    try:
        value: object = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise typer.BadParameter(f"{file} is not JSON: {error}.", param_hint="--schema") from error
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{file} holds no JSON schema, which is an object.", param_hint="--schema")
    return cast("dict[str, JsonValue]", value)


@dataclass
class _Shown:
    """Shows what a reflection tells: questions to memory beside it, the answer's words with numbers for ids."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def show(self, event: Event) -> None:
        match event:
            case MemoryLookup(query=query, found=found):
                stderr().print(f"looking for: {plain(query)} ({found:,} new)", markup=False)
            case Retracted(reason=reason):
                typer.echo("")
                stderr().print(f"withdrawn: {reason}", markup=False)
            case TextDelta(text=text):
                typer.echo(plain(_ID.sub(self._number, text)), nl=False)
            case Answer():
                typer.echo("\n\n" + plain(event.footnotes()) if event.citations else "")

    def _number(self, match: re.Match[str]) -> str:
        return f"[{self.numbers.setdefault(match[1], len(self.numbers) + 1)}]"


async def _streamed(memory: Memory, query: str, options: ReflectOptions) -> Answer:
    shown, last = _Shown(), None
    async for event in memory.reflect_stream(query, **options):
        shown.show(event)
        last = event
    assert isinstance(last, Answer)
    return last


def _closing(answer: Answer) -> None:
    """What else there is to know of an answer, beside it."""
    if answer.data is not None:
        print_json(answer.data)
    for opinion in answer.formed:
        stderr().print(f"opinion formed ({opinion.confidence:.2f}): {plain(opinion.text)}", markup=False)
    for move in answer.moved:
        stderr().print(f"opinion moved ({move.before:.2f} to {move.after:.2f}): {move.opinion}", markup=False)
    if answer.usage.calls:
        used = answer.usage.input_tokens + answer.usage.output_tokens
        stderr().print(f"[dim]{many(answer.usage.calls, 'call')}, {many(used, 'token')}[/dim]")
