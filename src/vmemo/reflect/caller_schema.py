"""Answers in the caller's schema: a second LLM call puts the checked answer into it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from pydantic import BaseModel, JsonValue, PydanticInvalidForJsonSchema, PydanticUserError, ValidationError

from vmemo.errors import InvalidInput
from vmemo.llm.answer_parsing import InvalidAnswer, find_json
from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import ParseResult, StructuredLLM
from vmemo.models import Fact
from vmemo.ports import LLMRequest

PROMPTS = Path(__file__).parent / "prompts"
MAX_SCHEMA_LENGTH = 50_000
"""Characters of a schema as JSON."""
Schema = type[BaseModel] | Mapping[str, JsonValue]


class _JsonSchemaError(Protocol):
    json_path: str
    validator: str
    absolute_path: Sequence[str | int]
    context: Sequence[_JsonSchemaError]


class _Validator(Protocol):
    def iter_errors(self, instance: JsonValue) -> Iterator[_JsonSchemaError]: ...


@dataclass(frozen=True)
class _Mismatch:
    """The place where a value does not match the schema; the message does not contain the value."""

    path: tuple[str | int, ...]
    message: str


@dataclass(frozen=True)
class CallerSchema:
    """A JSON schema for answers, and the function that validates a value against it."""

    schema: Mapping[str, JsonValue]
    mismatches: Callable[[JsonValue], list[_Mismatch]]

    @staticmethod
    def of(schema: object) -> CallerSchema:
        """Return the answer schema of a Pydantic model or a JSON schema, or raise InvalidInput."""
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            described = _json_schema(schema)
            _require_object(described)
            return CallerSchema(described, lambda value: _model_mismatches(schema, value))
        if not isinstance(schema, Mapping):
            raise InvalidInput(f"schema must be a Pydantic model or a JSON schema, not {schema!r:.60}.")
        given = dict(cast("Mapping[str, JsonValue]", schema))
        validator = _validator(given)
        return CallerSchema(given, lambda value: _schema_mismatches(validator, value))

    def parse(self, text: str) -> ParseResult[dict[str, JsonValue]]:
        """Return what is wrong with a model's answer, or the value in it."""
        try:
            value: JsonValue = find_json(text)
            _require_json(value)
        except InvalidAnswer as error:
            return str(error), None
        except (ValueError, RecursionError):
            return "the answer contains values that JSON does not allow", None
        if not isinstance(value, dict):
            return "the answer is not a JSON object", None
        found = self.mismatches(value)
        # Servers with strict output require every property, and return null for one that has no value.
        while found and sum(_remove_null(value, mismatch.path) for mismatch in found):
            found = self.mismatches(value)
        return ("; ".join(mismatch.message for mismatch in found[:5]), None) if found else (None, value)


async def fill_schema(
    schema: CallerSchema, answer: str, facts: Sequence[Fact], llm: StructuredLLM, **values: str
) -> dict[str, JsonValue]:
    """Return the answer in the caller's schema; `values` are the prompt's `question` and `today`."""
    prompt = load_prompt(PROMPTS, "structure")
    lines = [f"{fact.mentioned_at:%d %B %Y} | {fact.text}" for fact in facts]
    values |= {"answer": quote([answer]), "facts": quote(lines) if lines else "(none)"}
    ask = LLMRequest(
        step=prompt.step,
        system=prompt.system.safe_substitute(values),
        user=prompt.user.substitute(values),
        schema=schema.schema,
    )
    return await llm.ask_text(ask, schema.parse)


