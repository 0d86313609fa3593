"""`vmemo recall`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from vmemo import Hit, Memory, Recalled
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
    Networks,
    Tags,
    budget,
    instant,
)
from vmemo.cli.output import clipped, many, plain, print_json, stdout, table, when, with_id
from vmemo.cli.target import Place, run
from vmemo.recall.explain import Explanation
from vmemo.text.temporal import format_interval


@command(
    'vmemo recall "Where does Maya work?"',
    'vmemo recall "Where did Maya work?" --at-time 2024-05-01T00:00Z --top-k 3',
    'vmemo recall "the flat" --max-tokens 500 --prompt',
    'vmemo recall "trips" --after 2024-06-01T00:00Z --before 2024-09-01T00:00Z --json',
    'vmemo recall "Where did we eat last week?" --explain --now 2024-05-01T09:30Z',
)
def recall(  # noqa: PLR0913 - each is an option of the command line
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens that the facts may sum to.")] = 4096,
    top_k: Annotated[int | None, typer.Option(min=1, help="So many facts, however many tokens.")] = None,
    how_far: Budgeted = "mid",
    prompt: Annotated[bool, typer.Option("--prompt", help="Print what an LLM would be given.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Tell why each fact was found.")] = False,
    now: Annotated[
        datetime | None,
        typer.Option("--now", parser=instant, metavar="TIME", help='When this is asked, for "last week" and the like.'),
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
    as_json: AsJson = False,
) -> None:
    """Find the facts that matter for a question, best first."""
    options = Filters(
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
    options.update(explain=explain, now=now)
    most = budget(how_far)
    if explain and prompt:
        raise typer.BadParameter(
            "--prompt prints only what an LLM would be given. Leave one of them out.", param_hint="--explain"
        )

    async def find(memory: Memory) -> Recalled:
        if top_k is not None:
            return await memory.retrieve(query, top_k, **options)
        return await memory.recall(query, max_tokens, most, **options)

    found = run(Place(db, bank), find)
    if as_json:
        print_json(found.model_dump(mode="json"))
    elif prompt:
        typer.echo(plain(found.to_prompt()))
    else:
        show(found)


def show(found: Recalled) -> None:
    """Hits as a table, with what they sum to, and the explanation where there is one."""
    why = found.explanation
    if found.hits:
        stdout().print(_hits(found, why))
        stdout().print(f"[dim]{summary(found)}[/dim]")
    else:
        stdout().print("Memory holds nothing about this.")
    if why is not None:
        stdout().print(_explained(why, found.timings))


def _hits(found: Recalled, why: Explanation | None) -> Table:
    rows = table("#>", "score>", "date", "network", "fact and its id")
    names = {str(entity.id): entity.name for entity in why.entities} if why else {}
    for rank, hit in enumerate(found.hits, start=1):
        kind = "verbatim" if hit.verbatim else hit.fact.network
        shown = with_id(hit.text, hit.id)
        if why is not None:
            shown.append("\n" + _reasons(hit, names), style="cyan")
        rows.add_row(str(rank), f"{hit.score:.3f}", when(hit.fact), kind, shown)
    return rows


def _reasons(hit: Hit, names: Mapping[str, str]) -> str:
    """Rank and score in each channel, the way through the graph, and what the reranker did."""
    ranks = (f"{channel} #{place.rank} ({place.score:.3f})" for channel, place in hit.channels.items())
    lines = [f"found by {', '.join(ranks)}"]
    if hit.path:
        steps = (
            f"{names.get(step.source, step.source)} ({' '.join(filter(None, (step.kind, step.via)))} {step.weight:.2f})"
            for step in hit.path
        )
        lines.append(f"path {clipped(' → '.join(steps))} → here")
    if (moved := hit.reranking) is not None:
        thought = "without a score" if moved.score is None else f"score {moved.score:.3f}"
        lines.append(f"reranked from #{moved.before} to #{moved.after}, {thought}")
    return "\n".join(lines)


def _explained(why: Explanation, timings: Mapping[str, float]) -> Table:
    """How the question was read, what each channel brought, and how long each stage took."""
    rows = table("how it was found", "")
    rows.add_row("type", why.type)
    rows.add_row("time", format_interval(why.during) if why.during else "none")
    rows.add_row("parts", Text(clipped("; ".join(why.parts)) or "none"))
    rows.add_row("entities", Text(clipped(", ".join(entity.name for entity in why.entities)) or "none"))
    for channel, weight in why.weights.items():
        rows.add_row(channel, f"{many(why.candidates.get(channel, 0), 'candidate')}, weight {weight:g}")
    rows.add_row("reranker", Text(f"{clipped(why.reranker)}, looked at {many(why.reranked, 'candidate')}"))
    rows.add_row("milliseconds", ", ".join(f"{stage} {spent:.1f}" for stage, spent in timings.items()))
    return rows


def summary(found: Recalled) -> str:
    """How much was found, and how fast."""
    return f"{many(len(found.hits), 'fact')}, {many(found.tokens, 'token')}, {found.timings.get('total', 0.0):.0f} ms"
