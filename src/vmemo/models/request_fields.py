"""The base class of requests, the types of their fields, and messages in the form of chat APIs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, Literal, Self, TypeAlias, TypeVar, cast

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
T = TypeVar("T")
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


def distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """Return each value once."""
    return tuple(dict.fromkeys(values))


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
Names = Annotated[tuple[Name, ...], Field(max_length=MAX_FILTERS), AfterValidator(distinct)]
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


ChatMessage: TypeAlias = Mapping[str, object]
"""A message in the form of chat APIs, such as {"role": "user", "content": "Hello", "name": "Ana"}.

The content is a text, or a list of parts whose texts are joined. Keys of `NewMessage`, such as `timestamp`, are
accepted too.
"""
_CALLS = ("tool_calls", "function_call")
IGNORED_KEYS = (*_CALLS, "tool_call_id", "refusal", "audio", "annotations", "type", "status")
"""Keys of chat messages that are left out: they hold no words that were said."""
_ROLES = {"developer": "system", "function": "tool"}
_PART = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"type": {}, "text": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    ]
}
_NULL = {"type": "null"}


def chat_values(message: ChatMessage) -> dict[str, object] | None:
    """Return the fields of a message that has the form of chat APIs; None if it has no text, such as a tool call."""
    values = {key: value for key, value in message.items() if key not in IGNORED_KEYS and value is not None}
    name = values.pop("name", "")
    role = values.get("role")
    if not isinstance(name, str):
        raise InvalidInput(f"name must be text, not {type(name).__name__}")
    if name:
        values.setdefault("speaker", name)
    if isinstance(role, str):
        values["role"] = _ROLES.get(role, role)
    if "content" in values:
        values["content"] = _text(values["content"])
    elif "content" in message or any(key in message for key in _CALLS):
        return None
    return None if values.get("content", "") is None else values


def _text(content: object) -> object:
    """Return the text of a list of parts, or None if they have none; other content is returned as it is."""
    if not isinstance(content, Sequence) or isinstance(content, str | bytes | bytearray):
        return content
    return "\n".join(_texts(cast("Sequence[object]", content))) or None


def _texts(parts: Sequence[object]) -> Iterator[str]:
    for part in parts:
        text = cast("Mapping[str, object]", part).get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            yield text
        elif text is not None or part is None:
            raise InvalidInput("each part of content must be text, or an object whose text, if it has one, is text")


def describe_chat_form(schema: dict[str, Any]) -> None:
    """Extend the JSON schema of a message by what `chat_values` accepts."""
    fields: dict[str, Any] = schema["properties"]
    fields["name"] = {"type": "string", "description": "The speaker's name, as chat APIs call it."}
    [roles, _] = fields["role"]["anyOf"]
    roles["enum"] = [*roles["enum"], *_ROLES]
    for name, field in fields.items():
        fields[name] = _nullable(field)
    fields["content"]["anyOf"].append({"type": "array", "items": _PART})
    fields["content"]["description"] = (
        "Text, or a list of parts whose texts are joined. A message without text, such as a tool call, is skipped."
    )
    fields |= {key: {"description": "Accepted, as in chat APIs, and not stored."} for key in IGNORED_KEYS}
    del schema["required"]
    schema["anyOf"] = [{"required": [key]} for key in ("content", *_CALLS)]


def _nullable(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field that may also be null; its title, description and examples stay outside."""
    about = {key: field.pop(key) for key in ("title", "description", "default", "examples") if key in field}
    choices: list[Any] = field["anyOf"] if set(field) == {"anyOf"} else [field]
    return {"anyOf": choices if _NULL in choices else [*choices, _NULL], **about}
