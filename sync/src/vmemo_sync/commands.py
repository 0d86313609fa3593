"""`vmemo fork`, `vmemo diff`, `vmemo merge` and `vmemo sync`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vmemo import InvalidInput, Memory
from vmemo.cli.command import Output, command
from vmemo.cli.options import DatabaseWithModels, OnBank, SomeBanks, WithModels
from vmemo.cli.output import stderr
from vmemo.cli.target import Target, require_banks, run
from vmemo_sync import branches, synchronize
from vmemo_sync.synchronize import Synced

NewBank = Annotated[str, typer.Argument(metavar="NAME", help="The name of the copy.")]
OtherBank = Annotated[str, typer.Argument(metavar="OTHER", help="The bank to compare with --bank.")]
Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The bank to merge into --bank; it is not changed.")]
OtherDatabase = Annotated[
    str | None,
    typer.Option("--from-db", metavar="URL|FILE", help="The database of the other bank. Default: that of --db."),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="A folder that all machines share.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        dir_okay=False,
        help="The file with the key of an encrypted folder. Default: the key of the encrypted database.",
    ),
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="Derive all facts again whenever a message is new, not only if the order matters."),
]
Anew = Annotated[
    bool, typer.Option("--anew", help="Publish everything again, after the files of this machine were lost.")
]


@command("vmemo fork experiment", "vmemo fork alice-experiment --bank alice --db team.db")
def fork(name: NewBank, *, target: OnBank) -> Output:
    """Copy a bank with all its records under a new name, as a branch that can be merged."""
    forked = run(target, lambda memory: branches.fork(memory, name), embeds=False)
    return Output(forked, str(forked))


@command("vmemo diff experiment", "vmemo diff alice --bank alice --from-db laptop.db --json")
def diff(other: OtherBank, from_db: OtherDatabase = None, *, target: OnBank) -> Output:
    """Show what only one of two banks holds: messages, facts, edits, pins and merges of entities."""

    async def compare(memory: Memory) -> branches.BankDiff:
        second = await _other(memory, target, other, from_db)
        try:
            return await branches.diff(memory, second)
        finally:
            await second.close()

    found = run(target, compare, embeds=False)
    return Output(found, str(found))


@command("vmemo merge experiment", "vmemo merge alice --bank alice --from-db laptop.db")
def merge(source: Source, from_db: OtherDatabase = None, *, target: WithModels) -> Output:
    """Add the messages and decisions of another bank to a bank, and derive facts from all of them."""

    async def join(memory: Memory) -> branches.Merged:
        other = await _other(memory, target, source, from_db)
        try:
            return await branches.merge(other, memory)
        finally:
            await other.close()

    with stderr().status("merging"):
        merged = run(target, join)
    return Output(merged, str(merged))


async def _other(memory: Memory, target: Target, bank: str, db: str | None) -> Memory:
    if db is None:
        await require_banks(target, bank)
        return memory.bank(bank)
    await require_banks(replace(target, db=db), bank)
    return Memory(replace(target, db=db).url, bank, settings=target.settings())


@command(
    "vmemo sync ~/Dropbox/memory",
    "vmemo sync /mnt/team --bank notes --bank work --db memory.db",
    "VMEMO_ENCRYPTION_KEY_FILE=key vmemo sync ~/Dropbox/memory   encrypts the files, like the database",
    resume="vmemo sync FOLDER",
)
def sync(
    folder: Folder,
    bank: SomeBanks = None,
    key_file: KeyFile = None,
    exact: Exact = False,
    anew: Anew = False,
    *,
    target: DatabaseWithModels,
) -> Output:
    """Exchange what is new in banks with other machines through a shared folder. Default: all banks of the database."""
    key = _key(target, key_file)

    async def exchange(memory: Memory) -> list[Synced]:
        await memory.store.open()
        names: Sequence[str] = bank or [each.id for each in await memory.store.banks()] or [target.bank]
        return [await synchronize.sync(memory.bank(name), folder, key=key, exact=exact, anew=anew) for name in names]

    with stderr().status("synchronizing"):
        done = run(target, exchange, requires="nothing")
    return Output(done, "\n".join(map(str, done)))


def _key(target: Target, file: Path | None) -> str | bytes | None:
    """Return the key of the folder: that of the file, or that of the encrypted database."""
    settings = target.settings()
    file = file or settings.encryption_key_file
    if file is not None:
        key = file.read_text("utf-8").strip()
        if not key:
            raise InvalidInput(f"{file} is empty. Nothing was changed. Put the key of the folder into it.")
        return key
    return settings.encryption_key() if callable(settings.encryption_key) else settings.encryption_key
