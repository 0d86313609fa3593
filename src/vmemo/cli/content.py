"""Input of `vmemo retain`: text, a text file split into chunks, or a file of messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.models import Message

CHUNK = 20_000
"""Maximum characters of one message from a text file; longer files are split between paragraphs."""
_BREAKS = ("\n\n", "\n", " ")


def from_stdin() -> list[str]:
    """Return the text of standard input, in chunks."""
    return list(split_text(_decoded(sys.stdin.buffer.read(), "standard input")))


def from_file(path: Path, defaults: Mapping[str, object]) -> list[str] | list[Message]:
    """Return the messages of a JSON Lines file, or the chunks of a text file."""
    text = _decoded(path.read_bytes(), str(path))
    if path.suffix == ".jsonl":
        return list(parse_messages(text, str(path), defaults))
    return list(split_text(text))


def parse_messages(text: str, source: str, defaults: Mapping[str, object]) -> Iterator[Message]:
    """Yield a message per line; `defaults` fills missing fields."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _message(line, f"{source}: line {number}", defaults)


def _message(line: str, location: str, defaults: Mapping[str, object]) -> Message:
    try:
        values: JsonValue = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"{location} is not JSON. Nothing was retained.") from error
    if not isinstance(values, dict):
        raise InvalidInput(
            f"{location} must be an object with role, speaker, content and timestamp. Nothing was retained."
        )
    try:
        return Message.of({**defaults, **values})
    except InvalidInput as error:
        raise InvalidInput(f"{location}: {error}. Nothing was retained.") from error


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
