"""`vmemo export` and `vmemo import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import counted, one_line, print_json, stderr, stdout
from vmemo.cli.target import Target, run


@command("vmemo export backup.jsonl", "vmemo export alice.jsonl --bank alice --force")
def export(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="The file to write, in JSON Lines.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Export a bank with its embeddings to a JSON Lines file."""
    if file.exists() and not force:
        raise typer.BadParameter(f"{file} exists; use --force to overwrite it.", param_hint="FILE")
    with stderr().status("exporting"):
        count = run(Target(db, bank), lambda memory: memory.export(file), embeds=False)
    if as_json:
        print_json({"bank": bank, "file": str(file), "records": count})
    else:
        stdout().print(f"{counted(count, 'record')} written to {one_line(str(file))}.", markup=False)


@command("vmemo import backup.jsonl", "vmemo import alice.jsonl --bank alice-restored --json", name="import")
def import_(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="A file written by vmemo export.")
    ],
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Import an exported bank under an unused name, in one transaction."""
    with stderr().status("importing"):
        count = run(Target(db, bank), lambda memory: memory.import_bank(file), requires="nothing")
    if as_json:
        print_json({"bank": bank, "file": str(file), "messages": count})
    else:
        stdout().print(f"{counted(count, 'message')} imported into bank {one_line(bank)!r}.", markup=False)
