"""An answer in the caller's own shape: a second call puts what was answered and checked into a given schema."""

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
LONGEST = 50_000
"""Characters that a schema may have."""
Schema = type[BaseModel] | Mapping[str, JsonValue]


class _Error(Protocol):
    json_path: str
    validator: str
    absolute_path: Sequence[str | int]
    context: Sequence[_Error]


class _Validator(Protocol):
    def iter_errors(self, instance: JsonValue) -> Iterator[_Error]: ...


@dataclass(frozen=True)
class _Misfit:
    """Where a value does not fit, and how; words do without the value itself."""

    path: tuple[str | int, ...]
    words: str


@dataclass(frozen=True)
class Form:
    """A schema that answers are put into, and what tells where one does not fit."""

    schema: Mapping[str, JsonValue]
    misfits: Callable[[JsonValue], list[_Misfit]]

    @staticmethod
    def of(given: object) -> Form:
        """The form that a caller wants, given as a Pydantic model or a JSON schema, or InvalidInput."""
        if isinstance(given, type) and issubclass(given, BaseModel):
            schema = _described(given)
            _demand_object(schema)
            return Form(schema, lambda value: _refused(given, value))
        if not isinstance(given, Mapping):
            raise InvalidInput(f"schema must be a Pydantic model or a JSON schema, not {given!r:.60}.")
        schema = dict(cast("Mapping[str, JsonValue]", given))
        validator = _validator(schema)
        return Form(schema, lambda value: _unfit(validator, value))

    def read(self, text: str) -> ParseResult[dict[str, JsonValue]]:
        """What is wrong with a model's answer, or the value in it."""
        try:
            value: JsonValue = find_json(text)
            _sound(value)
        except (InvalidAnswer, ValueError, RecursionError) as error:
            return str(error) if isinstance(error, InvalidAnswer) else "the answer holds what JSON can't", None
        if not isinstance(value, dict):
            return "the answer is no JSON object", None
        found = self.misfits(value)
        # Servers with strict output demand every property, and get null where the caller's schema has nothing.
        while found and sum(_dropped(value, misfit.path) for misfit in found):
            found = self.misfits(value)
        return ("; ".join(misfit.words for misfit in found[:5]), None) if found else (None, value)


def _sound(value: JsonValue) -> None:
    """Raise ValueError for NaN, infinities and half surrogate pairs, and RecursionError for what is nested too deep."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _dropped(value: JsonValue, path: Sequence[str | int]) -> bool:
    """Whether there is a null at a place inside an object; it is taken out. Parts of a path that lead nowhere are names
    of alternatives."""
    for part in path:
        if isinstance(value, dict) and isinstance(part, str) and part in value:
            if value[part] is None:
                del value[part]
                return True
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
    return False


def _described(model: type[BaseModel]) -> dict[str, JsonValue]:
    """A model's schema; where it is only a reference, as of models that hold themselves, what that refers to."""
    try:
        schema = model.model_json_schema()
    except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
        raise InvalidInput(f"{model.__name__} can't be described as a JSON schema: {error.message:.200}") from error
    target = schema.get("$ref", "").removeprefix("#/$defs/")
    return {**schema["$defs"][target], "$defs": schema["$defs"]} if target else schema


def _refused(model: type[BaseModel], value: JsonValue) -> list[_Misfit]:
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [_Misfit(e["loc"], f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}") for e in error.errors()]
    return []


def _demand_object(schema: Mapping[str, JsonValue]) -> None:
    try:
        length = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"schema must be a JSON schema, which is made of JSON values: {error}.") from error
    if length > LONGEST:
        raise InvalidInput(f"A schema may have {LONGEST:,} characters of JSON; this one has {length:,}.")
    if schema.get("type") != "object":
        raise InvalidInput('A schema must describe an object: {"type": "object", "properties": ...}.')


def _validator(schema: Mapping[str, JsonValue]) -> _Validator:
    _demand_object(schema)
    if not isinstance(schema.get("$schema", ""), str):
        raise InvalidInput("A schema's $schema must be the address of a dialect.")
    references = sorted({"#", *_references(dict(schema))})
    if strange := next((ref for ref in references if not ref.startswith("#")), None):
        raise InvalidInput(f"A schema must be whole: it refers to {strange[:80]!r}, and nothing is fetched.")
    # Loading it takes longer than all the rest here, and only who gives a schema needs it.
    package, referencing = import_module("jsonschema"), import_module("referencing.exceptions")
    kind = package.validators.validator_for(schema, default=package.Draft202012Validator)
    try:
        kind.check_schema(schema)
        validator = kind(schema)
        for ref in references:
            any(validator.evolve(schema={"$ref": ref}).iter_errors({}))
    except package.SchemaError as error:
        raise InvalidInput(f"schema is no valid JSON schema: {error.message:.200}.") from error
    except (referencing.Unresolvable, RecursionError) as error:
        raise InvalidInput("schema refers to something that it does not hold, or to itself without end.") from error
    return cast("_Validator", validator)


def _references(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(part, str):
                yield part
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


def _unfit(validator: _Validator, value: JsonValue) -> list[_Misfit]:
    try:
        return [misfit for error in validator.iter_errors(value) for misfit in _of(error)]
    except RecursionError:
        return [_Misfit((), "the answer is nested too deep")]


def _of(error: _Error) -> Iterator[_Misfit]:
    """An error, and what is wrong with each of the alternatives where there are some."""
    yield _Misfit(tuple(error.absolute_path), f"{error.json_path}: breaks {error.validator!r}")
    for part in error.context:
        yield from _of(part)


async def fill(
    form: Form, answer: str, facts: Sequence[Fact], desk: StructuredLLM, **asked: str
) -> dict[str, JsonValue]:
    """The answer in the caller's form; `asked` are the question and its day."""
    prompt = load_prompt(PROMPTS, "structure")
    lines = [f"{fact.mentioned_at:%d %B %Y} | {fact.text}" for fact in facts]
    values = {"answer": quote([answer]), "facts": quote(lines) if lines else "(none)", **asked}
    ask = LLMRequest(
        step=prompt.step,
        system=prompt.system.safe_substitute(values),
        user=prompt.user.substitute(values),
        schema=form.schema,
    )
    return await desk.ask_text(ask, form.read)
