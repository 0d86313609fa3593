"""Conversion of the arguments of retain to messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from vmemo.errors import InvalidInput
from vmemo.models import Message
from vmemo.models.requests import MessageDefaults, MessageOptions, NewMessage

RetainContent: TypeAlias = str | Message | Sequence[str | Message]


def new_messages(content: object, options: MessageOptions) -> list[NewMessage]:
    """Return the messages to store.

    Role, speaker and timestamp of the options apply to plain texts. The document, tags and metadata also apply to
    messages, whose own values take precedence.
    """
    defaults = MessageDefaults.of(options)
    return [_new_message(item, defaults) for item in _items(content)]


def single_message(content: object, options: MessageOptions) -> list[NewMessage]:
    """Return the one message to store; raise InvalidInput for a list."""
    if not isinstance(content, str | Message):
        raise InvalidInput(f"Pass one text or Message, not {type(content).__name__}; retain() takes lists.")
    return new_messages(content, options)


def _items(content: object) -> Sequence[object]:
    if isinstance(content, str | Message):
        return [content]
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return cast("Sequence[object]", content)
    raise InvalidInput(f"content must be text, a Message or a list of them, not {type(content).__name__}.")


def _new_message(item: object, defaults: MessageDefaults) -> NewMessage:
    message = _own_values(item, defaults)
    update = {
        "document": message.document or defaults.document,
        "tags": tuple(dict.fromkeys((*message.tags, *defaults.tags))),
        "metadata": {**defaults.metadata, **message.metadata},
    }
    return message.model_copy(update=update)


def _own_values(item: object, defaults: MessageDefaults) -> NewMessage:
    if isinstance(item, Message):
        # A timestamp that was not given must not become part of the line's identity.
        given = {"id", *(item.model_fields_set & NewMessage.model_fields.keys())}
        given |= set() if item.document or defaults.document else {"timestamp"}
        return NewMessage.of({name: getattr(item, name) for name in given})
    if isinstance(item, str):
        given = defaults.model_fields_set & {"role", "speaker", "timestamp"}
        return NewMessage.of({"content": item, **{name: getattr(defaults, name) for name in given}})
    raise InvalidInput(f"A list of content must hold texts and Messages, not {type(item).__name__}.")
