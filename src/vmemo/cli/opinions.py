"""`vmemo opinions` and `vmemo observations`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vmemo import Fact, Memory
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import day, one_line, print_json, stdout, table, with_id
from vmemo.cli.tables import fact_table
from vmemo.cli.target import Target, run
from vmemo.errors import NotFound
from vmemo.models import ConfidenceChange


@command(
    "vmemo opinions",
    "vmemo opinions --why 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d   an id from the list",
    "vmemo opinions --bank alice --json",
)
def opinions(
    why: Annotated[str | None, typer.Option(metavar="ID", help="Show how this opinion's confidence changed.")] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """List current opinions with their confidence, or the confidence history of one."""
    target = Target(db, bank)
    if why is not None:
        opinion, moves = run(target, lambda memory: _history(memory, why), embeds=False)
        value: JsonValue = {
            "opinion": opinion.model_dump(mode="json"),
            "moves": [move.model_dump(mode="json") for move in moves],
        }
        shown: RenderableType = _trajectory(opinion, moves)
    else:
        held = run(target, lambda memory: memory.opinions(), embeds=False)
        value = {"opinions": [opinion.model_dump(mode="json") for opinion in held]}
        shown = _held(held) if held else "There are no opinions."
    if as_json:
        print_json(value)
    else:
        stdout().print(shown)


async def _history(memory: Memory, id: str) -> tuple[Fact, list[ConfidenceChange]]:
    opinion = (await memory.why(id)).fact
    if opinion.network != "opinion":
        raise NotFound(f"{id!r} is not an opinion. `vmemo opinions` lists opinions; use `vmemo why` for other facts.")
    return opinion, await memory.trajectory(id)


def _held(held: Sequence[Fact]) -> Table:
    rows = table("confidence>", "formed", "opinion and id")
    for opinion in held:
        rows.add_row(f"{opinion.confidence or 0:.2f}", day(opinion.mentioned_at), with_id(opinion.text, opinion.id))
    return rows


def _trajectory(opinion: Fact, moves: Sequence[ConfidenceChange]) -> RenderableType:
    head = Text.assemble((one_line(opinion.text), "bold"), f"\nconfidence {opinion.confidence or 0:.2f}, {opinion.id}")
    if not moves:
        return Group(head, "Its confidence has not changed.")
    rows = table("when", "stance", "confidence>", "reason and evidence")
    for move in moves:
        reason = Text.assemble(one_line(move.reason), *(("\n" + id, "dim") for id in move.evidence))
        rows.add_row(day(move.at), move.stance, f"{move.before:.2f} → {move.after:.2f}", reason)
    return Group(head, rows)


@command("vmemo observations", 'vmemo observations "Alice" --json', "vmemo observations Alice --bank team")
def observations(
    entity: Annotated[
        str | None, typer.Argument(metavar="ENTITY", help="An entity by name or id. Default: all.")
    ] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """List observations of an entity, or of all; `vmemo why` shows the facts behind one."""
    found = run(Target(db, bank), lambda memory: memory.observations(entity), embeds=False)
    if as_json:
        print_json({"observations": [fact.model_dump(mode="json") for fact in found]})
    else:
        stdout().print(fact_table(found) if found else "There are no observations.")
