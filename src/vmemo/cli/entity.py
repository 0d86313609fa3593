"""`vmemo entity`: list entities, merge them and undo merges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import day, one_line, plain, print_json, stdout, table, with_id
from vmemo.cli.tables import entity_table
from vmemo.cli.target import Target, run
from vmemo.models import EntityId, Merge


@command("vmemo entity list", "vmemo entity list --limit 100 --bank alice --json", name="entity list")
def entities(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Entities on a page.")] = 20,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Start after this entity.")] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """List entities with their aliases."""
    start = EntityId(after) if after else None
    page = run(Target(db, bank), lambda memory: memory.entities(after=start, limit=limit), embeds=False)
    more = page[-1].id if len(page) == limit else None
    if as_json:
        print_json({"entities": [entity.model_dump(mode="json") for entity in page], "next": more})
        return
    stdout().print(entity_table(page) if page else "Nothing here.")
    if more:
        stdout().print(Text(f"For the next page add --after {plain(more)}", style="dim"))


@command("vmemo entity merges", "vmemo entity merges --bank alice --json", name="entity merges")
def merges(db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """List merges of entities and their reasons; `vmemo entity undo` reverts one."""
    found = run(Target(db, bank), lambda memory: memory.merges(), embeds=False)
    if as_json:
        print_json({"merges": [each.model_dump(mode="json") for each in found]})
    else:
        stdout().print(_merge_table(found) if found else "There are no merges.")


def _merge_table(found: Sequence[Merge]) -> Table:
    rows = table("when", "reason", "names and the merge's id")
    for each in found:
        undone = f"(undone {day(each.undone_at)}) " if each.undone_at is not None else ""
        rows.add_row(day(each.at), one_line(each.reason), with_id(undone + ", ".join(each.names), each.id))
    return rows


@command(
    'vmemo entity merge "Robert Hale" "Bob Hale"',
    'vmemo entity merge Robert Bob --reason "she said so" --json',
    name="entity merge",
)
def merge(
    keep: Annotated[str, typer.Argument(metavar="KEEP", help="The entity to keep, by name or id.")],
    absorb: Annotated[str, typer.Argument(metavar="ABSORB", help="The entity to merge into it.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, shown in the list of merges.")] = "",
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Merge two entities; all names stay as aliases, and the merge can be undone."""
    done = run(Target(db, bank), lambda memory: memory.merge_entities(keep, absorb, reason), embeds=False)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        names = ", ".join(done.names)
        stdout().print(f"Merged {one_line(names)} into {one_line(keep)}.", markup=False)
        stdout().print(Text(f"To undo: vmemo entity undo {done.id}", style="dim"), soft_wrap=True)


@command(
    "vmemo entity undo 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d   an id as `vmemo entity merges` shows it",
    "vmemo entity undo 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d --json",
    name="entity undo",
)
def undo(
    merge: Annotated[str, typer.Argument(metavar="MERGE", help="A merge's id.")],
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Undo a merge; the two entities are not merged again automatically."""
    apart = run(Target(db, bank), lambda memory: memory.undo_merge(merge), embeds=False)
    if as_json:
        print_json({"merge": merge, "entity": apart})
    else:
        stdout().print(f"Merge undone; entity {apart} is separate again.", soft_wrap=True)
