"""Files of other products: their JSON, JSON Lines or archives, and the records that every importer returns."""

from __future__ import annotations

import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from vmemo.errors import InvalidInput
from vmemo.models.records import in_words
from vmemo.models.requests import NewMessage
from vmemo.models.results import Skipped

ForeignFormat = Literal["mem0", "zep", "hindsight", "chatgpt", "claude", "chat"]
NOTHING_IMPORTED = "Nothing was imported."
_IDS = UUID("6f1b9f0e-3c58-5d0b-9a54-2f0a7c1d8e43")
"""The namespace of the ids of imported messages."""


class ForeignModel(BaseModel):
    """A part of a foreign file; fields that are not needed are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True, defer_build=True)


M = TypeVar("M", bound=ForeignModel)


@dataclass(frozen=True)
class Place:
    """A place in a file, such as conversations[3].mapping, for the errors of what is found there."""

    file: str
    path: str = ""

    def __truediv__(self, name: str) -> Place:
        return Place(self.file, f"{self.path}.{name}" if self.path else name)

    def __getitem__(self, number: int) -> Place:
        return Place(self.file, f"{self.path}[{number}]")

    def error(self, problem: str) -> InvalidInput:
        return InvalidInput(f"{self.file}: {f'{self.path}: ' if self.path else ''}{problem}. {NOTHING_IMPORTED}")

    def parse(self, kind: type[M], value: object) -> M:
        """Return a part of the file as a model; raise InvalidInput that names the first field that does not fit."""
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            first, place = error.errors()[0], self
            for part in first["loc"]:
                place = place[part] if isinstance(part, int) else place / part
            raise place.error(in_words(first["type"], first["msg"])) from error

    def message(self, values: Mapping[str, object]) -> NewMessage:
        """Return a message to store; raise InvalidInput if one of its values can't be stored."""
        try:
            return NewMessage.of(without_none(values))
        except InvalidInput as error:
            raise self.error(str(error).rstrip(".")) from error


@dataclass(frozen=True, kw_only=True)
class StatedFact:
    """A fact that another product derived. Its text is the message's, and is stored as it is."""

    message: NewMessage
    network: Literal["world", "experience"] = "world"
    names: tuple[str, ...] = ()
    """Names of entities that the product found in it."""
    occurred: tuple[datetime, datetime] | None = None
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    expired_at: datetime | None = None
    expires_at: datetime | None = None
    """The time after which it is not recalled any more."""


@dataclass(frozen=True, kw_only=True)
class ForeignRecords:
    """The content of a foreign export, in the order of time.

    Facts are derived from `messages`; those that are `verbatim` are kept for recall by their words, because the file
    has the facts that another product derived from them.
    """

    messages: Sequence[NewMessage] = ()
    verbatim: Sequence[NewMessage] = ()
    facts: Sequence[StatedFact] = ()
    skipped: Sequence[Skipped] = ()


def derived_id(format: ForeignFormat, *parts: object) -> str:
    """Return the id of a record, which is the same whenever it is imported."""
    return str(uuid5(_IDS, "\n".join(map(str, (format, *parts)))))


def without_none(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that are there."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


MAX_UNPACKED = 4 << 30
"""Bytes of one file in an archive, at most: a small archive may unpack to more than a machine has."""


@dataclass(frozen=True)
class ForeignFile:
    """The values of a file: of JSON one, of JSON Lines one for each line; of an archive those of its files by name."""

    path: Path
    values: tuple[tuple[Place, JsonValue], ...] = ()
    members: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    lines: bool = False

    @property
    def place(self) -> Place:
        return Place(self.path.name)

    @property
    def value(self) -> JsonValue:
        """The value of a JSON file; None of others."""
        return None if self.lines or not self.values else self.values[0][1]


def read_file(path: Path) -> ForeignFile:
    """Return the content of a JSON file, a JSON Lines file or an archive of JSON files."""
    with _readable(path):
        if zipfile.is_zipfile(path):
            members = dict(_members(path))
            if not members:
                raise InvalidInput(f"{path} holds no .json file. {NOTHING_IMPORTED}")
            return ForeignFile(path, members=members)
        content = path.read_bytes()
    place = Place(path.name)
    text = _decoded(content, place)
    values = _value_or_lines(text, place)
    return ForeignFile(path, values=tuple(values), lines=len(values) != 1 or values[0][0] != place)


@contextmanager
def _readable(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}. {NOTHING_IMPORTED}") from error
    except InvalidInput:
        raise
    except RuntimeError as error:
        raise InvalidInput(
            f"{path} is encrypted, or compressed by a method that is not supported here. {NOTHING_IMPORTED} Unpack it, "
            "and import the files in it or an archive of them without a password."
        ) from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, ValueError) as error:
        raise InvalidInput(f"{path} is a damaged archive. {NOTHING_IMPORTED}") from error


def _members(path: Path) -> Iterator[tuple[str, JsonValue]]:
    """Yield the JSON files of an archive by name; pictures and other files are not read."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".json"):
                place = Place(f"{path.name}/{info.filename}")
                if info.file_size > MAX_UNPACKED:
                    raise place.error(f"unpacks to {info.file_size:,} bytes; at most {MAX_UNPACKED:,} are read")
                with archive.open(info) as file:
                    # The size in the directory may be a lie.
                    content = file.read(info.file_size)
                yield info.filename, _parsed(_decoded(content, place), place)


def _value_or_lines(text: str, place: Place) -> list[tuple[Place, JsonValue]]:
    """Return the value of a JSON text, or those of its lines if the first line is a value and not all of it."""
    first, _, rest = text.lstrip().partition("\n")
    try:
        json.loads(first)
    except ValueError:
        rest = ""
    if not rest.strip():
        return [(place, _parsed(text, place))]
    numbered = [(Place(f"{place.file}: line {n}"), line) for n, line in enumerate(io.StringIO(text), start=1)]
    return [(location, _parsed(line, location)) for location, line in numbered if line.strip()]


def _decoded(content: bytes, place: Place) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise place.error("is not UTF-8 text") from error


def _parsed(text: str, place: Place) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if "line " not in place.file else f"column {error.colno}"
        raise place.error(f"is not JSON ({error.msg} at {where})") from error
    except (ValueError, RecursionError) as error:
        raise place.error("is not JSON") from error
    return value
