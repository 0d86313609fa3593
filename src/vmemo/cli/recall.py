"""Commands that answer questions: `recall`, `context` and `reflect`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vmemo import Answer, Hit, Memory, MemoryLookup, Recalled, Retracted, TextDelta
from vmemo.cli.command import Output, command
from vmemo.cli.options import (
    AsJson,
    BanksWithEmbedder,
    Budgeted,
    Filters,
    OnBanks,
    OptionGroup,
    WithModels,
    parse_budget,
    request_options,
)
from vmemo.cli.output import marked_hit, one_line, plain, print_json, stderr, table, when
from vmemo.cli.target import run
from vmemo.models.recalled import Explanation
from vmemo.models.records import counted
from vmemo.models.requests import ContextRequest, ReflectOptions, SearchOptions
from vmemo.text.temporal import format_interval

PAGE = 10
ContextFields = Annotated[
    dict[str, object], OptionGroup(request_options(ContextRequest, "user", "max_tokens", "now", "session"), dict)
]
_ID = re.compile(r"\[([0-9a-f]{8}-[0-9a-f-]{27})\]")


@command(
    'vmemo recall "Where does Maya work?"',
    'vmemo recall "Where does Maya work?" --include-expired --limit 20',
    'vmemo recall "Where did Maya work?" --at-time 2024-05-01T00:00Z --top-k 3',
    'vmemo recall "the flat" --max-tokens 500 --prompt',
    'vmemo recall "trips" --after 2024-06-01T00:00Z --before 2024-09-01T00:00Z --json',
    'vmemo recall "Where did we eat last week?" --explain --now 2024-05-01T09:30Z',
    'vmemo recall "How do we release?" --bank project --bank me --bank team',
)
def recall(  # noqa: PLR0913 - each is an option of the command line
    query: Annotated[str, typer.Argument(help="The question or search text.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum total tokens of the facts.")] = 4096,
    top_k: Annotated[int | None, typer.Option(min=1, help="Return this many facts, regardless of tokens.")] = None,
    budget: Budgeted = "mid",
    limit: Annotated[int | None, typer.Option(min=1, help="Show this many facts. Default: 10, or --top-k.")] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show all facts that were found.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print the result formatted for an LLM prompt.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show why each fact was found.")] = False,
    *,
    target: BanksWithEmbedder,
    filters: Filters,
) -> Output:
    """Find the facts most relevant to a question."""
    options: SearchOptions = {**filters, "banks": target.banks, "explain": explain}
    explored = parse_budget(budget)
    if show_all and limit is not None:
        raise typer.BadParameter("--all and --limit cannot be combined.", param_hint="--all")
    if explain and prompt:
        raise typer.BadParameter("--explain and --prompt cannot be combined.", param_hint="--explain")

    async def find(memory: Memory) -> Recalled:
        if top_k is not None:
            return await memory.retrieve(query, top_k, **options)
        return await memory.recall(query, max_tokens, explored, **options)

    found = run(target, find)
    if prompt:
        return Output(found, found.to_prompt())
    return Output(found, _found(found, None if show_all else limit or top_k or PAGE))


def _found(found: Recalled, limit: int | None) -> RenderableType:
    """Return up to `limit` hits as a table, a summary, and the explanation if present."""
    why = found.explanation
    parts: list[RenderableType] = ["No matching facts."]
    if found.hits:
        more = "" if limit is None or limit >= len(found.hits) else f"showing {limit} of "
        hint = "; --limit N or --all shows more" if more else ""
        parts = [
            _hits(found.hits[:limit], why, with_banks=len(found.banks) > 1),
            Text(f"{more}{summary(found)}{hint}", style="dim"),
        ]
    parts += [
        Text(f"standing instruction [{plain(fact.short_id)}]: {one_line(fact.text)}", style="dim")
        for fact in found.instructions
    ]
    return Group(*parts, *([] if why is None else [_explained(why, found.timings)]))


def _hits(hits: Sequence[Hit], why: Explanation | None, *, with_banks: bool) -> Table:
    rows = table("#>", "id", *(["bank"] if with_banks else []), "date", "network", "fact")
    names = {str(entity.id): entity.name for entity in why.entities} if why else {}
    for rank, hit in enumerate(hits, start=1):
        kind = "verbatim" if hit.verbatim else hit.fact.network
        shown = marked_hit(hit)
        if why is not None:
            shown.append("\n" + _reasons(hit, names), style="cyan")
        bank = [Text(one_line(hit.bank))] if with_banks else []
        rows.add_row(str(rank), Text(plain(hit.short_id), style="dim"), *bank, when(hit.fact), kind, shown)
    return rows


def _reasons(hit: Hit, names: Mapping[str, str]) -> str:
    """Return rank and score per channel, the graph path and the reranking."""
    ranks = (f"{channel} #{place.rank} ({place.score:.3f})" for channel, place in hit.channels.items())
    lines = [f"score {hit.score:.3f}, found by {', '.join(ranks)}"]
    if hit.path:
        steps = (
            f"{names.get(step.source, step.source)} ({' '.join(filter(None, (step.kind, step.via)))} {step.weight:.2f})"
            for step in hit.path
        )
        lines.append(f"path {one_line(' → '.join(steps))} → here")
    if (moved := hit.reranking) is not None:
        score = "no score" if moved.score is None else f"score {moved.score:.3f}"
        lines.append(f"reranked from #{moved.before} to #{moved.after}, {score}")
    lines += [f"{found.kind} from {found.fact}, revision model {found.probability:.2f}" for found in hit.newer]
    return "\n".join(lines)


def _explained(why: Explanation, timings: Mapping[str, float]) -> Table:
    """Return the query analysis, the candidates per channel and the time per stage as a table."""
    rows = table("explanation", "")
    rows.add_row("type", why.type)
    rows.add_row("tense", why.tense)
    rows.add_row("time", format_interval(why.during) if why.during else "none")
    rows.add_row("parts", Text(one_line("; ".join(why.parts)) or "none"))
    rows.add_row("entities", Text(one_line(", ".join(entity.name for entity in why.entities)) or "none"))
    for channel, weight in why.weights.items():
        rows.add_row(channel, f"{counted(why.candidates.get(channel, 0), 'candidate')}, weight {weight:g}")
    rows.add_row("reranker", Text(f"{one_line(why.reranker)}, scored {counted(why.reranked, 'candidate')}"))
    rows.add_row("milliseconds", ", ".join(f"{stage} {spent:.1f}" for stage, spent in timings.items()))
    return rows


def summary(found: Recalled) -> str:
    milliseconds = found.timings.get("total", 0.0)
    holds = "" if found.answerable is None else f", answerable {found.answerable:.2f}"
    return f"{counted(len(found.hits), 'fact')}, {counted(found.tokens, 'token')}{holds}, {milliseconds:.0f} ms"


@command(
    'vmemo context "What shall we cook tonight?"',
    'vmemo context "What shall we cook tonight?" --user Maya --max-tokens 800',
    "vmemo context --user Maya",
    "vmemo context --bank project --bank me",
)
def context(
    query: Annotated[str | None, typer.Argument(help="What the next answer is about.")] = None,
    precise: Annotated[
        bool, typer.Option("--precise/--fill", help="Show the fewest relevant facts that suffice, or fill the budget.")
    ] = True,
    *,
    fields: ContextFields,
    target: OnBanks,
) -> Output:
    """Print memories as one block for a system prompt: who the user is, instructions, constraints, relevant facts."""
    request = ContextRequest.of({**fields, "query": query, "precise": precise, "banks": target.banks})
    found = run(target, lambda memory: memory.run(request))
    return Output(found, found.text)


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
    stream: Annotated[bool, typer.Option("--stream", help="Print the answer as it is generated.")] = False,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="A JSON schema for a structured answer.")] = None,
    max_lookups: Annotated[int, typer.Option(min=0, max=3, help="Maximum number of further memory lookups.")] = 3,
    opinions: Annotated[
        bool, typer.Option("--opinions/--no-opinions", help="Form opinions and update their confidence.")
    ] = True,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens of recalled facts.")] = 8192,
    budget: Budgeted = "mid",
    *,
    target: WithModels,
    filters: Filters,
    as_json: AsJson = False,
) -> Output | None:
    """Answer a question from memory, with citations, in the bank's character."""
    options: ReflectOptions = {
        **filters,
        "max_lookups": max_lookups,
        "opinions": opinions,
        "max_tokens": max_tokens,
        "budget": parse_budget(budget),
        "schema": _schema(schema),
    }
    if stream and not as_json:
        _print_details(run(target, lambda memory: _streamed(memory, query, options)))
        return None
    answer = run(target, lambda memory: memory.reflect(query, **options))
    if as_json:
        return Output(answer, "")
    typer.echo(plain(answer.readable()))
    _print_details(answer)
    return None


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


