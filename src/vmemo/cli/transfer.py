"""Commands that move banks or change how they are stored: `export`, `import`, `migrate`, `rekey` and `reembed`."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.progress import TaskID

from vmemo import Memory, MigrationProgress, MigrationReport, MovedBank, migrate as move, rekey as change_key
from vmemo.cli.command import Output, command
from vmemo.cli.options import AsJson, OnBank, OnDatabase, SomeBanks, WithEmbedder, WithModel
from vmemo.cli.output import one_line, progress, stderr
from vmemo.cli.retain import retained_text
from vmemo.cli.target import Target, run
from vmemo.errors import InvalidInput
from vmemo.models.records import counted
from vmemo.transfer.files import is_export
from vmemo.transfer.foreign import ForeignFormat

IMPORTERS = "vmemo.importers"
"""Entry point group: functions of other distributions that import a file or folder into a memory, by format."""
_NEW_KEY = "VMEMO_NEW_ENCRYPTION_KEY"
_PLURALS = {"entity": "entities", "spending": "spendings"}
_STEPS = {"load": "loading", "verify": "verifying"}


@command("vmemo export backup.jsonl", "vmemo export alice.jsonl --bank alice --force")
def export(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="The file to write, in JSON Lines.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    *,
    target: OnBank,
) -> Output:
    """Export a bank with its embeddings to a JSON Lines file."""
    if file.exists() and not force:
        raise typer.BadParameter(f"{file} exists; use --force to overwrite it.", param_hint="FILE")
    with stderr().status("exporting"):
        count = run(target, lambda memory: memory.export(file), embeds=False)
    value = {"bank": target.bank, "file": str(file), "records": count}
    return Output(value, f"{counted(count, 'record')} written to {one_line(str(file))}.")


@command(
    "vmemo import backup.jsonl",
    "vmemo import alice.jsonl --bank alice-restored --json",
    "vmemo import mem0.json --from mem0",
    "vmemo import chatgpt-export.zip --from chatgpt --bank me",
    "vmemo import ~/.claude/projects/my-project --from claude-code --bank my-project",
    name="import",
)
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, readable=True, help="A file written by vmemo export or another product, or transcripts."
        ),
    ],
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PRODUCT",
            help="The product that wrote the file: vmemo, mem0, zep, hindsight, chatgpt, claude or chat, detected by "
            "default; with vmemo[agents] also claude-code, codex, cursor, gemini-cli or opencode.",
        ),
    ] = None,
    *,
    target: WithModel,
) -> Output:
    """Import an exported bank under an unused name, or add the export of another product to a bank."""
    with stderr().status("importing"):
        if origin == "vmemo" or (origin is None and is_export(file)):
            # The facts are in the file, so no model is needed.
            count = run(replace(target, llm=None), lambda memory: memory.import_bank(file), requires="nothing")
            value = {"bank": target.bank, "file": str(file), "messages": count}
            return Output(value, f"{counted(count, 'message')} imported into bank {one_line(target.bank)!r}.")
        added = [point.load() for point in entry_points(group=IMPORTERS, name=origin or "")]
        read = added[0] if added else partial(Memory.import_from, format=cast("ForeignFormat | None", origin))
        retained = run(target, lambda memory: read(memory, file), requires="nothing")
    return Output(retained, retained_text(retained))


@command(
    "vmemo migrate memory.db postgresql://vmemo@localhost/vmemo",
    "vmemo migrate postgresql://vmemo@localhost/vmemo sqlite:///copy.db --bank alice --bank bob",
    "vmemo migrate memory.db team.db --json   run it again to resume after an interruption",
)
def migrate(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The database to copy from; it is not modified.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The database to copy to; created if it does not exist.")
    ],
    bank: SomeBanks = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard what interrupted migrations left in TARGET and start over.")
    ] = False,
    as_json: AsJson = False,
) -> Output:
    """Copy banks into another database and verify them; run it again to resume after an interruption."""
    with progress(shown=not as_json) as bars:
        steps: dict[str, TaskID] = {}

        def show(now: MigrationProgress) -> None:
            """Show one bar per step, over the records of all banks."""
            if now.step not in steps:
                steps[now.step] = bars.add_task(_STEPS[now.step], total=now.total)
            description = f"{_STEPS[now.step]} {one_line(now.bank, 30)}"
            bars.update(steps[now.step], description=description, completed=now.done, total=now.total)

        urls = Target(source).url, Target(target).url
        try:
            report = asyncio.run(move(*urls, banks=bank or None, restart=restart, on_progress=show))
        except KeyboardInterrupt:
            stderr().print("Stopped. Records loaded so far are kept; run the same command to resume.")
            raise
    return Output(report, _report(report))


def _report(report: MigrationReport) -> str:
    moved = sum(bank.state == "moved" for bank in report.banks)
    identical = len(report.banks) - moved
    passed = f"; {counted(identical, 'bank')} already present and identical" if identical else ""
    left = "is left unfinished in the target by another migration; --restart discards it."
    return "\n".join(
        [
            *map(_moved, report.banks),
            f"{counted(moved, 'bank')} copied and verified{passed}.",
            *(f"Bank {one_line(name)!r} {left}" for name in report.unfinished),
        ]
    )


def _moved(bank: MovedBank) -> str:
    counts = (counted(count, kind, _PLURALS.get(kind)) for kind, count in bank.records.items())
    name, held = one_line(bank.bank), ", ".join(counts) or "empty"
    if bank.state == "identical":
        return f"{name}: already present and identical ({held})"
    resumed = f"; {counted(bank.resumed, 'record')} from an earlier run" if bank.resumed else ""
    pending = f"; {counted(bank.pending, 'pending message')} queued" if bank.pending else ""
    left = ", ".join(f"{count:,} {kind}" for kind, count in bank.left.items())
    behind = f"; queued jobs not copied: {left}" if left else ""
    return f"{name}: {held}{resumed}{pending}{behind}"


@command(
    "vmemo rekey --to-key-file key   encrypts a plain file",
    "VMEMO_ENCRYPTION_KEY_FILE=key vmemo rekey --to-key-file new-key --db team.db",
    "VMEMO_ENCRYPTION_KEY_FILE=key vmemo rekey --to-plain",
)
def rekey(
    to_key_file: Annotated[
        Path | None,
        typer.Option(
            "--to-key-file",
            envvar=f"{_NEW_KEY}_FILE",
            metavar="FILE",
            help=f"The file that holds the new key. Or set {_NEW_KEY} to the key itself.",
        ),
    ] = None,
    to_plain: Annotated[bool, typer.Option("--to-plain", help="Decrypt the database.")] = False,
    *,
    target: OnDatabase,
) -> Output:
    """Encrypt a SQLite file, change its key or decrypt it; run it again to resume after an interruption.

    The present key is that of VMEMO_ENCRYPTION_KEY_FILE or VMEMO_ENCRYPTION_KEY. No other process may use the file.
    """
    new_key = _new_key(to_key_file, to_plain)
    with stderr().status("copying and verifying"):
        changed = asyncio.run(change_key(target.url, new_key=new_key))
    state = "decrypted" if to_plain else "encrypted with the new key"
    then = "Open it without a key now." if to_plain else "Open it with the new key from now on."
    text = f"The database is {state}.\n{then}" if changed else f"The database is {state} already."
    return Output({"changed": changed, "encrypted": not to_plain}, text)


def _new_key(file: Path | None, to_plain: bool) -> str | Path | None:
    text = os.environ.get(_NEW_KEY) or None
    if to_plain + (file is not None) + (text is not None) != 1:
        raise InvalidInput(f"Pass one of --to-key-file and --to-plain, or set {_NEW_KEY}. Nothing was changed.")
    return text or file


@command(
    "vmemo reembed --embedder openai:text-embedding-3-small",
    "vmemo reembed   with the packaged embedder",
    "vmemo reembed --bank alice --db sqlite:///team.db --json",
    resume="vmemo reembed",
)
def reembed(*, target: WithEmbedder) -> Output:
    """Switch a bank to another embedder; the bank stays readable meanwhile."""
    with stderr().status("embedding facts"):
        count = run(target, lambda memory: memory.reembed())
    return Output({"bank": target.bank, "facts": count}, f"{counted(count, 'fact')} embedded.")
