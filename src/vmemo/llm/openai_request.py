"""What is sent to a server that speaks OpenAI's chat protocol, in the manner that it understands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue

from vmemo.ports.providers import LLMRequest

_ROOM_TO_THINK = 8192
"""Tokens beside the answer's own, where a model's silent thoughts count as well."""
_SHAPE_WORDS = re.compile(r"response_format|json_schema|json_object|schema|strict|grammar|structured")
_COUNT_WORDS = re.compile(r"stream_options|include_usage")
_STREAM_WORDS = re.compile(r"\b(stream|streaming|streamed)\b", re.IGNORECASE)
_ODD = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Manner:
    """How a server wants to be asked, as far as its refusals have taught us."""

    shape: Literal["json_schema", "json_object", "text"] = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: float | None = 0.0
    stream: Literal["counted", "plain", "never"] = "counted"
    """Whether an answer may be asked for in pieces, and whether what it cost may be asked for with them."""

    def humbler(self, complaint: str, *, streaming: bool = False) -> Manner | None:
        """What to try after a complaint; None where it is about something else."""
        if streaming and self.stream == "counted" and _COUNT_WORDS.search(complaint):
            return replace(self, stream="plain")
        if self.temperature is not None and "temperature" in complaint:
            return replace(self, temperature=None)
        # Old servers ignore the newer name in silence, so the old one comes first.
        if self.limit == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit="max_completion_tokens")
        if self.shape != "text" and _SHAPE_WORDS.search(complaint):
            return replace(self, shape="json_object" if self.shape == "json_schema" else "text")
        if streaming and self.stream != "never" and _STREAM_WORDS.search(complaint):
            return replace(self, stream="never")
        return None

    def tokens(self, request: LLMRequest) -> int:
        """The most tokens that may be used."""
        return request.max_tokens + (_ROOM_TO_THINK if self.limit == "max_completion_tokens" else 0)


def request(model: str, request: LLMRequest, manner: Manner, *, streaming: bool = False) -> dict[str, JsonValue]:
    """The body of a question."""
    system = request.system if manner.shape == "json_schema" else in_words(request)
    messages: list[JsonValue] = [{"role": "system", "content": system}, {"role": "user", "content": request.user}]
    body: dict[str, JsonValue] = {"model": model, "messages": messages, manner.limit: manner.tokens(request)}
    if manner.temperature is not None:
        body["temperature"] = manner.temperature
    if manner.shape == "json_schema":
        named: dict[str, JsonValue] = {"name": label(request.step), "schema": strict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif manner.shape == "json_object":
        body["response_format"] = {"type": "json_object"}
    if streaming and manner.stream != "never":
        body["stream"] = True
        if manner.stream == "counted":
            body["stream_options"] = {"include_usage": True}
    return body


def label(step: str) -> str:
    """A step's name in the letters that headers, schemas and tools may be called by."""
    return _ODD.sub("_", step)[:64] or "answer"


def strict(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A schema as servers with strict output want it: nothing beside the named properties, and all of them required.

    A property that could be left out may be null instead. Objects with free keys stay as they are.
    """
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    node = {_RENAMED.get(key, key): _inside(key, value) for key, value in schema.items() if key not in _DROPPED}
    properties = node.get("properties")
    if isinstance(properties, dict):
        listed = schema.get("required")
        required = listed if isinstance(listed, list) else []
        node["properties"] = {
            name: value if name in required or not isinstance(value, dict) else _nullable(value)
            for name, value in properties.items()
        }
        node |= {"required": list[JsonValue](properties), "additionalProperties": False}
    return node


_RENAMED = {"oneOf": "anyOf"}
_DROPPED = frozenset(
    ("default", "discriminator", "title", "maxLength", "minLength", "maxItems", "minItems", "maximum", "minimum")
)
"""What not every server with strict output takes; answers are checked all the same."""


def _inside(key: str, value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        if key in ("properties", "$defs", "definitions"):
            return {name: strict(part) if isinstance(part, dict) else part for name, part in value.items()}
        return strict(value) if key in ("items", "additionalProperties") else value
    if isinstance(value, list) and key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [strict(part) if isinstance(part, dict) else part for part in value]
    return value


def _nullable(schema: dict[str, JsonValue]) -> JsonValue:
    null: dict[str, JsonValue] = {"type": "null"}
    kind, choices = schema.get("type"), schema.get("anyOf")
    if kind == "null" or (isinstance(kind, list) and "null" in kind) or (isinstance(choices, list) and null in choices):
        return schema
    if isinstance(choices, list):
        return {**schema, "anyOf": [*choices, null]}
    return {"anyOf": [schema, null]}


def in_words(request: LLMRequest) -> str:
    """The system message with the schema written into it, for models that take it in no other way."""
    schema = json.dumps(request.schema, ensure_ascii=False)
    wanted = "Answer with one JSON object that fits this JSON schema, without any other words and without a code fence:"
    return f"{request.system}\n\n{wanted}\n{schema}"
