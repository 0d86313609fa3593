"""Conversion of the arguments of retain to messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from vmemo.errors import InvalidInput
from vmemo.models import Message
from vmemo.models.requests import MessageDefaults, MessageOptions, NewMessage
from vmemo.models.results import Skipped

ChatMessage: TypeAlias = Mapping[str, object]
"""A message in the form of chat APIs, such as {"role": "user", "content": "Hello", "name": "Ana"}.

The content is a text, or a list of parts whose texts are joined. Keys of `NewMessage`, such as `timestamp`, are
accepted too.
"""
RetainContent: TypeAlias = str | Message | ChatMessage | Sequence[str | Message | ChatMessage]
_CALLS = frozenset({"tool_calls", "function_call"})
_WITHOUT_WORDS = _CALLS | {"tool_call_id", "refusal", "audio", "annotations", "type", "status"}
"""Keys of chat messages that are left out: they hold no words that were said."""
_ROLES = {"developer": "system", "function": "tool"}


def new_messages(content: object, options: MessageOptions) -> tuple[list[NewMessage], list[Skipped]]:
    """Return the messages to store, and those that have no text.

    Role and timestamp of the options apply to texts and mappings that have none, the speaker to those of the options'
    role. The document, tags and metadata also apply to messages, whose own values take precedence.
    """
    defaults = MessageDefaults.of(options)
    found = [(number, _own_values(item, defaults)) for number, item in enumerate(_items(content), start=1)]
    skipped = [Skipped(what=f"message {number}", reason="it has no text") for number, own in found if own is None]
    return [_with_defaults(own, defaults) for _, own in found if own is not None], skipped


def single_message(content: object, options: MessageOptions) -> NewMessage:
    """Return the one message to store; raise InvalidInput for a list."""
    if not isinstance(content, str | Message | Mapping):
        raise InvalidInput(f"Pass one text or Message, not {type(content).__name__}; retain() takes lists.")
    messages, _ = new_messages(cast("object", content), options)
    if not messages:
        raise InvalidInput("The message has no text: its content is empty, or holds no part of type text.")
    return messages[0]


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


def _items(content: object) -> Sequence[object]:
    if isinstance(content, str | Message | Mapping):
        return [cast("object", content)]
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return cast("Sequence[object]", content)
    raise InvalidInput(f"content must be text, a Message, a dict or a list of them, not {type(content).__name__}.")


def _with_defaults(message: NewMessage, defaults: MessageDefaults) -> NewMessage:
    update = {
        "document": message.document or defaults.document,
        "tags": tuple(dict.fromkeys((*message.tags, *defaults.tags))),
        "metadata": {**defaults.metadata, **message.metadata},
    }
    return message.model_copy(update=update)


def _own_values(item: object, defaults: MessageDefaults) -> NewMessage | None:
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


def _from_chat(item: ChatMessage, defaults: MessageDefaults) -> NewMessage | None:
    values = chat_values(item)
    if values is None:
        return None
    values = {**_given(defaults, "role", "timestamp"), **values}
    if values.get("role", "user") == defaults.role:
        values = {**_given(defaults, "speaker"), **values}
    return NewMessage.of(values)


def _given(defaults: MessageDefaults, *names: str) -> dict[str, object]:
    return {name: getattr(defaults, name) for name in names if name in defaults.model_fields_set}
