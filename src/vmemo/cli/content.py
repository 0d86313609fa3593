"""What `vmemo retain` is given, as content for the verb: a text, a text file in pieces, or a file of messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.models import Message

PIECE = 20_000
"""Characters of a text file that make one message at most; a longer file is cut between paragraphs."""
_BREAKS = ("\n\n", "\n", " ")


def from_stdin() -> list[str]:
    """All of standard input as text."""
    return list(pieces(_decoded(sys.stdin.buffer.read(), "standard input")))


def from_file(path: Path, defaults: Mapping[str, object]) -> list[str] | list[Message]:
    """A file's messages where it is JSON Lines, else its text."""
    text = _decoded(path.read_bytes(), str(path))
    if path.suffix == ".jsonl":
        return list(messages(text, str(path), defaults))
    return list(pieces(text))


def messages(text: str, source: str, defaults: Mapping[str, object]) -> Iterator[Message]:
    """A message from each line; what a line leaves out comes from the defaults."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _message(line, f"{source}: line {number}", defaults)


def _message(line: str, place: str, defaults: Mapping[str, object]) -> Message:
    try:
        values: JsonValue = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"{place} is not JSON. Nothing was retained.") from error
    if not isinstance(values, dict):
        raise InvalidInput(f"{place} is not an object with role, speaker, content and timestamp. Nothing was retained.")
    try:
        return Message.of({**defaults, **values})
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}. Nothing was retained.") from error


def pieces(text: str) -> Iterator[str]:
    """A long text cut at the last paragraph, line or word that fits; the pieces of a longer version start the same."""
    rest = text.strip()
    while len(rest) > PIECE:
        cut = next((at for at in (rest.rfind(mark, 1, PIECE) for mark in _BREAKS) if at > 0), PIECE)
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip()
    yield rest


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source} is not UTF-8 text. Nothing was retained.") from error
