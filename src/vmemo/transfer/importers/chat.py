"""Chat files: messages in the form of chat APIs, as a JSON list, an object with a list `messages`, or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from pydantic import JsonValue

from vmemo.models.results import Skipped
from vmemo.transfer.importers.reading import ForeignFile
from vmemo.transfer.importers.records import ForeignRecords, Place

ChatMessage: TypeAlias = Mapping[str, object]
"""A message in the form of chat APIs, such as {"role": "user", "content": "Hello", "name": "Ana"}.

The content is a text, or a list of parts whose texts are joined. Keys of `NewMessage`, such as `timestamp`, are
accepted too.
"""
_CALLS = frozenset({"tool_calls", "function_call"})
_WITHOUT_WORDS = _CALLS | {"tool_call_id", "refusal", "audio", "annotations", "type", "status"}
"""Keys of chat messages that are left out: they hold no words that were said."""
_ROLES = {"developer": "system", "function": "tool"}


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
    return chat_values(value)


def chat_values(message: ChatMessage) -> dict[str, object] | None:
    """Return the fields of a message that has the form of chat APIs; None if it has no text, such as a tool call."""
    values = {key: value for key, value in message.items() if key not in _WITHOUT_WORDS and value is not None}
    name = values.pop("name", None)
    role = values.get("role")
    if name is not None:
        values.setdefault("speaker", name)
    if isinstance(role, str):
        values["role"] = _ROLES.get(role, role)
    if "content" in values:
        values["content"] = _text(values["content"])
    elif "content" in message or _CALLS & message.keys():
        return None
    return None if values.get("content", "") is None else values


def _text(content: object) -> object:
    """Return the text of a list of parts, or None if they have none; other content is returned as it is."""
    if not isinstance(content, Sequence) or isinstance(content, str | bytes | bytearray):
        return content
    return "\n".join(_texts(cast("Sequence[object]", content))) or None


def _texts(parts: Sequence[object]) -> Iterator[str]:
    for part in parts:
        text = cast("Mapping[str, object]", part).get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            yield text
