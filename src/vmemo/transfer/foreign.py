"""Files of other products: their JSON or JSON Lines, and the records that an importer returns.

Chat files are read here: messages in the form of chat APIs, as a JSON list, an object with a list `messages`, or JSON
Lines. Archives and other formats are for `vmemo_integrations.importers`.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.extras import load_integration
from vmemo.models import BankId
from vmemo.models.requests import NewMessage, chat_values
from vmemo.models.results import Retained, Skipped
from vmemo.retain.context import RetainContext

ForeignFormat = Literal["mem0", "zep", "hindsight", "chatgpt", "claude", "chat"]
NOTHING_IMPORTED = "Nothing was imported."


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

    def message(self, values: Mapping[str, object]) -> NewMessage:
        """Return a message to store; raise InvalidInput if one of its values can't be stored."""
        try:
            return NewMessage.of(without_none(values))
        except InvalidInput as error:
            raise self.error(str(error).rstrip(".")) from error


@dataclass(frozen=True, kw_only=True)
class ForeignRecords:
    """The content of a foreign export, in the order of time.

    Facts are derived from `messages`; those that are `verbatim` are kept for recall by their words, because the file
    has the facts that another product derived from them.
    """

    messages: Sequence[NewMessage] = ()
    verbatim: Sequence[NewMessage] = ()
    store_facts: Callable[[BankId, RetainContext], Awaitable[Retained]] | None = None
    """Redacts and stores the facts that another product derived."""
    skipped: Sequence[Skipped] = ()


def without_none(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


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
    """Return the content of a JSON file or a JSON Lines file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}. {NOTHING_IMPORTED}") from error
    place = Place(path.name)
    values = _value_or_lines(decoded(content, place), place)
    return ForeignFile(path, values=tuple(values), lines=len(values) != 1 or values[0][0] != place)


def _value_or_lines(text: str, place: Place) -> list[tuple[Place, JsonValue]]:
    """Return the value of a JSON text, or those of its lines if the first line is a value and not all of it."""
    first, _, rest = text.lstrip().partition("\n")
    try:
        json.loads(first)
    except ValueError:
        rest = ""
    if not rest.strip():
        return [(place, parsed(text, place))]
    numbered = [(Place(f"{place.file}: line {n}"), line) for n, line in enumerate(io.StringIO(text), start=1)]
    return [(location, parsed(line, location)) for location, line in numbered if line.strip()]


def decoded(content: bytes, place: Place) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise place.error("is not UTF-8 text") from error


def parsed(text: str, place: Place) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if "line " not in place.file else f"column {error.colno}"
        raise place.error(f"is not JSON ({error.msg} at {where})") from error
    except (ValueError, RecursionError) as error:
        raise place.error("is not JSON") from error
    return value


_OF_PRODUCTS = frozenset(
    "mapping chat_messages memory results fact thread_id session_id threads edges facts episodes uuid role_type".split()
)
"""Keys of what other products export, and messages in the form of chat APIs do not have."""


def read_foreign(path: Path, format: ForeignFormat | None = None) -> ForeignRecords:
    """Return the validated records of a foreign export, whose format is detected unless it is given."""
    if format is not None and format not in get_args(ForeignFormat):
        known = f"{', '.join(get_args(ForeignFormat))}, or with vmemo[agents] a coding agent"
        raise InvalidInput(f"format must be one of {known}, not {format!r:.40}. {NOTHING_IMPORTED}")
    file = ForeignFile(path) if zipfile.is_zipfile(path) else read_file(path)
    if format == "chat" or (format is None and is_chat(file)):
        return read_chat(file)
    what = f"{path} is no chat file, and another format" if format is None else f"Importing from {format}"
    return load_integration("importers", what).read_export(file, format)


def is_chat(file: ForeignFile) -> bool:
    """Return True if the first record of a file is a message in the form of chat APIs."""
    value = file.values[0][1] if file.values else None
    while isinstance(value, list | dict) and value:
        if isinstance(value, list):
            value = value[0]
        elif not _OF_PRODUCTS.isdisjoint(value):
            return False
        elif "role" in value and "content" in value:
            return True
        else:
            value = value.get("messages")
    return False


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
