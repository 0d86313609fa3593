"""Files of other products: their JSON, JSON Lines or archives, their format, and the records that an importer returns.

Chat files are read here: messages in the form of chat APIs, as a JSON list, an object with a list `messages`, or JSON
Lines. The importers of other formats are in `vmemo_integrations.importers`.
"""

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
from typing import Literal, TypeVar, get_args
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from vmemo.errors import InvalidInput
from vmemo.extras import load_integration
from vmemo.models.records import in_words
from vmemo.models.requests import NewMessage, chat_values
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
    occurred: tuple[datetime, datetime] | None = None
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    expired_at: datetime | None = None
    expires_at: datetime | None = None


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


_CHAT_KEYS = ("role", "content")


def read_foreign(path: Path, format: ForeignFormat | None = None) -> tuple[ForeignFormat, ForeignRecords]:
    """Return the format of a foreign export, which is detected unless it is given, and its validated records."""
    file, formats = read_file(path), get_args(ForeignFormat)
    chosen = format or detect(file)
    if chosen is None:
        known = ", ".join(formats)
        raise InvalidInput(f"{path} is of no format that can be recognised. {NOTHING_IMPORTED} Name one: {known}.")
    if chosen not in formats:
        known = f"{', '.join(formats)}, or with vmemo[agents] a coding agent"
        raise InvalidInput(f"format must be one of {known}, not {chosen!r:.40}. {NOTHING_IMPORTED}")
    if chosen == "chat":
        return chosen, read_chat(file)
    return chosen, load_integration("importers", f"Importing from {chosen}").IMPORTERS[chosen](file)


def detect(file: ForeignFile) -> ForeignFormat | None:
    """Return the format of a file, by the keys of its first records; None if they fit none."""
    if "manifest.json" in file.members:
        return "hindsight"
    value = next((each for name, each in file.members.items() if "conversations" in name), None)
    return _of(value if file.members else file.values[0][1])


def _of(value: JsonValue) -> ForeignFormat | None:
    if isinstance(value, list):
        return _of(value[0]) if value and isinstance(value[0], dict) else None
    if not isinstance(value, dict):
        return None
    if "mapping" in value:
        return "chatgpt"
    if "chat_messages" in value:
        return "claude"
    if "memory" in value:
        return "mem0"
    if "results" in value:
        return _of(value["results"])
    return _conversation(value)


def _conversation(value: Mapping[str, JsonValue]) -> ForeignFormat | None:
    """Return the format of messages, which Zep's have ids, or of what else Zep stores."""
    if "fact" in value or "thread_id" in value or "session_id" in value:
        return "zep"
    if any(name in value for name in ("threads", "edges", "facts", "episodes")):
        return "zep"
    if all(name in value for name in _CHAT_KEYS):
        return "zep" if "uuid" in value or "role_type" in value else "chat"
    messages = value.get("messages")
    return None if messages is None else _of(messages)


def read_chat(file: ForeignFile) -> ForeignRecords:
    """Return the messages of a file. They belong to a document of its name, so that they are imported once."""
    found = [(place, chat_fields(place, value)) for place, value in chat_items(file)]
    document = {"document": f"chat/{file.path.name}"}
    return ForeignRecords(
        messages=[place.message({**document, **values}) for place, values in found if values is not None],
        skipped=[
            Skipped(what=place.path or place.file, reason="it has no text") for place, each in found if each is None
        ],
    )


def chat_items(file: ForeignFile) -> Iterator[tuple[Place, JsonValue]]:
    """Yield the messages of a file in the form of chat APIs, with their places."""
    if file.lines:
        yield from file.values
        return
    value = file.value
    if isinstance(value, dict):
        value = [value] if "content" in value else value.get("messages")
    if not isinstance(value, list):
        raise file.place.error('must be a list of messages, or an object with one as "messages"')
    yield from (((file.place / "messages")[number], each) for number, each in enumerate(value))


def chat_fields(place: Place, value: JsonValue) -> dict[str, object] | None:
    """Return the fields of a message; None if it has no text, such as a tool call."""
    if not isinstance(value, dict):
        raise place.error("must be an object with role and content")
    try:
        return chat_values(value)
    except InvalidInput as error:
        raise place.error(str(error)) from error
