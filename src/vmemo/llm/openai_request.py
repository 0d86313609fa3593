"""Request bodies for OpenAI's chat protocol, adapted to the features that a server supports."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue

from vmemo.ports.providers import LLMRequest

_REASONING_TOKENS = 8192
"""Added to the limit of models that count their reasoning tokens towards it."""
_SCHEMA_WORDS = re.compile(r"response_format|json_schema|json_object|schema|strict|grammar|structured")
_USAGE_WORDS = re.compile(r"stream_options|include_usage")
_STREAM_WORDS = re.compile(r"\b(stream|streaming|streamed)\b", re.IGNORECASE)
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class RequestFormat:
    """The request features that a server supports, as far as its error responses have shown."""

    response_format: Literal["json_schema", "json_object", "text"] = "json_schema"
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: float | None = 0.0
    stream: Literal["with_usage", "without_usage", "unsupported"] = "with_usage"

    def downgrade(self, error: str, *, streaming: bool = False) -> RequestFormat | None:
        """Return the format to try after an error response, or None if the error has another cause."""
        if streaming and self.stream == "with_usage" and _USAGE_WORDS.search(error):
            return replace(self, stream="without_usage")
        if self.temperature is not None and "temperature" in error:
            return replace(self, temperature=None)
        # Old servers silently ignore the newer name, so the old one is tried first.
        if self.token_limit == "max_tokens" and "max_completion_tokens" in error:
            return replace(self, token_limit="max_completion_tokens")
        if self.response_format != "text" and _SCHEMA_WORDS.search(error):
            return replace(self, response_format="json_object" if self.response_format == "json_schema" else "text")
        if streaming and self.stream != "unsupported" and _STREAM_WORDS.search(error):
            return replace(self, stream="unsupported")
        return None

    def max_tokens(self, request: LLMRequest) -> int:
        """Return the token limit to send."""
        return request.max_tokens + (_REASONING_TOKENS if self.token_limit == "max_completion_tokens" else 0)


def build_body(
    model: str, request: LLMRequest, format: RequestFormat, *, streaming: bool = False
) -> dict[str, JsonValue]:
    """Return the JSON body of a chat completion request."""
    system = request.system if format.response_format == "json_schema" else system_with_schema(request)
    messages: list[JsonValue] = [{"role": "system", "content": system}, {"role": "user", "content": request.user}]
    body: dict[str, JsonValue] = {"model": model, "messages": messages, format.token_limit: format.max_tokens(request)}
    if format.temperature is not None:
        body["temperature"] = format.temperature
    if format.response_format == "json_schema":
        body["response_format"] = {"type": "json_schema", "json_schema": response_schema(request)}
    elif format.response_format == "json_object":
        body["response_format"] = {"type": "json_object"}
    if streaming and format.stream != "unsupported":
        body["stream"] = True
        if format.stream == "with_usage":
            body["stream_options"] = {"include_usage": True}
    return body


def schema_name(step: str) -> str:
    """Return a step's name reduced to the characters that headers, schemas and tools may be named with."""
    return _INVALID_NAME_CHARACTERS.sub("_", step)[:64] or "answer"


def response_schema(request: LLMRequest) -> dict[str, JsonValue]:
    """Return the named schema of the answer, strict unless the answer may leave out optional fields."""
    strict = not request.omit_empty
    return {
        "name": schema_name(request.step),
        "schema": strict_schema(request.schema) if strict else _portable(request.schema),
        "strict": strict,
    }


def _portable(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the schema without the keywords that not every server accepts; optional properties stay optional."""
    node = {key: value for key, value in schema.items() if key not in _DROPPED}
    for key in ("properties", "$defs"):
        parts = node.get(key)
        if isinstance(parts, dict):
            node[key] = {name: _portable(part) if isinstance(part, dict) else part for name, part in parts.items()}
    items = node.get("items")
    return {**node, "items": _portable(items)} if isinstance(items, dict) else node


def strict_schema(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the schema in the strict form: every property is required and additional properties are forbidden.

    An optional property becomes nullable. Objects with free keys are kept as they are.
    """
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    node = {_RENAMED.get(key, key): _strict_part(key, value) for key, value in schema.items() if key not in _DROPPED}
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
"""Keywords that not every server with strict output accepts; answers are validated here in any case."""


def _strict_part(key: str, value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        if key in ("properties", "$defs", "definitions"):
            return {name: strict_schema(part) if isinstance(part, dict) else part for name, part in value.items()}
        return strict_schema(value) if key in ("items", "additionalProperties") else value
    if isinstance(value, list) and key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [strict_schema(part) if isinstance(part, dict) else part for part in value]
    return value


def _nullable(schema: dict[str, JsonValue]) -> JsonValue:
    null: dict[str, JsonValue] = {"type": "null"}
    kind, choices = schema.get("type"), schema.get("anyOf")
    if kind == "null" or (isinstance(kind, list) and "null" in kind) or (isinstance(choices, list) and null in choices):
        return schema
    if isinstance(choices, list):
        return {**schema, "anyOf": [*choices, null]}
    return {"anyOf": [schema, null]}


def system_with_schema(request: LLMRequest) -> str:
    """Return the system message with the schema appended, for servers without structured output."""
    schema = json.dumps(request.schema, ensure_ascii=False)
    instruction = "Answer with one JSON object that matches this JSON schema, without other text or a code fence:"
    return f"{request.system}\n\n{instruction}\n{schema}"
