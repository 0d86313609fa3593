"""An answer in the caller's own shape: a second call puts what was answered and checked into a given schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from pydantic import BaseModel, JsonValue, ValidationError

from vmemo.asking.answers import Misfit, json_in
from vmemo.asking.desk import Desk, Readout
from vmemo.asking.prompts import load, quoted
from vmemo.errors import InvalidInput
from vmemo.models import Fact
from vmemo.ports import Ask

PROMPTS = Path(__file__).parent / "prompts"
LONGEST = 50_000
"""Characters that a schema may have."""
Schema = type[BaseModel] | Mapping[str, JsonValue]


class _Error(Protocol):
    json_path: str
    validator: str


class _Validator(Protocol):
    def iter_errors(self, instance: JsonValue) -> Sequence[_Error]: ...


@dataclass(frozen=True)
class Form:
    """A schema that answers are put into, and what tells whether one fits."""

    schema: Mapping[str, JsonValue]
    trouble: Callable[[JsonValue], str | None]

    @staticmethod
    def of(given: object) -> Form:
        """The form that a caller wants, given as a Pydantic model or a JSON schema, or InvalidInput."""
        if isinstance(given, type) and issubclass(given, BaseModel):
            return Form(given.model_json_schema(), lambda value: _misfit(given, value))
        if not isinstance(given, Mapping):
            raise InvalidInput(f"schema must be a Pydantic model or a JSON schema, not {given!r:.60}.")
        schema = dict(cast("Mapping[str, JsonValue]", given))
        validator = _validator(schema)
        return Form(schema, lambda value: _unfit(validator, value))

    def read(self, text: str) -> Readout[dict[str, JsonValue]]:
        """What is wrong with a model's answer, or the value in it."""
        try:
            value: JsonValue = json_in(text)
        except Misfit as error:
            return str(error), None
        if not isinstance(value, dict):
            return "the answer is no JSON object", None
        why = self.trouble(value)
        return why, None if why else value


def _misfit(model: type[BaseModel], value: JsonValue) -> str | None:
    try:
        model.model_validate(value)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}" for each in error.errors()[:5]]
        return "; ".join(found)
    return None


def _validator(schema: Mapping[str, JsonValue]) -> _Validator:
    try:
        length = len(json.dumps(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"schema must be a JSON schema, which is made of JSON values: {error}.") from error
    if length > LONGEST:
        raise InvalidInput(f"A schema may have {LONGEST:,} characters of JSON; this one has {length:,}.")
    if schema.get("type") != "object":
        raise InvalidInput('A schema must describe an object: {"type": "object", "properties": ...}.')
    if strange := next((ref for ref in _references(dict(schema)) if not ref.startswith("#")), None):
        raise InvalidInput(f"A schema must be whole: it refers to {strange[:80]!r}, and nothing is fetched.")
    # Loading it takes longer than all the rest here, and only who gives a schema needs it.
    package = import_module("jsonschema")
    kind = package.validators.validator_for(schema, default=package.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except package.SchemaError as error:
        raise InvalidInput(f"schema is no valid JSON schema: {error.message:.200}.") from error
    return cast("_Validator", kind(schema))


def _references(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(part, str):
                yield part
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


def _unfit(validator: _Validator, value: JsonValue) -> str | None:
    """Where a value does not fit, without repeating it."""
    found = [f"{error.json_path}: breaks {error.validator!r}" for error in validator.iter_errors(value)]
    return "; ".join(found[:5]) or None


async def fill(form: Form, answer: str, facts: Sequence[Fact], desk: Desk, **asked: str) -> dict[str, JsonValue]:
    """The answer in the caller's form; `asked` are the question and its day."""
    prompt = load(PROMPTS, "structure")
    lines = [f"{fact.mentioned_at:%d %B %Y} | {fact.text}" for fact in facts]
    values = {"answer": quoted([answer]), "facts": quoted(lines) if lines else "(none)", **asked}
    ask = Ask(
        step=prompt.step,
        system=prompt.system.safe_substitute(values),
        user=prompt.user.substitute(values),
        schema=form.schema,
    )
    return await desk.read(ask, form.read)
