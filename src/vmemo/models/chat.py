"""Messages in the form of chat APIs: their conversion to fields of a message, and their JSON schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from vmemo.errors import InvalidInput

ChatMessage: TypeAlias = Mapping[str, object]
"""A message in the form of chat APIs, such as {"role": "user", "content": "Hello", "name": "Ana"}.

The content is a text, or a list of parts whose texts are joined. Keys of `NewMessage`, such as `timestamp`, are
accepted too.
"""
_CALLS = ("tool_calls", "function_call")
IGNORED_KEYS = (*_CALLS, "tool_call_id", "refusal", "audio", "annotations", "type", "status")
"""Keys of chat messages that are left out: they hold no words that were said."""
_ROLES = {"developer": "system", "function": "tool"}
_PART = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"type": {}, "text": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    ]
}
_NULL = {"type": "null"}


def chat_values(message: ChatMessage) -> dict[str, object] | None:
    """Return the fields of a message that has the form of chat APIs; None if it has no text, such as a tool call."""
    values = {key: value for key, value in message.items() if key not in IGNORED_KEYS and value is not None}
    name = values.pop("name", "")
    role = values.get("role")
    if not isinstance(name, str):
        raise InvalidInput(f"name must be text, not {type(name).__name__}")
    if name:
        values.setdefault("speaker", name)
    if isinstance(role, str):
        values["role"] = _ROLES.get(role, role)
    if "content" in values:
        values["content"] = _text(values["content"])
    elif "content" in message or any(key in message for key in _CALLS):
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
        elif text is not None or part is None:
            raise InvalidInput("each part of content must be text, or an object whose text, if it has one, is text")


def describe_chat_form(schema: dict[str, Any]) -> None:
    """Extend the JSON schema of a message by what `chat_values` accepts."""
    fields: dict[str, Any] = schema["properties"]
    fields["name"] = {"type": "string", "description": "The speaker's name, as chat APIs call it."}
    [roles, _] = fields["role"]["anyOf"]
    roles["enum"] = [*roles["enum"], *_ROLES]
    for name, field in fields.items():
        fields[name] = _nullable(field)
    fields["content"]["anyOf"].append({"type": "array", "items": _PART})
    fields["content"]["description"] = (
        "Text, or a list of parts whose texts are joined. A message without text, such as a tool call, is skipped."
    )
    fields |= {key: {"description": "Accepted, as in chat APIs, and not stored."} for key in IGNORED_KEYS}
    del schema["required"]
    schema["anyOf"] = [{"required": [key]} for key in ("content", *_CALLS)]


def _nullable(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field that may also be null; its title, description and examples stay outside."""
    about = {key: field.pop(key) for key in ("title", "description", "default", "examples") if key in field}
    choices: list[Any] = field["anyOf"] if set(field) == {"anyOf"} else [field]
    return {"anyOf": choices if _NULL in choices else [*choices, _NULL], **about}