async def _streamed(memory: Memory, query: str, options: ReflectOptions) -> Answer:
    """Print events as they arrive: lookups on stderr, the answer's text with numbers in place of ids."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"[{numbers.setdefault(match[1], len(numbers) + 1)}]"

    answer: Answer | None = None
    async for event in memory.reflect_stream(query, **options):
        match event:
            case MemoryLookup(query=lookup, found=found, tool=tool):
                stderr().print(f"{tool}: {plain(lookup)} ({found:,} new)", markup=False)
            case Retracted(reason=reason):
                typer.echo("")
                stderr().print(f"retracted: {plain(reason)}", markup=False)
            case TextDelta(text=text):
                typer.echo(plain(_ID.sub(number, text)), nl=False)
            case Answer():
                typer.echo("\n\n" + plain(event.footnotes()) if event.citations else "")
                answer = event
    assert answer is not None
    return answer


def _print_details(answer: Answer) -> None:
    """Print structured data, opinions and usage."""
    if answer.data is not None:
        print_json(answer.data)
    for opinion in answer.formed:
        stderr().print(f"opinion formed ({opinion.confidence:.2f}): {plain(opinion.text)}", markup=False)
    for change in answer.confidence_changes:
        stderr().print(f"opinion changed ({change.before:.2f} to {change.after:.2f}): {change.opinion}", markup=False)
    if answer.usage.calls:
        used = answer.usage.input_tokens + answer.usage.output_tokens
        stderr().print(f"[dim]{counted(answer.usage.calls, 'call')}, {counted(used, 'token')}[/dim]")
