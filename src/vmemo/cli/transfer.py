"""`vmemo export` and `vmemo import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import clipped, many, print_json, stderr, stdout
from vmemo.cli.target import Place, run


@command("vmemo export backup.jsonl", "vmemo export alice.jsonl --bank alice --force")
def export(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="The file to write, in JSON Lines.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Write a whole bank to a file, vectors included."""
    if file.exists() and not force:
        raise typer.BadParameter(f"{file} exists; --force replaces it.", param_hint="FILE")
    with stderr().status("exporting"):
        count = run(Place(db, bank), lambda memory: memory.export(file))
    if as_json:
        print_json({"bank": bank, "file": str(file), "records": count})
    else:
        stdout().print(f"{many(count, 'record')} written to {clipped(str(file))}.", markup=False)


@command("vmemo import backup.jsonl", "vmemo import alice.jsonl --bank alice-restored --json", name="import")
def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="A file made by export.")],
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Load an exported bank under a name that is free, whole or not at all."""
    with stderr().status("importing"):
        count = run(Place(db, bank), lambda memory: memory.import_bank(file), creates=True)
    if as_json:
        print_json({"bank": bank, "file": str(file), "messages": count})
    else:
        stdout().print(f"{many(count, 'message')} imported into bank {clipped(bank)!r}.", markup=False)
