"""The base class of requests, and the types of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from vmemo.errors import InvalidInput
from vmemo.models.base import Instant, Name, in_words, json_object, shifted

MAX_BATCH = 100_000
"""Messages in one retain."""
MAX_QUERY = 100_000
"""Characters in a query. The embedder reads the first 512 tokens, keyword search the 64 longest words."""
MAX_TOKENS = 1_000_000
MAX_NODES = 10_000
MAX_FILTERS = 1_000
"""Tags or entities in one filter."""
MAX_LOOKUPS = 3
"""Times that one reflection may query memory again."""
LARGEST_PAGE = 1_000

R_co = TypeVar("R_co", covariant=True)
_WITHOUT_VALUE = ("value_error", "missing", "extra_forbidden", "timezone_aware")
"""Errors whose message names the value, or that have none."""


class Returns(Generic[R_co]):
    """Declares the type of a request's result, so that `run(request)` is typed."""


class Request(BaseModel):
    """Validated arguments. Fields that do not exist are refused."""

    # Validators are built on first use, to keep the import of vmemo fast.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        defer_build=True,
        validate_by_name=True,
        validate_by_alias=True,
    )

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return the request with these values; raise InvalidInput that names each field, its value and the rule."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problems = (cls._problem(**each) for each in error.errors())
            raise InvalidInput(f"{'; '.join(problems)}.") from error

    @classmethod
    def _problem(cls, *, type: str, loc: tuple[int | str, ...], msg: str, input: object, **_: Any) -> str:
        # Parts that are not identifiers name a member of a union.
        place = ".".join(str(part) for part in loc if isinstance(part, int) or part.isidentifier())
        rule = in_words(type, msg)
        if type == "extra_forbidden" and len(loc) == 1:
            return f"There is no option {loc[0]!r:.60}; there are {', '.join(cls._options())}"
        if type in _WITHOUT_VALUE or type.endswith("too_long"):
            return f"{place}: {rule}" if place else rule
        return f"{place}: {rule}, not {input!r:.60}"

    @classmethod
    def _options(cls) -> list[str]:
        return [field.alias or name for name, field in cls.model_fields.items()]


def _query_text(value: object) -> object:
    """Replace control characters and lone surrogates by spaces and question marks."""
    if not isinstance(value, str):
        return value
    valid = value.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() else " " for c in valid).strip()


def _duration(value: object) -> object:
    """Accept durations only; a bare number has no unit."""
    if isinstance(value, timedelta | str):
        return value
    raise ValueError(f"must be a timedelta or an ISO 8601 duration such as P30D, not {value!r:.60}")


def _time_to_live(value: object) -> object:
    """Accept durations, and numbers of seconds."""
    if isinstance(value, timedelta | str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ValueError(f"must be a timedelta, seconds or an ISO 8601 duration such as P30D, not {value!r:.60}")


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError(f"must be longer than nothing, not {value}")
    return value


def _comparable(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for name, value in values.items():
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"the number for {name!r:.60} is too large to compare; use at most 64 bits")
    return values


def _printable(id: str) -> str:
    if not id.isprintable():
        raise ValueError("must consist of printable characters")
    return id


Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Weight = Annotated[float, Strict(), Field(ge=0, le=1)]
QueryText = Annotated[
    str,
    Strict(),
    Field(min_length=1, max_length=MAX_QUERY, examples=["Where does Ana live?"]),
    BeforeValidator(_query_text),
]
Tokens = Annotated[Count, Field(le=MAX_TOKENS)]
Nodes = Literal["low", "mid", "high"] | Annotated[Count, Field(le=MAX_NODES)]
HalfLife = Annotated[timedelta, BeforeValidator(_duration), AfterValidator(_positive)]
TimeToLive = Annotated[
    timedelta,
    BeforeValidator(_time_to_live),
    AfterValidator(_positive),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "duration"}, {"type": "number", "exclusiveMinimum": 0}]}),
]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(json_object)]
ComparableMetadata = Annotated[Metadata, AfterValidator(_comparable)]
NewMessageId = Annotated[Name, AfterValidator(_printable)]
Names = Annotated[tuple[Name, ...], Field(max_length=MAX_FILTERS)]
AnswerSchema = Annotated[
    type[BaseModel] | dict[str, JsonValue], WithJsonSchema({"type": "object", "additionalProperties": True})
]
"""The shape of an answer: a Pydantic model, or a JSON schema."""


class Expiry(Request):
    """The time after which a message and its facts are no longer recalled, and maintenance forgets them."""

    ttl: TimeToLive | None = Field(
        default=None, description="Forget it after this time: seconds, or an ISO 8601 duration.", examples=["P30D"]
    )
    expires_at: Instant | None = Field(default=None, description="Forget it after this time; in place of `ttl`.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.ttl is not None and self.expires_at is not None:
            raise ValueError("give either ttl or expires_at, not both")
        return self

    def expiry(self, now: datetime) -> datetime | None:
        """Return the time of the expiry of what is stored now."""
        return self.expires_at if self.ttl is None else shifted(now, self.ttl.total_seconds())
