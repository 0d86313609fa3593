"""Requests: one model per verb, shared by the library, REST, MCP, the command line and the client.

A request states the verb's arguments, their limits and their meaning. Interfaces validate one and pass it to
`Memory.run()`; `Request.of()` raises `InvalidInput` for values that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, Literal, Self, TypeAlias, TypedDict, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    JsonValue,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapSerializer,
    WrapValidator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from vmemo.errors import InvalidInput
from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Provenance, Recalled
from vmemo.models.records import (
    Budget,
    ConfidenceChange,
    Content,
    Entity,
    EntityId,
    Episode,
    Fact,
    FormerProfile,
    Instant,
    Interval,
    Merge,
    Message,
    Name,
    Network,
    Permission,
    Profile,
    Role,
    TagsMatch,
    Text,
    in_words,
    json_object,
    shifted,
    utc_now,
)
from vmemo.models.results import Answer, Forgotten, Job, Maintained, Retained, Skipped, Status
from vmemo.models.webhooks import SignedWebhook, Webhook, WebhookEvent, WebhookUrl

MAX_BATCH = 100_000
"""Messages in one retain."""
MAX_QUERY = 100_000
"""Characters in a query. The embedder reads the first 512 tokens, keyword search the 64 longest words."""
MAX_TOKENS = 1_000_000
MAX_NODES = 10_000
MAX_BANKS = 16
"""Banks of one search."""
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
            options = (field.alias or name for name, field in cls.model_fields.items())
            return f"There is no option {loc[0]!r:.60}; there are {', '.join(options)}"
        if type in _WITHOUT_VALUE or type.endswith("too_long"):
            return f"{place}: {rule}" if place else rule
        return f"{place}: {rule}, not {input!r:.60}"


def _query_text(value: object) -> object:
    """Replace control characters and lone surrogates by spaces and question marks."""
    if not isinstance(value, str):
        return value
    valid = value.encode("utf-8", "replace").decode("utf-8")
    return (valid if valid.isprintable() else "".join(c if c.isprintable() else " " for c in valid)).strip()


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


class MessageOptions(TypedDict, total=False):
    """Properties of a text that is passed alone, or of every message in a list."""

    document: str | None
    role: Role
    speaker: str | None
    timestamp: datetime | str
    tags: Sequence[str]
    metadata: Mapping[str, JsonValue]
    ttl: timedelta | float | str
    expires_at: datetime | str


class MessageDefaults(Expiry):
    """The validated form of `MessageOptions`."""

    document: Name | None = None
    role: Role = "user"
    speaker: Name | None = None
    timestamp: Instant = Field(default_factory=utc_now)
    tags: tuple[Name, ...] = ()
    metadata: Metadata = Field(default_factory=dict)


class NewMessage(Expiry):
    """A message to store. Storing the same line under the same document again has no effect."""

    model_config = ConfigDict(json_schema_extra=describe_chat_form)

    content: Content = Field(examples=["I moved to Lisbon last week."])
    role: Role | None = Field(
        default=None,
        description="Who speaks. Default: user, or document for a text with a document and without a speaker.",
    )
    speaker: Name | None = Field(default=None, description="The speaker's name.", examples=["Ana"])
    timestamp: Instant | None = Field(default=None, description="When it was said; the time of the call by default.")
    document: Name | None = Field(
        default=None, description="The conversation or file that it belongs to.", examples=["chat-2026-11-15"]
    )
    tags: tuple[Name, ...] = Field(default=(), max_length=MAX_FILTERS, description="Labels to filter recalls by.")
    metadata: Metadata = Field(default_factory=dict, description="JSON values to filter recalls by.")
    id: NewMessageId | None = Field(
        default=None, description="An id of your own; a message with an id that exists already is not stored again."
    )
    recorded_at: SkipJsonSchema[Instant | None] = None
    """The time from which the bank knows the message, for imported history; the time of the call by default."""

    @property
    def author(self) -> Role:
        """The role, also if it was not given: nobody says the text of a document to the agent."""
        return self.role or ("document" if self.document and not self.speaker else "user")


def _from_chat(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """Return a message, also one in the form of chat APIs; None if it has no text."""
    if not isinstance(value, Mapping):
        # A list with null in it is a mistake, and no list with a message that has no text.
        return validate({} if value is None else value)
    given = cast("ChatMessage", value)
    values = chat_values(given)
    if values is not None:
        return validate(values)
    # The other fields follow the same rules.
    validate(chat_values({**given, "content": "no text"}))
    return None


def _to_chat(value: object, serialize: SerializerFunctionWrapHandler) -> object:
    return {"content": None} if value is None else serialize(value)


GivenMessage = Annotated[NewMessage | None, WrapValidator(_from_chat), WrapSerializer(_to_chat)]
"""A message to store; None if it was one in the form of chat APIs without text, such as a tool call."""


def _not_empty(messages: tuple[GivenMessage, ...]) -> tuple[GivenMessage, ...]:
    # A minimum length would also be reported where single messages are invalid.
    if not messages:
        raise ValueError("there is nothing to retain: the list is empty")
    return messages


def _describe_messages(schema: dict[str, Any]) -> None:
    # Null is no message; None stands for messages without text.
    schema |= {"minItems": 1, "items": schema["items"]["anyOf"][0]}


class RetainRequest(Request, Returns[Retained]):
    """Store messages, in the order they were said, and derive facts from them."""

    messages: Annotated[tuple[GivenMessage, ...], AfterValidator(_not_empty)] = Field(
        max_length=MAX_BATCH, json_schema_extra=_describe_messages
    )
    infer: Flag = Field(default=True, description="Derive facts; False keeps messages for recall by their words alone.")
    wait: Flag = Field(
        default=True,
        description="Derive facts before returning; False returns when the messages are stored and queued.",
    )

    @property
    def texts(self) -> list[NewMessage]:
        """The messages that have text."""
        return [message for message in self.messages if message is not None]

    @property
    def skipped(self) -> list[Skipped]:
        """Reports of the messages that have none."""
        numbers = [number for number, message in enumerate(self.messages, start=1) if message is None]
        return [Skipped(what=f"message {number}", reason="it has no text") for number in numbers]


class ProcessRequest(Request, Returns[Retained]):
    """Derive facts from all pending messages."""

    messages: tuple[Name, ...] = Field(
        default=(), description="Report the facts of these messages even if another worker derived them."
    )


class RecallOptions(TypedDict, total=False):
    """The filters of `RecallFilters` as keyword arguments."""

    networks: Sequence[Network]
    tags: Sequence[str]
    tags_match: TagsMatch
    entities: Sequence[str]
    speakers: Sequence[str]
    metadata: Mapping[str, JsonValue]
    occurred: Interval | None
    at_time: datetime | str | None
    known_at: datetime | str | None
    include_expired: bool
    recency_half_life: timedelta | None
    importance_weight: float
    now: datetime | str | None
    precise: bool
    min_answerable: float
    explain: bool


class SearchOptions(RecallOptions, total=False):
    """The options of recall and retrieve as keyword arguments."""

    banks: Sequence[str]


class FactFilters(Request):
    """The facts that a search may return; an empty filter accepts every fact. A search passes them to the store."""

    networks: Annotated[tuple[Network, ...], AfterValidator(distinct)] = Field(
        default=(), description="Only facts of these networks; all by default."
    )
    tags: Names = Field(default=(), description="Only facts with these tags.")
    tags_match: TagsMatch = Field(
        default="all",
        description="The rule for tags: all of them, any of them, or exactly these; the `_or_none` rules also accept "
        "facts without tags.",
    )
    entities: Names = Field(default=(), description="Only facts about one of these entities, by name.")
    speakers: Names = Field(
        default=(), description="Only facts that one of these speakers said, by the names of their messages."
    )
    metadata: ComparableMetadata = Field(
        default_factory=dict, description="Only facts whose metadata has these values."
    )
    occurred: Interval | None = Field(default=None, description="Only facts that happened in this interval.")
    at_time: Instant | None = Field(default=None, description="Return what was true at this time.")
    known_at: Instant | None = Field(default=None, description="Return what the bank believed at this time.")
    include_expired: Flag = Field(default=False, description="Also return facts that no longer hold.")


class RecallFilters(FactFilters):
    """Filters, time travel and weights, the same for recall, retrieve and reflect."""

    recency_half_life: HalfLife | None = Field(
        default=None, description="Prefer recent facts: the age at which a fact's weight is halved (ISO 8601)."
    )
    importance_weight: Weight = Field(default=0.0, description="The share of importance in the score.")
    now: Instant | None = Field(
        default=None, description='The time of the question, for words such as "last week"; the present by default.'
    )
    precise: Flag = Field(
        default=False, description="Return the fewest facts that suffice, whatever the budget would allow."
    )
    min_answerable: Weight = Field(
        default=0.0, description="Return nothing if the facts hold the answer with a lower probability than this."
    )
    explain: Flag = Field(default=False, description="Also return how each fact was found.")


def _none_if_blank(query: object) -> object:
    return None if isinstance(query, str) and not query.strip() else query


class SeveralBanks(Request):
    """The banks of a search that covers more than one."""

    banks: Annotated[tuple[Name, ...], Field(max_length=MAX_BANKS), AfterValidator(distinct)] = Field(
        default=(),
        description="Search these banks together, in place of that of the request; each fact names its bank.",
        examples=[["project", "me"]],
    )


class RecallRequest(RecallFilters, SeveralBanks, Returns[Recalled]):
    """Return facts by relevance within a token budget."""

    query: QueryText
    max_tokens: Tokens = Field(default=4096, description="Tokens of all returned facts together, at most.")
    budget: Nodes = Field(default="mid", description="How many candidates to explore: low, mid, high or a number.")


class RetrieveRequest(RecallFilters, SeveralBanks, Returns[Recalled]):
    """Return a number of facts by relevance."""

    query: QueryText
    top_k: Annotated[Count, Field(le=MAX_NODES)] = Field(default=10, description="Facts to return, at most.")


class ContextRequest(SeveralBanks, Returns[PromptContext]):
    """Return one block of memories for a system prompt."""

    query: Annotated[QueryText | None, BeforeValidator(_none_if_blank)] = Field(
        default=None, description="What the next answer is about; without it, no relevant facts are searched."
    )
    user: Name | None = Field(
        default=None,
        description="The name of the user whose profile and instructions are meant, or an entity's id; by default the "
        "one user of the bank, if only one speaks in it.",
        examples=["Ana"],
    )
    max_tokens: Tokens = Field(default=2048, description="Tokens of the whole text, at most.")
    now: Instant | None = Field(default=None, description="The time of the query; the present by default.")
    precise: Flag = Field(
        default=True, description="Of the relevant facts, show the fewest that suffice; False fills the budget."
    )
    session: Name | None = Field(
        default=None,
        description="Your name of a conversation, whose contexts begin with the same blocks at every turn, so that a "
        "provider's prompt cache can reuse them.",
        examples=["chat-42"],
    )


class ReflectOptions(RecallOptions, total=False):
    """The options of `ReflectRequest` as keyword arguments."""

    max_tokens: int
    budget: Budget
    max_lookups: int
    schema: type[BaseModel] | Mapping[str, JsonValue] | None
    opinions: bool


class ReflectRequest(RecallFilters, Returns[Answer]):
    """Answer a question from memory."""

    query: QueryText
    max_tokens: Tokens = Field(default=8192, description="Tokens of all facts that the answer may use, at most.")
    budget: Nodes = Field(default="mid", description="How many candidates to explore: low, mid, high or a number.")
    max_lookups: Annotated[int, Strict()] = Field(
        default=MAX_LOOKUPS, ge=0, le=MAX_LOOKUPS, description="Further queries to memory while answering, at most."
    )
    answer_schema: AnswerSchema | None = Field(
        default=None, alias="schema", description="A JSON schema; the answer is also returned in this shape as `data`."
    )
    opinions: Flag = Field(default=True, description="Store opinions that the answer forms; needs write permission.")

    @property
    def asks_about_the_past(self) -> bool:
        """True if the question is about what was true or believed at another time; no opinion is formed then."""
        return self.at_time is not None or self.known_at is not None or self.include_expired


class ForgetRequest(Request, Returns[Forgotten]):
    """Delete exactly one target with everything derived from it."""

    messages: tuple[Name, ...] = Field(default=(), description="Ids of messages.")
    document: Name | None = Field(default=None, description="The name of a document.")
    entity: Name | None = Field(default=None, description="An entity's id or name.")
    bank: Flag = Field(default=False, description="The whole bank.")

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if sum((bool(self.messages), self.document is not None, self.entity is not None, self.bank)) != 1:
            raise ValueError("Name exactly one thing to forget: messages, a document, an entity or bank=True")
        return self


def _refused(bank: bool) -> bool:
    if bank:
        raise ValueError("this request can't delete the whole bank; name messages, a document or an entity")
    return bank


class ForgetContentRequest(ForgetRequest):
    """A forget request that can't delete the whole bank, for callers with write permission."""

    bank: SkipJsonSchema[Annotated[Flag, AfterValidator(_refused)]] = False


