"""Parsing of LLM answers: find the JSON in the text and validate it against a schema."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

_THINKING_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_THINKING_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)


class AnswerSchema(BaseModel):
    """Base of all answer schemas. Null stands for a field's default, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: object) -> object:
        if isinstance(values, dict):
            given = cast("dict[str, object]", values)
            return {key: value for key, value in given.items() if value is not None}
        return values


S = TypeVar("S", bound=AnswerSchema)


class InvalidAnswer(Exception):
    """An answer that is not JSON or does not match its schema; the message is sent to the model and logged."""


def parse_answer(text: str, schema: type[S]) -> S:
    """Return the answer as an instance of `schema`, or raise `InvalidAnswer`."""
    value: object = find_json(text)
    if isinstance(value, list) and len(schema.model_fields) == 1:
        # Small models leave out the object around a list.
        value = {next(iter(schema.model_fields)): cast("list[object]", value)}
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise InvalidAnswer(_problems(error)) from error


def find_json(text: str) -> Any:
    """Return the first JSON value in the text, or raise `InvalidAnswer`. Text around it is ignored."""
    plain = _without_thinking(text).strip()
    start = min((at for at in (plain.find("{"), plain.find("[")) if at >= 0), default=-1)
    if start < 0:
        raise InvalidAnswer("the answer contains no JSON")
    try:
        value, _ = json.JSONDecoder().raw_decode(plain[start:])
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer("the answer is not complete JSON") from error
    return value


def _without_thinking(text: str) -> str:
    kept: list[str] = []
    at = 0
    while (start := _THINKING_START.search(text, at)) and (end := _THINKING_END.search(text, start.end())):
        kept.append(text[at : start.start()])
        at = end.end()
    return "".join(kept) + text[at:]


def _problems(error: ValidationError, limit: int = 8) -> str:
    """Describe validation errors without quoting the answer, which may contain text that must not be logged."""
    found = [f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}" for each in error.errors()[:limit]]
    return "; ".join(found)
