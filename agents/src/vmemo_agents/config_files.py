"""Changes of configuration files: merged into what is there, shown as a diff, and written with a backup."""

from __future__ import annotations

import difflib
import json
import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from vmemo import InvalidInput

Json = dict[str, Any]
OWN = "vmemo-hook"
"""The program whose name marks our hooks in a configuration."""
SERVER = "vmemo"
"""The name of our MCP server in a configuration."""
_BEGIN, _END = "# vmemo begin: written by `vmemo install`", "# vmemo end"


@dataclass(frozen=True)
class FileChange:
    """A file as it is and as it will be; None if it does not exist or is to be deleted."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    @property
    def diff(self) -> str:
        """The change in the form of `diff -u`."""
        before, after = ((text or "").splitlines() for text in (self.before, self.after))
        old, new = ("/dev/null" if text is None else str(self.path) for text in (self.before, self.after))
        return "\n".join(difflib.unified_diff(before, after, old, new, lineterm=""))

    def write(self) -> Path | None:
        """Write or delete the file, whole or not at all; return the copy of the file before, if there was one."""
        target = self.path.resolve()
        backup = None
        if self.before is not None:
            now = time.strftime("%Y%m%d-%H%M%S")
            backup = target.with_name(f"{target.name}.{now}.vmemo-backup")
            _write(backup, self.before, mode=target.stat().st_mode & 0o777)
        if self.after is None:
            target.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
            _write(partial, self.after, mode=target.stat().st_mode & 0o777 if target.exists() else 0o644)
            partial.replace(target)
        return backup


def _write(path: Path, text: str, *, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8", newline="") as file:
        file.write(text)


def read(path: Path) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text. Nothing was changed.") from error


def json_change(path: Path, edit: Callable[[Json], None]) -> FileChange:
    """Return the change that an edit makes to a JSON file; one that is left without content is deleted."""
    before = read(path)
    value: object = {}
    if before is not None and before.strip():
        try:
            value = json.loads(before)
        except ValueError as error:
            raise InvalidInput(
                f"{path} is not JSON ({error}); files with comments can't be merged. Nothing was changed: "
                "add what `vmemo install --dry-run` shows in an empty folder by hand."
            ) from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} must hold a JSON object. Nothing was changed.")
    known = cast("Json", value)
    original = json.dumps(known)
    edit(known)
    if json.dumps(known) == original:
        return FileChange(path, before, before)
    if not known or known == {"version": 1}:
        return FileChange(path, before, None)
    return FileChange(path, before, json.dumps(known, indent=_indent(before), ensure_ascii=False) + "\n")


def _indent(text: str | None) -> int | str:
    """Return the indentation of a JSON text."""
    match = re.search(r"\n([ \t]+)\"", text or "")
    return match[1] if match else 2


def toml_change(path: Path, table: Mapping[str, object] | None, header: str) -> FileChange:
    """Return the change that adds a table to a TOML file, or removes it; the rest of the file stays as it is.

    Our table is a block of lines at the end of the file, between two comments.
    """
    before = read(path)
    start, marked, rest = (before or "").partition(_BEGIN)
    if marked:
        rest = rest.partition(_END)[2].removeprefix("\n")
    kept = start.rstrip("\n") + "\n" * bool(start.strip()) + rest
    _parse(path, kept)
    if table is None:
        return FileChange(path, before, (kept if kept.strip() else None) if marked else before)
    if header in _tables(_parse(path, kept)):
        raise InvalidInput(f"{path} has a table [{header}] of its own. Nothing was changed: rename or remove it.")
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    block = "\n".join([_BEGIN, f"[{header}]", *lines, _END, ""])
    after = f"{kept.rstrip()}\n\n{block}" if kept.strip() else block
    _parse(path, after)
    return FileChange(path, before, after)


def _parse(path: Path, text: str) -> Json:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not TOML ({error}). Nothing was changed.") from error


def _tables(value: Json) -> set[str]:
    nested = ((name, cast("Json", each)) for name, each in value.items() if isinstance(each, dict))
    return {f"{name}.{inner}" for name, table in nested for inner in table}


def text_change(path: Path, after: str | None, *, mark: str) -> FileChange:
    """Return the change of a file that is ours alone; one without our mark is somebody's own."""
    before = read(path)
    if before is not None and mark not in before:
        if after is None:
            return FileChange(path, before, before)
        raise InvalidInput(f"{path} was not written by vmemo. Nothing was changed: rename or remove it.")
    return FileChange(path, before, after)