class ProfileRequest(Request, Returns[Profile]):
    """Return the bank's profile."""


class CreateBankRequest(Request, Returns[Status]):
    """Create the bank unless it exists, and set its profile if one is given."""

    profile: InstanceOf[Profile] | None = None


class ProfileUpdate(Request, Returns[Profile]):
    """Replace the bank's profile; the former one stays in its history."""

    profile: InstanceOf[Profile]


class FormerProfilesRequest(Request, Returns[list[FormerProfile]]):
    """Return the profiles that the bank had before."""


class BackgroundRequest(Request, Returns[Profile]):
    """Merge a statement into the profile's background. This needs a language model."""

    snippet: Annotated[Content, Field(max_length=2000)] = Field(examples=["You grew up in Colorado."])


class MergeEntitiesRequest(Request, Returns[Merge]):
    """Merge two entities, each given by id or name."""

    keep: Name = Field(description="The entity that remains.")
    absorb: Name = Field(description="The entity that becomes part of the other; its names stay as aliases.")
    reason: Annotated[Text, Field(max_length=1000)] = ""


class UndoMergeRequest(Request, Returns[EntityId]):
    """Undo a merge; the two entities are not merged again."""

    merge: Name = Field(description="The id of the merge.")


class MaintainRequest(Request, Returns[Maintained]):
    """Run maintenance."""


