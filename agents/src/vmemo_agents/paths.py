"""Folders and files of the hooks. Imports little, because every hook process imports it."""

from __future__ import annotations

import os
from pathlib import Path

VERSION = "0.1.0"
"""The version of the protocol between hooks and their server, which is that of the distribution."""
MAX_LOG = 1 << 20
"""Bytes of the log file, after which it is renamed and begun again."""


def _folder(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    # The XDG specification ignores relative paths.
    return (Path(given) if os.path.isabs(given) else Path.home() / default) / "vmemo"


def state_folder() -> Path:
    """Return the folder of the log, the server's address and events that are not processed yet."""
    return _folder("XDG_STATE_HOME", ".local/state")


def log_file() -> Path:
    return state_folder() / "agents.log"


def address_file() -> Path:
    """Return the file with the port and the token of the running server."""
    return state_folder() / f"server-{VERSION}.json"


def spool_folder() -> Path:
    """Return the folder of events whose transcripts are not retained yet, one file each."""
    return state_folder() / "spool"


def database(given: str | None = None) -> str:
    """Return the database: the given one, that of VMEMO_URL, or a file in the user's data folder."""
    url = given or os.environ.get("VMEMO_URL") or str(_folder("XDG_DATA_HOME", ".local/share") / "agents.db")
    scheme, separator, path = url.rpartition("sqlite:///")
    if (separator and not scheme) or "://" not in url:
        return os.path.abspath(os.path.expanduser(path if separator else url))
    return url


def personal_bank(db: str) -> str:
    """Return the bank of what the person wishes in every project; empty if there is none.

    It is that of VMEMO_AGENTS_ME, or else `me` in a file of the user. A database on a server may be that of a team, so
    that there it must be named.
    """
    given = os.environ.get("VMEMO_AGENTS_ME")
    if given is not None:
        return "" if given == "none" else given
    return "" if "://" in db else "me"


def make_private(folder: Path) -> Path:
    """Create a folder that only the user may read, and return it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def made_spool_folder() -> Path:
    """Return the folder of events, which is created if there is none."""
    make_private(state_folder())
    return make_private(spool_folder())


def log(line: str) -> None:
    """Append a line to the log; a log that can't be written is not an error of the hook."""
    try:
        path = make_private(state_folder()) / log_file().name
        if path.exists() and path.stat().st_size > MAX_LOG:
            path.replace(path.with_suffix(".log.1"))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError:
        return
