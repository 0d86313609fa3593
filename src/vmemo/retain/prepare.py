"""Conversion of requested messages to messages that can be stored."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence

from vmemo.models import Message
from vmemo.models.requests import NewMessage


def prepare(messages: Sequence[NewMessage], *, infer: bool) -> list[Message]:
    """Return the messages to store, each with the key that identifies a repeated line of its document."""
    state = "pending" if infer else "raw"
    seen: Counter[str] = Counter()
    return [
        Message.of(
            {**_values(message), "state": state, "key": None if message.document is None else _key(message, seen)}
        )
        for message in messages
    ]


def _values(message: NewMessage) -> dict[str, object]:
    """Return the fields that were given; the message's defaults apply to the others."""
    values = ((name, getattr(message, name)) for name in NewMessage.model_fields)
    return {name: value for name, value in values if value is not None}


def _key(message: NewMessage, seen: Counter[str]) -> str | None:
    """Return a hash of the line. The time counts only if it was given; repeated lines of one request are counted."""
    if message.document is None:
        return None
    time = None if message.timestamp is None else message.timestamp.isoformat()
    line = json.dumps([message.role, message.speaker, message.content, time], ensure_ascii=False)
    seen[line] += 1
    return hashlib.blake2b(f"{seen[line]}\n{line}".encode(), digest_size=16).hexdigest()
