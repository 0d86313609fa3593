"""`vmemo recall`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from vmemo import Hit, Memory, Recalled
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
    parse_budget,
    parse_time,
)
from vmemo.cli.output import counted, one_line, plain, print_json, stdout, table, when
from vmemo.cli.tables import marked_hit
from vmemo.cli.target import Target, run
from vmemo.models.recalled import Explanation
from vmemo.models.requests import RecallOptions
from vmemo.text.temporal import format_interval

PAGE = 10
"""Facts that are shown by default."""


@command(
    'vmemo recall "Where does Maya work?"',
    'vmemo recall "Where does Maya work?" --include-expired --limit 20',
    'vmemo recall "Where did Maya work?" --at-time 2024-05-01T00:00Z --top-k 3',
    'vmemo recall "the flat" --max-tokens 500 --prompt',
    'vmemo recall "trips" --after 2024-06-01T00:00Z --before 2024-09-01T00:00Z --json',
    'vmemo recall "Where did we eat last week?" --explain --now 2024-05-01T09:30Z',
)
@takes_filters
def recall(  # noqa: PLR0913 - each is an option of the command line
    query: Annotated[str, typer.Argument(help="The question or search text.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum total tokens of the facts.")] = 4096,
    top_k: Annotated[int | None, typer.Option(min=1, help="Return this many facts, regardless of tokens.")] = None,
    budget: Budgeted = "mid",
    limit: Annotated[int | None, typer.Option(min=1, help="Show this many facts. Default: 10, or --top-k.")] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show all facts that were found.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print the result formatted for an LLM prompt.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show why each fact was found.")] = False,
    now: Annotated[
        datetime | None,
        typer.Option(
            "--now", parser=parse_time, metavar="TIME", help='The reference time for "last week" etc. Default: now.'
        ),
    ] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
    *,
    filters: RecallOptions,
) -> None:
    """Find the facts most relevant to a question."""
    options: RecallOptions = {**filters, "explain": explain, "now": now}
    explored = parse_budget(budget)
    if show_all and limit is not None:
        raise typer.BadParameter("--all and --limit cannot be combined.", param_hint="--all")
    if explain and prompt:
        raise typer.BadParameter("--explain and --prompt cannot be combined.", param_hint="--explain")

    async def find(memory: Memory) -> Recalled:
        if top_k is not None:
            return await memory.retrieve(query, top_k, **options)
        return await memory.recall(query, max_tokens, explored, **options)

    found = run(Target(db, bank, embedder=embedder), find)
    if as_json:
        print_json(found.model_dump(mode="json"))
    elif prompt:
        typer.echo(plain(found.to_prompt()))
    else:
        show(found, None if show_all else limit or top_k or PAGE)


def show(found: Recalled, limit: int | None) -> None:
    """Print up to `limit` hits as a table, a summary, and the explanation if present."""
    why = found.explanation
    if found.hits:
        stdout().print(_hits(found.hits[:limit], why))
        more = "" if limit is None or limit >= len(found.hits) else f"showing {limit} of "
        hint = "; --limit N or --all shows more" if more else ""
        stdout().print(f"[dim]{more}{summary(found)}{hint}[/dim]")
    else:
        stdout().print("No matching facts.")
    for fact in found.instructions:
        stdout().print(Text(f"standing instruction [{plain(fact.short_id)}]: {one_line(fact.text)}", style="dim"))
    if why is not None:
        stdout().print(_explained(why, found.timings))


def _hits(hits: Sequence[Hit], why: Explanation | None) -> Table:
    rows = table("#>", "id", "date", "network", "fact")
    names = {str(entity.id): entity.name for entity in why.entities} if why else {}
    for rank, hit in enumerate(hits, start=1):
        kind = "verbatim" if hit.verbatim else hit.fact.network
        shown = marked_hit(hit)
        if why is not None:
            shown.append("\n" + _reasons(hit, names), style="cyan")
        rows.add_row(str(rank), Text(plain(hit.short_id), style="dim"), when(hit.fact), kind, shown)
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
    """Return the number of facts and tokens and the time taken."""
    milliseconds = found.timings.get("total", 0.0)
    return f"{counted(len(found.hits), 'fact')}, {counted(found.tokens, 'token')}, {milliseconds:.0f} ms"