class ReprocessRequest(Request, Returns[Retained]):
    """Derive everything from the messages again."""


class CreateKeyRequest(Request):
    """Create an API key."""

    name: Name = Field(examples=["the support agent"])
    banks: tuple[Name, ...] = Field(
        default=("*",),
        min_length=1,
        max_length=1000,
        description="Bank names, or prefixes followed by an asterisk.",
        examples=[["support-*"]],
    )
    permission: Permission = "read"
    expires_at: Instant | None = None


class OneFact(Request):
    """The fact of a request."""

    fact: Name = Field(description="The id of a fact, or of a message that was recalled verbatim.")


class WhyRequest(OneFact, Returns[Provenance]):
    """Return the provenance of a fact."""


class FactRequest(OneFact, Returns[Fact]):
    """Return one fact."""


class FactHistoryRequest(OneFact, Returns[list[Fact]]):
    """Return all versions of a fact, oldest first."""


class FactText(Request):
    """A fact's new text."""

    text: Content = Field(description="The new text.", examples=["Ana lives in Porto."])
    reason: Annotated[Text, Field(max_length=1000)] = Field(default="", description="The reason, which `why` shows.")
    valid_at: Instant | None = Field(
        default=None,
        description="The time since which the new text is true, if that is in the past; now by default.",
        examples=["2024-03-01T00:00:00Z"],
    )


