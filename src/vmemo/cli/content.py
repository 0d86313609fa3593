"""Input of `vmemo retain`: text, a text file split into chunks, or a file of messages in JSON or JSON Lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.models import Message
from vmemo.models.request_fields import ChatMessage, chat_values

CHUNK = 20_000
"""Maximum characters of one message from a text file; longer files are split between paragraphs."""
_BREAKS = ("\n\n", "\n", " ")


def from_stdin() -> list[str]:
    """Return the text of standard input, in chunks."""
    return list(split_text(_decoded(sys.stdin.buffer.read(), "standard input")))


def from_file(path: Path, defaults: Mapping[str, object]) -> list[str] | list[Message | ChatMessage]:
    """Return the messages of a JSON or JSON Lines file, or the chunks of a text file.

    `defaults` fills missing fields of messages. Messages without text, such as tool calls, are returned as they are.
    """
    text = _decoded(path.read_bytes(), str(path))
    if path.suffix not in (".json", ".jsonl"):
        return list(split_text(text))
    items = _lines(text, str(path)) if path.suffix == ".jsonl" else _listed(text, str(path))
    return list(_messages(items, defaults))


def parse_lines(text: str, source: str) -> list[Message]:
    """Return the messages of JSON Lines."""
    return [message for message in _messages(_lines(text, source), {}) if isinstance(message, Message)]


def _lines(text: str, source: str) -> Iterator[tuple[str, JsonValue]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            location = f"{source}: line {number}"
            yield location, _parsed(line, location)


def _listed(text: str, source: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield the items of a JSON list, or of the list `messages` of a JSON object."""
    parsed = _parsed(text, source)
    messages = parsed.get("messages") if isinstance(parsed, dict) else parsed
    if not isinstance(messages, list):
        raise InvalidInput(
            f'{source} must be a list of messages, or an object with one as "messages". Nothing was retained. To '
            "retain JSON as text, pass it on standard input."
        )
    for number, values in enumerate(messages, start=1):
        yield f"{source}: message {number}", values


def _parsed(text: str, location: str) -> JsonValue:
    try:
        parsed: JsonValue = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{location} is not JSON. Nothing was retained.") from error
    return parsed


def _messages(
    items: Iterable[tuple[str, JsonValue]], defaults: Mapping[str, object]
) -> Iterator[Message | ChatMessage]:
    for location, values in items:
        if not isinstance(values, dict):
            raise InvalidInput(
                f"{location} must be an object with role, speaker, content and timestamp. Nothing was retained."
            )
        try:
            given = chat_values(values)
            yield values if given is None else _message(given, defaults)
        except InvalidInput as error:
            raise InvalidInput(f"{location}: {error}. Nothing was retained.") from error


def _message(given: Mapping[str, object], defaults: Mapping[str, object]) -> Message:
    values = {**defaults, **given}
    if values.get("role", "user") != defaults.get("role", "user"):
        # The speaker that the command names is not that of the other side.
        values["speaker"] = given.get("speaker")
    return Message.of(values)


def split_text(text: str) -> Iterator[str]:
    """Yield chunks of a text, split at the last paragraph, line or word that fits.

    A text that only grew at its end yields the same first chunks.
    """
    rest = text.strip()
    while len(rest) > CHUNK:
        cut = next((at for at in (rest.rfind(mark, 1, CHUNK) for mark in _BREAKS) if at > 0), CHUNK)
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip()
    yield rest


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source} is not UTF-8 text. Nothing was retained.") from error
