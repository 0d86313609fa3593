"""What all data is made of: checked, frozen records, their instants, texts and ids."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
)

from vmemo.errors import InvalidInput

MAX_CONTENT = 1_000_000
"""Characters one message may hold; longer content is a document to be split by the caller."""
MAX_BACKGROUND = 600
"""Characters of a profile's background."""
MAX_NAME = 512
"""Characters of a bank, document, speaker or tag."""


def utc_now() -> datetime:
    """The present, aware, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """A new id whose text order is its time order (UUID version 7)."""
    moment = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (moment << 80) | (0x7 << 76) | ((tail >> 64 & 0xFFF) << 64) | (0b10 << 62) | (tail & (1 << 62) - 1)
    return str(uuid.UUID(int=value))


def _as_moment(value: object) -> object:
    """Datetimes and ISO texts only: a bare number would be taken for seconds since 1970."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value[:40]!r} is no date and time in ISO format") from None
    raise ValueError(f"must be a datetime, not {type(value).__name__}")


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from None


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("must be valid Unicode without lone surrogates") from error
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty or blank")
    return text


Instant = Annotated[AwareDatetime, BeforeValidator(_as_moment), AfterValidator(_to_utc)]
"""An aware datetime, kept in UTC; a naive one is refused."""
Text = Annotated[str, Strict(), Field(max_length=MAX_CONTENT), AfterValidator(_storable)]
Content = Annotated[Text, AfterValidator(_not_blank)]
Name = Annotated[str, Strict(), Field(max_length=MAX_NAME), AfterValidator(_storable), AfterValidator(_not_blank)]
Background = Annotated[str, Strict(), Field(max_length=MAX_BACKGROUND), AfterValidator(_storable)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Record(BaseModel):
    """Frozen data; a value that does not fit raises `InvalidInput` with the field's name and the reason."""

    # Validators are built at first use: importing vmemo must cost little and read nothing.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def __init__(self, **data: object) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise InvalidInput(_explain(type(self).__name__, error)) from error

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """The record of these values, checked like any other."""
        return cls(**values)

    @classmethod
    def trusted(cls, values: Mapping[str, object]) -> Self:
        """The record of values that were checked when they were stored; all fields must be there.

        Recall builds hundreds of records at a time, and this takes a tenth of the time of checking them again.
        """
        record = cls.__new__(cls)
        object.__setattr__(record, "__dict__", values)
        object.__setattr__(record, "__pydantic_fields_set__", _names_of(cls))
        object.__setattr__(record, "__pydantic_extra__", None)
        object.__setattr__(record, "__pydantic_private__", None)
        return record


@cache
def _names_of(kind: type[BaseModel]) -> set[str]:
    """The field names of a kind of record, one set for all records: nothing changes it."""
    return set(kind.model_fields)


def _explain(name: str, error: ValidationError) -> str:
    lines = [f"{'.'.join(map(str, e['loc'])) or name}: {in_words(e['type'], e['msg'])}" for e in error.errors()]
    return f"{name} is not valid: " + "; ".join(lines)


_RULES = {
    "timezone_aware": "a datetime needs a time zone (use datetime(..., tzinfo=UTC)); naive datetimes are refused",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
}


def in_words(kind: str, message: str) -> str:
    """Return the rule that a validation error of Pydantic states, such as "must be text"."""
    rule = message.removeprefix("Value error, ").replace("Input should", "must", 1).replace("String should", "must", 1)
    return _RULES.get(kind, rule)
