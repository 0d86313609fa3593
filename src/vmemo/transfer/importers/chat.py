"""Chat files: messages in the form of chat APIs, as a JSON list, an object with a list `messages`, or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.models.request_fields import chat_values
from vmemo.models.results import Skipped
from vmemo.transfer.importers.reading import ForeignFile
from vmemo.transfer.importers.records import ForeignRecords, Place


def read(file: ForeignFile) -> ForeignRecords:
    """Return the messages of a file. They belong to a document of its name, so that they are imported once."""
    found = [(place, _values(place, value)) for place, value in _items(file)]
    document = {"document": f"chat/{file.path.name}"}
    return ForeignRecords(
        messages=[place.message({**document, **values}) for place, values in found if values is not None],
        skipped=[
            Skipped(what=place.path or place.file, reason="it has no text") for place, each in found if each is None
        ],
    )


def _items(file: ForeignFile) -> Iterator[tuple[Place, JsonValue]]:
    if file.lines:
        yield from file.values
        return
    value = file.value
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list):
        raise file.place.error('must be a list of messages, or an object with one as "messages"')
    yield from (((file.place / "messages")[number], each) for number, each in enumerate(messages))


def _values(place: Place, value: JsonValue) -> dict[str, object] | None:
    if not isinstance(value, dict):
        raise place.error("must be an object with role and content")
    try:
        return chat_values(value)
    except InvalidInput as error:
        raise place.error(str(error)) from error
