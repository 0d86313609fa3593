"""`vmemo rekey`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from vmemo import rekey as change_key
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_DB, AsJson, Db
from vmemo.cli.output import print_json, stderr, stdout
from vmemo.cli.target import Target
from vmemo.errors import InvalidInput

_NEW_KEY = "VMEMO_NEW_ENCRYPTION_KEY"


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
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Encrypt a SQLite file, change its key or decrypt it; run it again to resume after an interruption.

    The present key is that of VMEMO_ENCRYPTION_KEY_FILE or VMEMO_ENCRYPTION_KEY. No other process may use the file.
    """
    new_key = _new_key(to_key_file, to_plain)
    with stderr().status("copying and verifying"):
        changed = asyncio.run(change_key(Target(db, "").url, new_key=new_key))
    if as_json:
        print_json({"changed": changed, "encrypted": not to_plain})
        return
    state = "decrypted" if to_plain else "encrypted with the new key"
    stdout().print(f"The database is {state}{'' if changed else ' already'}.")
    if changed:
        stdout().print("Open it without a key now." if to_plain else "Open it with the new key from now on.")


def _new_key(file: Path | None, to_plain: bool) -> str | Path | None:
    text = os.environ.get(_NEW_KEY) or None
    if to_plain + (file is not None) + (text is not None) != 1:
        raise InvalidInput(f"Pass one of --to-key-file and --to-plain, or set {_NEW_KEY}. Nothing was changed.")
    return text or file
