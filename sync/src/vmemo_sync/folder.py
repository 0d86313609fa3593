"""The files of a shared folder: one subfolder per bank, in it one per machine, in it that machine's log files.

A file is written once, under a temporary name, and renamed when it is whole; its name holds the hash of its content, so
that a file which arrives in part is known. Nobody writes into the folder of another machine.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from vmemo.errors import InvalidInput, VmemoError
from vmemo.models import new_id
from vmemo_sync.cipher import ENCRYPTED, SALT, Cipher
from vmemo_sync.data import BankData, joined, parts

PLAIN = b"vmemo-sync 1\n"
SUFFIX = ".log"
TEMPORARY = ".part"


class DamagedFile(VmemoError):
    """A file that is not whole, or was changed."""


@dataclass(frozen=True)
class LogFile:
    """One file of a machine."""

    path: Path

    @property
    def name(self) -> str:
        """The machine and the file name."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def number(self) -> int:
        return int(self.path.name.partition("-")[0])


@dataclass(frozen=True)
class BankFolder:
    """The files of one bank in a shared folder."""

    path: Path
    cipher: Cipher | None

    @staticmethod
    def of(folder: Path, bank: str, cipher: Cipher | None) -> BankFolder:
        # The name of a bank may hold any character, and may be text that an encrypted folder must not show.
        return BankFolder(folder.resolve() / sha256(f"vmemo bank {bank}".encode()).hexdigest()[:32], cipher)

    def files(self) -> list[LogFile]:
        """Return the files of all machines, those of one machine in the order of their numbers."""
        found = [LogFile(path) for path in self.path.glob(f"*/*{SUFFIX}") if _is_log(path)]
        return sorted(found, key=lambda file: (file.path.parent.name, file.number, file.path.name))

    def own(self, machine: str) -> list[LogFile]:
        return [file for file in self.files() if file.path.parent.name == machine]

    def read(self, file: LogFile) -> BankData:
        """Return the data of a file; raise DamagedFile if it is not whole."""
        return joined(self._entries(file))

    def _entries(self, file: LogFile) -> list[tuple[str, Mapping[str, object]]]:
        try:
            content = file.path.read_bytes()
        except OSError as error:
            raise DamagedFile(f"{file.name} can't be read: {error.strerror}") from error
        if sha256(content).hexdigest() != file.path.stem.partition("-")[2]:
            raise DamagedFile(f"{file.name} is incomplete or damaged")
        self._require_cipher(content, file.path)
        if self.cipher is not None:
            content = self.cipher.decrypt(content, file.path)
        lines = zlib.decompress(content.removeprefix(PLAIN)).splitlines()
        found = [json.loads(line) for line in lines]
        return [(str(kind), value) for kind, value in found]

    def _require_cipher(self, content: bytes, path: Path) -> None:
        encrypted = content.startswith(ENCRYPTED)
        if not encrypted and not content.startswith(PLAIN):
            raise InvalidInput(f"{path} was written by a newer vmemo. Nothing was changed. Upgrade this one.")
        if encrypted and self.cipher is None:
            raise InvalidInput(
                f"{path} is encrypted, and no key is set. Nothing was changed. Set VMEMO_ENCRYPTION_KEY_FILE or "
                "VMEMO_ENCRYPTION_KEY to the key of this folder."
            )
        if not encrypted and self.cipher is not None:
            raise InvalidInput(
                f"{path} is not encrypted, and a key is set. Nothing was changed. Synchronize an encrypted bank "
                "through another folder, which all machines open with the same key."
            )

    def require_readable(self) -> None:
        """Raise InvalidInput if a file needs another key than the one at hand, before anything is written."""
        newest = {file.path.parent: file for file in self.files()}
        for file in newest.values():
            with file.path.open("rb") as opened:
                start = opened.read(len(ENCRYPTED))
            if len(start) == len(ENCRYPTED):
                self._require_cipher(start, file.path)

    def write(self, machine: str, data: BankData, *, number: int | None = None) -> LogFile:
        """Write a file of this machine, whole or not at all; `number` puts it in the place of another."""
        lines = (json.dumps(entry, ensure_ascii=False, sort_keys=True) for entry in parts(data))
        content = zlib.compress("\n".join(lines).encode())
        folder = self.path / machine
        folder.mkdir(parents=True, exist_ok=True)
        if self.cipher is None:
            content = PLAIN + content
        else:
            content = self.cipher.encrypt(content, salt=sha256(machine.encode()).digest()[:SALT])
        if number is None:
            number = max((file.number for file in self.own(machine)), default=0) + 1
        path = folder / f"{number:08}-{sha256(content).hexdigest()}{SUFFIX}"
        partial = folder / f"{new_id()}{TEMPORARY}"
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(folder)
        return LogFile(path)

    def clean(self, machine: str) -> None:
        """Delete what an interrupted write of this machine has left."""
        for path in (self.path / machine).glob(f"*{TEMPORARY}"):
            path.unlink(missing_ok=True)

    def remove_forgotten(self, machine: str, forgotten: Mapping[str, object]) -> list[LogFile]:
        """Rewrite the files of this machine that hold what was forgotten; return the new ones.

        Of the facts of a curated message only the newest state is kept.
        """
        written: list[LogFile] = []
        newest: dict[str, LogFile] = {}
        held = {file.name: (file, self._own_data(file)) for file in self.own(machine)}
        for file, data in held.values():
            newest |= dict.fromkeys(data.curated, file)
        for file, data in held.values():
            outdated = {id for id in data.curated if newest[id].name != file.name}
            kept = _without(data, forgotten, outdated)
            if kept == data:
                continue
            if kept:
                written.append(self.write(machine, kept, number=file.number))
            file.path.unlink(missing_ok=True)
            _sync_folder(file.path.parent)
        return written

    def _own_data(self, file: LogFile) -> BankData:
        try:
            return self.read(file)
        except DamagedFile as error:
            raise InvalidInput(
                f"{error}, and this machine wrote it. Restore {file.path}, or delete it; the other machines that have "
                "read it hold its messages."
            ) from error


def _without(data: BankData, forgotten: Mapping[str, object], outdated: Iterable[str]) -> BankData:
    gone, old = set(forgotten), set(outdated)
    return replace(
        data,
        messages={id: message for id, message in data.messages.items() if id not in gone},
        curated={id: keys for id, keys in data.curated.items() if id not in gone and id not in old},
        derived={k: fact for k, fact in data.derived.items() if (gone | old).isdisjoint(fact.messages)},
        edited={
            id: fact
            for id, fact in data.edited.items()
            if id not in gone
            and gone.isdisjoint(fact.messages)
            and not (fact.messages and old.issuperset(fact.messages))
        },
        pins={key: pin for key, pin in data.pins.items() if gone.isdisjoint(pin.messages)},
        merges={id: merge for id, merge in data.merges.items() if id not in gone},
    )


def _is_log(path: Path) -> bool:
    number, _, hashed = path.stem.partition("-")
    return number.isdecimal() and len(hashed) == 64


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