def _require_json(value: JsonValue) -> None:
    """Raise ValueError for NaN, infinities and lone surrogates, and RecursionError for too deep nesting."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _remove_null(value: JsonValue, path: Sequence[str | int]) -> bool:
    """Remove the first null on a path from its object, and return True if there was one.

    Parts of a Pydantic path that match nothing are names of union members, and are skipped.
    """
    for part in path:
        if isinstance(value, dict) and isinstance(part, str) and part in value:
            if value[part] is None:
                del value[part]
                return True
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
    return False


def _json_schema(model: type[BaseModel]) -> dict[str, JsonValue]:
    """Return a model's JSON schema, with a reference at its root (of a recursive model) resolved."""
    try:
        schema = model.model_json_schema()
    except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
        raise InvalidInput(f"{model.__name__} has no JSON schema: {error.message:.200}") from error
    target = schema.get("$ref", "").removeprefix("#/$defs/")
    return {**schema["$defs"][target], "$defs": schema["$defs"]} if target else schema


def _model_mismatches(model: type[BaseModel], value: JsonValue) -> list[_Mismatch]:
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [_Mismatch(e["loc"], f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}") for e in error.errors()]
    return []


def _require_object(schema: Mapping[str, JsonValue]) -> None:
    """Raise InvalidInput if a schema is too long, not JSON, or does not describe an object."""
    try:
        length = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"schema must be a JSON schema made of JSON values: {error}.") from error
    if length > MAX_SCHEMA_LENGTH:
        raise InvalidInput(
            f"schema may have at most {MAX_SCHEMA_LENGTH:,} characters of JSON; this one has {length:,}."
        )
    if schema.get("type") != "object":
        raise InvalidInput('schema must describe an object: {"type": "object", "properties": ...}.')


def _validator(schema: Mapping[str, JsonValue]) -> _Validator:
    _require_object(schema)
    if not isinstance(schema.get("$schema", ""), str):
        raise InvalidInput("The $schema of a schema must be the URI of a JSON Schema dialect.")
    # Imported here because loading it takes longer than the validation.
    package, referencing = import_module("jsonschema"), import_module("referencing")
    validator_class = package.validators.validator_for(schema, default=package.Draft202012Validator)
    try:
        references = _local_references(schema)
        validator_class.check_schema(schema)
        # Without this registry jsonschema fetches the URLs that references lead to.
        validator = validator_class(schema, registry=referencing.Registry())
        for ref in references:
            any(validator.evolve(schema={"$ref": ref}).iter_errors({}))
    except package.SchemaError as error:
        raise InvalidInput(f"schema is not a valid JSON schema: {error.message:.200}.") from error
    except (referencing.exceptions.Unresolvable, RecursionError) as error:
        raise InvalidInput("schema contains a reference that cannot be resolved or never ends.") from error
    return cast("_Validator", validator)


def _local_references(schema: Mapping[str, JsonValue]) -> list[str]:
    """Return the references of a schema; raise InvalidInput if one leads out of it."""
    found = ["#"]
    for key, value in _strings(dict(schema)):
        if key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if not value.startswith("#"):
                raise InvalidInput(f"schema refers to {value[:80]!r}, and nothing is fetched; include it under $defs.")
            found.append(value)
        # References of a part with an id of its own are relative to that id.
        elif key == "$id" and value != schema.get("$id"):
            raise InvalidInput(f"Only a whole schema may have an $id, and this one has {value[:80]!r} in a part of it.")
    return sorted(set(found))


def _strings(value: JsonValue) -> Iterator[tuple[str, str]]:
    """Yield every key whose value is a string, at any depth."""
    if isinstance(value, dict):
        for key, part in value.items():
            if isinstance(part, str):
                yield key, part
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _schema_mismatches(validator: _Validator, value: JsonValue) -> list[_Mismatch]:
    try:
        return [mismatch for error in validator.iter_errors(value) for mismatch in _with_alternatives(error)]
    except RecursionError:
        return [_Mismatch((), "the answer is nested too deeply")]
    except import_module("referencing").exceptions.Unresolvable:
        return [_Mismatch((), "the schema contains a reference that cannot be resolved")]


def _with_alternatives(error: _JsonSchemaError) -> Iterator[_Mismatch]:
    """Yield an error and the errors of each alternative in it, such as those of anyOf."""
    yield _Mismatch(tuple(error.absolute_path), f"{error.json_path}: violates {error.validator!r}")
    for part in error.context:
        yield from _with_alternatives(part)
