"""`vmemo forget`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.prompt import Confirm
from rich.text import Text

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, Model
from vmemo.cli.output import counted, one_line, print_json, stderr, stdout
from vmemo.cli.target import Target, run
from vmemo.models.results import Forgotten


@command(
    "vmemo forget --message 01934c1e-7f00-7a11-8a3e-5d2c9b6f0e41",
    "vmemo forget --document chat-2024-05 --yes",
    'vmemo forget --entity "Ines" --bank alice',
    "vmemo forget --all --yes --json",
)
def forget(  # noqa: PLR0913 - each is an option of the command line
    message: Annotated[list[str] | None, typer.Option(metavar="ID", help="A message id; repeatable.")] = None,
    document: Annotated[str | None, typer.Option(metavar="NAME", help="All messages of a document.")] = None,
    entity: Annotated[
        str | None, typer.Option(metavar="NAME|ID", help="An entity and every message that mentions it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole bank.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Delete messages and everything derived from them, permanently, from the database file too."""
    target = _target(message or [], document, entity, bank if everything else None)
    confirm_deletion(f"{target} from bank {one_line(bank)!r}", yes=yes)
    gone = run(
        Target(db, bank, llm),
        lambda memory: memory.forget(messages=message or [], document=document, entity=entity, bank=everything),
        embeds=False,
    )
    show_deleted(gone, as_json=as_json)


def confirm_deletion(target: str, *, yes: bool) -> None:
    """Ask for confirmation unless `yes`; abort the command if it is not given."""
    if not (yes or Confirm.ask(Text(f"Delete {target} permanently?"), console=stderr())):
        raise typer.Abort


def show_deleted(gone: Forgotten, *, as_json: bool) -> None:
    """Print the counts of what was deleted."""
    if as_json:
        print_json(gone.model_dump(mode="json"))
        return
    again = f" Processed again: {counted(gone.requeued, 'message')}." if gone.requeued else ""
    deleted = f"{counted(gone.messages, 'message')}, {counted(gone.facts, 'fact')}, {counted(gone.episodes, 'episode')}"
    stdout().print(f"Deleted: {deleted}, {counted(gone.entities, 'entity', 'entities')}.{again}")
    if gone.scrub_pending:
        stdout().print("Bytes of the deleted text may be left in the file; `vmemo doctor` removes them.")


def _target(messages: list[str], document: str | None, entity: str | None, bank: str | None) -> str:
    """Describe the target; raise BadParameter unless exactly one is given."""
    named = [f"{len(messages)} message(s)"] if messages else []
    named += [f"document {one_line(document)!r}"] if document is not None else []
    named += [f"entity {one_line(entity)!r} and every message that mentions it"] if entity is not None else []
    named += ["everything"] if bank is not None else []
    if len(named) != 1:
        raise typer.BadParameter("Give exactly one of --message (repeatable), --document, --entity or --all.")
    return named[0]
