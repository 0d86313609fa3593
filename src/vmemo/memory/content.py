"""Conversion of the arguments of retain to messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from vmemo.errors import InvalidInput
from vmemo.models import Message
from vmemo.models.chat import ChatMessage, chat_values
from vmemo.models.requests import MessageDefaults, MessageOptions, NewMessage

RetainContent: TypeAlias = str | Message | ChatMessage | Sequence[str | Message | ChatMessage]


def new_messages(content: object, options: MessageOptions) -> list[NewMessage | ChatMessage]:
    """Return the messages to store; those without text, such as tool calls, are returned as they are.

    Role and timestamp of the options apply to texts and mappings that have none, the speaker to those of the options'
    role. The document, tags, metadata and expiry also apply to messages, whose own values take precedence.
    """
    defaults = MessageDefaults.of(options)
    found = [_own_values(item, defaults) for item in _items(content)]
    return [_with_defaults(own, defaults) if isinstance(own, NewMessage) else own for own in found]


def single_message(content: object, options: MessageOptions) -> NewMessage:
    """Return the one message to store; raise InvalidInput for a list."""
    if not isinstance(content, str | Message | Mapping):
        raise InvalidInput(f"Pass one text or Message, not {type(content).__name__}; retain() takes lists.")
    [message] = new_messages(cast("object", content), options)
    if not isinstance(message, NewMessage):
        raise InvalidInput("The message has no text: its content is empty, or holds no part of type text.")
    return message


def _items(content: object) -> Sequence[object]:
    if isinstance(content, str | Message | Mapping):
        return [cast("object", content)]
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return cast("Sequence[object]", content)
    raise InvalidInput(f"content must be text, a Message, a dict or a list of them, not {type(content).__name__}.")


def _with_defaults(message: NewMessage, defaults: MessageDefaults) -> NewMessage:
    own = message.ttl is not None or message.expires_at is not None
    update = {
        **({} if own else {"ttl": defaults.ttl, "expires_at": defaults.expires_at}),
        "document": message.document or defaults.document,
        "tags": tuple(dict.fromkeys((*message.tags, *defaults.tags))),
        "metadata": {**defaults.metadata, **message.metadata},
    }
    return message.model_copy(update=update)


def _own_values(item: object, defaults: MessageDefaults) -> NewMessage | ChatMessage:
    if isinstance(item, Message):
        # A timestamp that was not given must not become part of the line's identity.
        given = {"id", *(item.model_fields_set & NewMessage.model_fields.keys())}
        given |= set() if item.document or defaults.document else {"timestamp"}
        return NewMessage.of({name: getattr(item, name) for name in given})
    if isinstance(item, str):
        return NewMessage.of({"content": item, **_given(defaults, "role", "speaker", "timestamp")})
    if isinstance(item, Mapping):
        return _from_chat(cast("ChatMessage", item), defaults)
    raise InvalidInput(f"A list of content must hold texts, Messages and dicts, not {type(item).__name__}.")


def _from_chat(item: ChatMessage, defaults: MessageDefaults) -> NewMessage | ChatMessage:
    values = chat_values(item)
    if values is None:
        return item
    values = {**_given(defaults, "role", "timestamp"), **values}
    if values.get("role", "user") == defaults.role:
        values = {**_given(defaults, "speaker"), **values}
    return NewMessage.of(values)


def _given(defaults: MessageDefaults, *names: str) -> dict[str, object]:
    return {name: getattr(defaults, name) for name in names if name in defaults.model_fields_set}
