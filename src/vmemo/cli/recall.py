"""`vmemo recall`."""

from __future__ import annotations

from typing import Annotated

import typer

from vmemo import Memory, Recalled
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
)
from vmemo.cli.output import many, plain, print_json, stdout, table, when, with_id
from vmemo.cli.place import Place, run


@command(
    'vmemo recall "Where does Maya work?"',
    'vmemo recall "Where did Maya work?" --at-time 2024-05-01T00:00Z --top-k 3',
    'vmemo recall "the flat" --max-tokens 500 --prompt',
    'vmemo recall "trips" --after 2024-06-01T00:00Z --before 2024-09-01T00:00Z --json',
)
def recall(  # noqa: PLR0913 - each is an option of the command line
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens that the facts may sum to.")] = 4096,
    top_k: Annotated[int | None, typer.Option(min=1, help="So many facts, however many tokens.")] = None,
    how_far: Budgeted = "mid",
    prompt: Annotated[bool, typer.Option("--prompt", help="Print what an LLM would be given.")] = False,
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
    most = budget(how_far)

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


def show(found: Recalled, title: str | None = None) -> None:
    """Hits as a table, with what they sum to."""
    if not found.hits:
        stdout().print("Memory holds nothing about this.")
        return
    rows = table("#>", "score>", "date", "network", "fact and its id", title=title)
    for rank, hit in enumerate(found.hits, start=1):
        kind = "verbatim" if hit.verbatim else hit.fact.network
        rows.add_row(str(rank), f"{hit.score:.3f}", when(hit.fact), kind, with_id(hit.text, hit.id))
    stdout().print(rows)
    stdout().print(f"[dim]{summary(found)}[/dim]")


def summary(found: Recalled) -> str:
    """How much was found, and how fast."""
    return f"{many(len(found.hits), 'fact')}, {many(found.tokens, 'token')}, {found.timings.get('total', 0.0):.0f} ms"