class UpdateFactRequest(OneFact, FactText, Returns[Fact]):
    """Write a new version of a fact, and return it; the old one is closed and stays in its history."""


class DeleteFactRequest(OneFact, Returns[Forgotten]):
    """Delete one fact with what rests on it, and the messages that state nothing else."""


class PinState(Request):
    """The new state of a pin."""

    pinned: Flag = Field(default=True, description="True to pin the fact, False to unpin it.")


class PinFactRequest(OneFact, PinState, Returns[Fact]):
    """Pin or unpin a fact, and return it; maintenance never closes a pinned one."""


class FactJudgement(Request):
    """A judgement of a fact as a hit of a question."""

    question: Annotated[QueryText, Field(max_length=2000)] = Field(description="The question that recalled the fact.")
    useful: Flag | None = Field(
        default=False, description="False for a wrong hit, true for a right one; null removes the feedback."
    )
    reason: Annotated[Text, Field(max_length=1000)] = ""


class FeedbackRequest(OneFact, FactJudgement, Returns[Fact]):
    """Judge a fact as a hit, and return it: recalls of nearly the same question rank it a little higher or lower."""


class StatusRequest(Request, Returns[Status]):
    """Return the bank's counts, backlog and problems."""


class BanksRequest(Request, Returns[list[str]]):
    """Return the names of all banks."""


