"""`vmemo export` and `vmemo import`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, Model
from vmemo.cli.output import counted, one_line, print_json, stderr, stdout
from vmemo.cli.retain import show
from vmemo.cli.target import Target, run
from vmemo.transfer.files import is_export


class Origin(Enum):
    """The products whose files are imported."""

    VMEMO = "vmemo"
    MEM0 = "mem0"
    ZEP = "zep"
    HINDSIGHT = "hindsight"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    CHAT = "chat"


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


@command(
    "vmemo import backup.jsonl",
    "vmemo import alice.jsonl --bank alice-restored --json",
    "vmemo import mem0.json --from mem0",
    "vmemo import chatgpt-export.zip --from chatgpt --bank me",
    name="import",
)
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, readable=True, help="A file written by vmemo export or another product."
        ),
    ],
    origin: Annotated[
        Origin | None, typer.Option("--from", help="The product that wrote the file; detected by default.")
    ] = None,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Import an exported bank under an unused name, or add the export of another product to a bank."""
    if origin is Origin.VMEMO or (origin is None and is_export(file)):
        _import_bank(file, Target(db, bank), as_json)
        return
    format = None if origin is None else origin.value
    with stderr().status("importing"):
        retained = run(Target(db, bank, llm), lambda memory: memory.import_from(file, format), requires="nothing")
    if as_json:
        print_json(retained.model_dump(mode="json"))
    else:
        show(retained)


def _import_bank(file: Path, target: Target, as_json: bool) -> None:
    with stderr().status("importing"):
        count = run(target, lambda memory: memory.import_bank(file), requires="nothing")
    if as_json:
        print_json({"bank": target.bank, "file": str(file), "messages": count})
    else:
        stdout().print(f"{counted(count, 'message')} imported into bank {one_line(target.bank)!r}.", markup=False)
