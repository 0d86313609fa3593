"""What the caller hands in, as messages ready to be stored."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypedDict, cast

from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.models import Message, Role, utc_now
from vmemo.models.base import MAX_NAME

MAX_BATCH = 100_000
"""Messages one retain may take."""


class MessageOptions(TypedDict, total=False):
    """What is said of a text that is handed in bare, or of every message of a list."""

    document: str | None
    role: Role
    speaker: str | None
    timestamp: datetime
    tags: Sequence[str]
    metadata: Mapping[str, JsonValue]


def prepare(content: object, options: MessageOptions, *, infer: object) -> list[Message]:
    """Messages to store, each with the key that tells a repetition inside its document."""
    _check(options)
    if not isinstance(infer, bool):
        raise InvalidInput(f"infer must be True or False, not {infer!r}.")
    shared = _shared(options)
    messages = [_with(message, shared) for message in _messages(content, options)]
    if not messages:
        raise InvalidInput("There is nothing to retain: the list is empty.")
    for message in messages:
        _check_storable(message)
    state = "pending" if infer else "raw"
    keys = _keys(messages)
    return [
        message.model_copy(update={"state": state, "key": key, "error": None})
        for message, key in zip(messages, keys, strict=True)
    ]


def single(content: object) -> str | Message:
    """The one text or message that a verb for one message was given."""
    if isinstance(content, str | Message):
        return content
    raise InvalidInput(f"One text or Message is stored here, not {type(content).__name__}; retain takes lists.")


def _check(options: MessageOptions) -> None:
    """Refuse what would otherwise be left out without a word, or be read as something else."""
    unknown = sorted(options.keys() - MessageOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(MessageOptions.__annotations__)
        raise InvalidInput(f"There is no option {unknown[0]!r}; there are {known}.")
    moment: object = options.get("timestamp", utc_now())
    if not isinstance(moment, datetime):
        raise InvalidInput(f"timestamp must be a datetime with a time zone, not {moment!r}.")


def _check_storable(message: Message) -> None:
    if not message.id.strip() or not message.id.isprintable() or len(message.id) > MAX_NAME:
        raise InvalidInput(f"A message's id must be {MAX_NAME} printable characters at most, not {message.id!r:.40}.")
    try:
        json.dumps(dict(message.metadata), ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        raise InvalidInput(f"metadata must be JSON in valid Unicode: {error}.") from error


def _messages(content: object, options: MessageOptions) -> Iterable[Message]:
    if isinstance(content, Message):
        return [content]
    if isinstance(content, str):
        return [_from_text(content, options)]
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        items = cast("Sequence[object]", content)
        if len(items) > MAX_BATCH:
            raise InvalidInput(f"A list may hold {MAX_BATCH:,} messages; this one holds {len(items):,}.")
        return [_item(item, options) for item in items]
    raise InvalidInput(f"Content must be text, a Message or a list of them, not {type(content).__name__}.")


def _item(item: object, options: MessageOptions) -> Message:
    if isinstance(item, Message):
        return item
    if isinstance(item, str):
        return _from_text(item, options)
    raise InvalidInput(f"A list must hold texts and Messages, not {type(item).__name__}.")


def _from_text(text: str, options: MessageOptions) -> Message:
    given = {key: value for key, value in options.items() if key in ("role", "speaker", "timestamp")}
    return Message.of({"content": text, **given})


def _shared(options: MessageOptions) -> Message:
    """What is given for all, checked by being put into a message."""
    given = {key: value for key, value in options.items() if key in ("document", "tags", "metadata")}
    return Message.of({"content": "-", **given})


def _with(message: Message, shared: Message) -> Message:
    """The message with the document, tags and metadata given for all; its own come first."""
    update = {
        "document": message.document or shared.document,
        "tags": tuple(dict.fromkeys((*message.tags, *shared.tags))),
        "metadata": {**shared.metadata, **message.metadata},
    }
    return message.model_copy(update=update)


def _keys(messages: Sequence[Message]) -> list[str | None]:
    """One key per message with a document. The time counts only where the caller gave it; repeated lines count."""
    seen: Counter[str] = Counter()
    return [None if message.document is None else _key(message, seen) for message in messages]


def _key(message: Message, seen: Counter[str]) -> str:
    moment = message.timestamp.isoformat() if "timestamp" in message.model_fields_set else None
    said = json.dumps([message.role, message.speaker, message.content, moment], ensure_ascii=False)
    seen[said] += 1
    return hashlib.blake2b(f"{seen[said]}\n{said}".encode(), digest_size=16).hexdigest()