class PageRequest(Request):
    """One page of a list."""

    after: Name | None = Field(default=None, description="The id of the last record of the page before.")
    limit: Annotated[Count, Field(le=LARGEST_PAGE)] = Field(default=100, description="Records per page.")


class MessagesRequest(PageRequest, Returns[list[Message]]):
    """Return a page of messages in the order they were stored."""

    document: Name | None = Field(default=None, description="Only messages of this document.")


class EpisodesRequest(PageRequest, Returns[list[Episode]]):
    """Return a page of episodes in the order they were stored."""


class FactsRequest(PageRequest, Returns[list[Fact]]):
    """Return a page of facts, including closed ones, in the order they were stored."""

    instructions: Flag = Field(default=False, description="Only standing instructions of the user.")
    pinned: Flag = Field(default=False, description="Only pinned facts.")
    feedback: Flag = Field(default=False, description="Only facts with feedback.")
    with_embeddings: Flag = Field(default=False, description="Include the facts' embeddings.")


class EntitiesRequest(PageRequest, Returns[list[Entity]]):
    """Return a page of entities in the order they were first seen."""


class OpinionsRequest(Request, Returns[list[Fact]]):
    """Return the current opinions."""


class ObservationsRequest(Request, Returns[list[Fact]]):
    """Return the current observations of one entity, or of all."""

    entity: Name | None = Field(default=None, description="An entity's id or name.")


class TrajectoryRequest(Request, Returns[list[ConfidenceChange]]):
    """Return the confidence changes of an opinion."""

    opinion: Name = Field(description="The id of an opinion.")


class MergesRequest(Request, Returns[list[Merge]]):
    """Return the merges of entities."""


class JobsRequest(Request, Returns[list[Job]]):
    """Return the queued jobs."""


class WebhooksRequest(Request, Returns[list[Webhook]]):
    """Return the webhooks, oldest first."""


class AddWebhookRequest(Request, Returns[SignedWebhook]):
    """Add a webhook, and return it with its signing secret, which is shown only once."""

    id: Name | None = Field(
        default=None, description="Its id, by default a new one. If the bank has a webhook with it, that is returned."
    )
    url: WebhookUrl = Field(description="An https:// URL.", examples=["https://app.example/hooks/vmemo"])
    events: tuple[WebhookEvent, ...] = Field(
        default=("retained", "revised", "forgotten"), min_length=1, max_length=3, description="The events to deliver."
    )


class DeleteWebhookRequest(Request, Returns[Webhook]):
    """Delete a webhook with its queued deliveries, and return it."""

    webhook: Name = Field(description="The id of a webhook.")
