"""`vmemo inspect`: the contents of a bank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, assert_never

import typer
from pydantic import JsonValue
from rich.console import RenderableType
from rich.text import Text

from vmemo import Memory
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, Model
from vmemo.cli.output import plain, print_json, stdout
from vmemo.cli.tables import banks_table, entity_table, episode_table, fact_table, message_table, status_table
from vmemo.cli.target import Target, run
from vmemo.models import Entity, EntityId, Episode, EpisodeId, Fact, FactId, Message, MessageId

Listed = Literal["facts", "instructions", "pinned", "episodes", "entities", "messages"]
What = Literal["status", "banks", "facts", "instructions", "pinned", "episodes", "entities", "messages"]
Page = Sequence[Fact] | Sequence[Episode] | Sequence[Entity] | Sequence[Message]


@command(
    "vmemo inspect",
    "vmemo inspect facts --limit 50",
    "vmemo inspect instructions   the user's standing instructions",
    "vmemo inspect pinned         pinned facts",
    "vmemo inspect messages --document chat-2024-05 --json",
    "vmemo inspect facts --after 6d0c1f7e-…   the page after this id",
)
def inspect(  # noqa: PLR0913 - each is an option of the command line
    what: Annotated[What, typer.Argument(help="What to show.")] = "status",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Records on a page.")] = 20,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Start after this record.")] = None,
    document: Annotated[str | None, typer.Option(metavar="NAME", help="Only messages of this document.")] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Show a bank's status, or a page of its records."""
    if document is not None and what != "messages":
        raise typer.BadParameter("Only messages belong to a document.", param_hint="--document")
    target = Target(db, bank, llm)
    match what:
        case "status":
            status = run(target, lambda memory: memory.status(), embeds=False)
            _show(as_json, status.model_dump(mode="json"), status_table(status))
        case "banks":
            names = run(target, lambda memory: memory.banks(), requires="database")
            _show(as_json, {"banks": [*names]}, banks_table(names))
        case "facts" | "instructions" | "pinned" | "episodes" | "entities" | "messages":
            page = run(target, lambda memory: _page(memory, what, limit, after, document), embeds=False)
            _show_page(as_json, what, page, limit)


async def _page(memory: Memory, what: Listed, limit: int, after: str | None, document: str | None) -> Page:
    match what:
        case "facts" | "instructions" | "pinned":
            return await memory.facts(
                after=FactId(after) if after else None,
                limit=limit,
                instructions=what == "instructions",
                pinned=what == "pinned",
            )
        case "episodes":
            return await memory.episodes(after=EpisodeId(after) if after else None, limit=limit)
        case "entities":
            return await memory.entities(after=EntityId(after) if after else None, limit=limit)
        case "messages":
            return await memory.messages(document=document, after=MessageId(after) if after else None, limit=limit)
        case _:
            assert_never(what)


def _show_page(as_json: bool, what: Listed, page: Page, limit: int) -> None:
    more = page[-1].id if len(page) == limit else None
    _show(as_json, {what: [item.model_dump(mode="json") for item in page], "next": more}, _table(page))
    if more and not as_json:
        stdout().print(Text(f"For the next page add --after {plain(more)}", style="dim"))


def _table(page: Page) -> RenderableType:
    match page[0] if page else None:
        case Fact():
            return fact_table([item for item in page if isinstance(item, Fact)])
        case Episode():
            return episode_table([item for item in page if isinstance(item, Episode)])
        case Entity():
            return entity_table([item for item in page if isinstance(item, Entity)])
        case Message():
            return message_table([item for item in page if isinstance(item, Message)])
        case None:
            return "Nothing here."


def _show(as_json: bool, value: JsonValue, shown: RenderableType) -> None:
    if as_json:
        print_json(value)
    else:
        stdout().print(shown)
