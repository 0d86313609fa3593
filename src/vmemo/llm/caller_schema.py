"""The caller's schema of an answer, and the validation of a model's answer against it.

A schema may come from another host, and jsonschema has no limits of its own. So patterns run in an engine that takes
linear time, the number of checks is limited, and nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

from pydantic import BaseModel, JsonValue, PydanticInvalidForJsonSchema, PydanticUserError, ValidationError
from pydantic_core import SchemaError, SchemaValidator, core_schema

from vmemo.errors import InvalidInput
from vmemo.llm.structured import InvalidAnswer, ParseResult, find_json

MAX_SCHEMA_LENGTH = 50_000
MAX_CHECKS = 10_000
"""Keywords of a schema that are checked in one answer; references can multiply them without end."""
Mismatch = tuple[tuple[str | int, ...], str]
"""The path of a value that does not match the schema, and a message without the value."""


@dataclass(frozen=True)
class CallerSchema:
    """A JSON schema for answers, and the function that validates a value against it."""

    schema: Mapping[str, JsonValue]
    mismatches: Callable[[JsonValue], list[Mismatch]]

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
        return CallerSchema(given, _validation(given))

    def parse(self, text: str) -> ParseResult[dict[str, JsonValue]]:
        """Return what is wrong with a model's answer, or the value in it."""
        try:
            value: JsonValue = find_json(text)
            # NaN, infinities and lone surrogates are no JSON, and too deep nesting fails here.
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except InvalidAnswer as error:
            return str(error), None
        except (ValueError, RecursionError):
            return "the answer contains values that JSON does not allow", None
        if not isinstance(value, dict):
            return "the answer is not a JSON object", None
        found = self.mismatches(value)
        # Servers with strict output require every property, and return null for one that has no value.
        while found and sum(_remove_null(value, path) for path, _ in found):
            found = self.mismatches(value)
        return ("; ".join(message for _, message in found[:5]), None) if found else (None, value)


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


def _model_mismatches(model: type[BaseModel], value: JsonValue) -> list[Mismatch]:
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [(e["loc"], f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}") for e in error.errors()]
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


def _validation(schema: Mapping[str, JsonValue]) -> Callable[[JsonValue], list[Mismatch]]:
    _require_object(schema)
    if not isinstance(schema.get("$schema", ""), str):
        raise InvalidInput("The $schema of a schema must be the URI of a JSON Schema dialect.")
    # Imported here because loading it takes longer than the validation.
    package, referencing = import_module("jsonschema"), import_module("referencing")
    dialect = package.validators.validator_for(schema, default=package.Draft202012Validator)
    checks = _CheckCounter()
    keywords = {**dialect.VALIDATORS, "pattern": _check_pattern}
    bounded = package.validators.extend(dialect, {name: checks.counted(check) for name, check in keywords.items()})
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    try:
        references = _local_references(plain)
        dialect.check_schema(schema)
        # Without this registry jsonschema fetches the URLs that references lead to.
        validator = bounded(plain, registry=referencing.Registry())
        for ref in references:
            any(validator.evolve(schema={"$ref": ref}).iter_errors({}))
    except package.SchemaError as error:
        raise InvalidInput(f"schema is not a valid JSON schema: {error.message:.200}.") from error
    except _TooManyChecks as error:
        raise InvalidInput(f"schema needs more than {MAX_CHECKS:,} checks; repeat fewer of its parts.") from error
    except (referencing.exceptions.Unresolvable, RecursionError) as error:
        raise InvalidInput("schema contains a reference that cannot be resolved or never ends.") from error
    return lambda value: _schema_mismatches(validator, checks, value)


class _TooManyChecks(Exception):
    """A validation has reached its maximum of checks."""


class _CheckCounter:
    """Limits the checks of one validation, because references can multiply them."""

    def __init__(self) -> None:
        self.done = 0

    def counted(self, check: Callable[..., Any]) -> Callable[..., Any]:
        """Return the check of a keyword, counted each time that it is made."""

        def checked(*arguments: object) -> Any:
            self.done += 1
            if self.done > MAX_CHECKS:
                raise _TooManyChecks
            return check(*arguments)

        return checked


def _check_pattern(validator: Any, pattern: str, value: object, schema: object) -> Iterator[Exception]:
    """Check a string with an engine that takes linear time; `re` may take exponential time."""
    if validator.is_type(value, "string") and not _linear_pattern(pattern).isinstance_python(value):
        yield import_module("jsonschema").ValidationError("does not match the pattern")


@lru_cache(maxsize=256)
def _linear_pattern(pattern: str) -> SchemaValidator:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        raise InvalidInput(
            f"The pattern {pattern[:80]!r} of a schema is not supported: it must be short and valid, and have no "
            "lookaround and no backreferences."
        ) from error


def _local_references(schema: Mapping[str, JsonValue]) -> list[str]:
    """Return the references of a schema; raise InvalidInput if one leads out of it or its checks are not bounded."""
    found = ["#"]
    for key, value in _entries(dict(schema)):
        if key == "patternProperties":
            raise InvalidInput("patternProperties are not supported in a schema; use properties.")
        if not isinstance(value, str):
            continue
        if key == "pattern":
            _linear_pattern(value)
        elif key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if not value.startswith("#"):
                raise InvalidInput(f"schema refers to {value[:80]!r}, and nothing is fetched; include it under $defs.")
            found.append(value)
        # References of a part with an id of its own are relative to that id.
        elif key == "$id" and value != schema.get("$id"):
            raise InvalidInput(f"Only a whole schema may have an $id, and this one has {value[:80]!r} in a part of it.")
        elif key == "$schema":
            raise InvalidInput(f"Only a whole schema may have a $schema, and a part of this one has {value[:80]!r}.")
    return sorted(set(found))


def _entries(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield every key with its value, at any depth."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield key, part
            yield from _entries(part)
    elif isinstance(value, list):
        for part in value:
            yield from _entries(part)


def _schema_mismatches(validator: Any, checks: _CheckCounter, value: JsonValue) -> list[Mismatch]:
    checks.done = 0
    try:
        return [mismatch for error in validator.iter_errors(value) for mismatch in _with_alternatives(error)]
    except RecursionError:
        return [((), "the answer is nested too deeply")]
    except _TooManyChecks:
        return [((), f"the answer needs more than {MAX_CHECKS:,} checks by the schema")]
    except import_module("referencing").exceptions.Unresolvable:
        return [((), "the schema contains a reference that cannot be resolved")]


def _with_alternatives(error: Any) -> Iterator[Mismatch]:
    """Yield an error and the errors of each alternative in it, such as those of anyOf."""
    yield tuple(error.absolute_path), f"{error.json_path}: violates {error.validator!r}"
    for part in error.context:
        yield from _with_alternatives(part)
