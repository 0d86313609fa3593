"""Reading what a model wrote: finding the JSON in it and fitting it to a shape."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class Shape(BaseModel):
    """What an answer must look like. Null stands for a default, and what was not asked for is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: object) -> object:
        if isinstance(values, dict):
            given = cast("dict[str, object]", values)
            return {key: value for key, value in given.items() if value is not None}
        return values


S = TypeVar("S", bound=Shape)


class Misfit(Exception):
    """An answer that does not fit; the message tells the model, or whoever reads the error, why."""


def fitted(text: str, shape: type[S]) -> S:
    """The answer in its shape, or `Misfit`."""
    value: object = json_in(text)
    if isinstance(value, list) and len(shape.model_fields) == 1:
        # Small models leave out the object around a list.
        value = {next(iter(shape.model_fields)): cast("list[object]", value)}
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        raise Misfit(_complaints(error)) from error


def json_in(text: str) -> Any:
    """The JSON that stands in an answer, whatever stands around it."""
    plain = _THINKING.sub("", text).strip()
    start = min((at for at in (plain.find("{"), plain.find("[")) if at >= 0), default=-1)
    if start < 0:
        raise Misfit("the answer holds no JSON")
    try:
        value, _ = json.JSONDecoder().raw_decode(plain[start:])
    except (ValueError, RecursionError) as error:
        raise Misfit("the answer is no complete JSON") from error
    return value


def _complaints(error: ValidationError, most: int = 8) -> str:
    """Where it does not fit, without quoting the answer: it may hold what must not reach a log."""
    found = [f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}" for each in error.errors()[:most]]
    return "; ".join(found)
