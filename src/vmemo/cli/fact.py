"""`vmemo fact`: read, edit, pin and delete one fact."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from vmemo.cli.command import command
from vmemo.cli.forget import confirm_deletion, show_deleted
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, Model, parse_time
from vmemo.cli.output import one_line, print_json, stdout
from vmemo.cli.tables import version_table
from vmemo.cli.target import Target, run
from vmemo.models import Fact

FactArgument = Annotated[str, typer.Argument(metavar="FACT", help="A fact's id or short id.")]


@command("vmemo fact get 0f9a3c52", "vmemo fact get 0f9a3c52 --json", name="fact get")
def get(fact: FactArgument, db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """Show one fact."""
    _show(run(Target(db, bank), lambda memory: memory.get(fact), embeds=False), as_json=as_json)


@command("vmemo fact history 0f9a3c52", "vmemo fact history 0f9a3c52 --json", name="fact history")
def history(fact: FactArgument, db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """Show all versions of a fact, oldest first."""
    found = run(Target(db, bank), lambda memory: memory.history(fact), embeds=False)
    if as_json:
        print_json({"facts": [each.model_dump(mode="json") for each in found]})
    else:
        stdout().print(version_table(found))


@command(
    'vmemo fact update 0f9a3c52 "Ana lives in Porto."',
    'vmemo fact update 0f9a3c52 "Ana lives in Porto." --valid-at 2024-03-01 --reason "She moved." --json',
    name="fact update",
)
def update(
    fact: FactArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The new text.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, which `vmemo why` shows.")] = "",
    valid_at: Annotated[
        datetime | None,
        typer.Option(
            parser=parse_time,
            metavar="TIME",
            help="Since when it is true: a date, or a time with a time zone. Default: now.",
        ),
    ] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Write a new version of a fact; the old one is closed and stays in its history."""
    written = run(Target(db, bank), lambda memory: memory.update(fact, text, reason, valid_at=valid_at))
    _show(written, as_json=as_json)


@command("vmemo fact delete 0f9a3c52", "vmemo fact delete 0f9a3c52 --yes --json", name="fact delete")
def delete(
    fact: FactArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Delete one fact with what rests on it, and the messages that state nothing else."""
    confirm_deletion(f"fact {one_line(fact)} from bank {one_line(bank)!r}", yes=yes)
    show_deleted(run(Target(db, bank, llm), lambda memory: memory.delete(fact)), as_json=as_json)


@command("vmemo fact pin 0f9a3c52", "vmemo fact pin 0f9a3c52 --json", name="fact pin")
def pin(fact: FactArgument, db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """Pin a current fact, so that maintenance never closes it."""
    _show(run(Target(db, bank), lambda memory: memory.pin(fact)), as_json=as_json)


@command("vmemo fact unpin 0f9a3c52", "vmemo fact unpin 0f9a3c52 --json", name="fact unpin")
def unpin(fact: FactArgument, db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """Unpin a fact."""
    _show(run(Target(db, bank), lambda memory: memory.unpin(fact)), as_json=as_json)


def _show(fact: Fact, *, as_json: bool) -> None:
    if as_json:
        print_json(fact.model_dump(mode="json"))
        return
    marks = ", pinned" if fact.pinned else ""
    stdout().print(f"{one_line(fact.text)}\n{fact.network}, {fact.engine} engine{marks}, {fact.id}", markup=False)
