"""Redaction of what is to be stored, before anything else sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue

from vmemo.errors import RedactionFailed
from vmemo.models.requests import NewMessage
from vmemo.models.settings import Redactor


async def redact_text(text: str, redactor: Redactor | None) -> str:
    """Return a text as the redactor leaves it."""
    return text if redactor is None else await asyncio.to_thread(_redacted, text, redactor)


async def redact_messages(
    messages: Sequence[NewMessage], redactor: Redactor | None
) -> tuple[Sequence[NewMessage], int]:
    """Return messages with their text and the texts in their metadata redacted, and the number that this changed.

    The redactor runs in a thread, so that a slow one does not stop the event loop.
    """
    if redactor is None:
        return messages, 0
    found = await asyncio.to_thread(lambda: [_redacted_message(message, redactor) for message in messages])
    return found, sum(new is not old for new, old in zip(found, messages, strict=True))


def _redacted_message(message: NewMessage, redactor: Redactor) -> NewMessage:
    content = _redacted(message.content, redactor)
    metadata = {name: _redacted_value(value, redactor) for name, value in message.metadata.items()}
    if content == message.content and metadata == message.metadata:
        return message
    return message.model_copy(update={"content": content, "metadata": metadata})


def _redacted_value(value: JsonValue, redactor: Redactor) -> JsonValue:
    if isinstance(value, str):
        return _redacted(value, redactor) if value.strip() else value
    if isinstance(value, list):
        return [_redacted_value(each, redactor) for each in value]
    if isinstance(value, dict):
        return {name: _redacted_value(each, redactor) for name, each in value.items()}
    return value


def _redacted(text: str, redactor: Redactor) -> str:
    try:
        found = cast("object", redactor(text))
    except Exception as error:
        # The text of the error may quote what was to be redacted.
        raise RedactionFailed(
            f"The redaction raised {type(error).__name__}. Nothing was stored; correct the function that was passed "
            "as redact, and retain the messages again."
        ) from error
    if not isinstance(found, str) or not found.strip():
        kind = "blank text" if isinstance(found, str) else type(found).__name__
        raise RedactionFailed(
            f"The redaction returned {kind} in place of text. Nothing was stored; return a marker for what is removed."
        )
    return found
