"""What requests hold. Each body is the verb's own arguments; a field that does not exist is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict

from vmemo.models import Disposition, Interval, Message, Network, Profile, Role
from vmemo.models.base import Background, Content, Instant, Name, Share, Text
from vmemo.models.request_fields import MAX_QUERY
from vmemo.models.requests import RecallOptions
from vmemo.models.results import Retained
from vmemo.models.search import TagsMatch
from vmemo.server.problems import ProblemDetails

Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict()]
"""Numbers and truths as JSON has them: a text that reads like one is a mistake of whoever sends it."""


class Body(BaseModel):
    """A request's body."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _shown(*examples: dict[str, JsonValue]) -> ConfigDict:
    """Whole bodies for the description, beside the examples of single fields."""
    return ConfigDict(json_schema_extra={"examples": list[JsonValue](examples)})


class NewMessage(Body):
    """A message to keep. The same line under the same document again changes nothing."""

    content: Content = Field(examples=["I moved to Lisbon last week."])
    role: Role = "user"
    speaker: Name | None = Field(default=None, examples=["Ana"])
    timestamp: Instant | None = Field(default=None, description="When it was said; now, if left out.")
    document: Name | None = Field(default=None, examples=["chat-2026-11-15"])
    tags: tuple[Name, ...] = Field(default=(), max_length=100)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    id: Name | None = Field(default=None, description="An id of your own; one that is there already changes nothing.")

    def message(self) -> Message:
        """The message, checked."""
        return Message.of(self.model_dump(exclude_none=True))


class Retain(Body):
    """Messages to keep, in the order they were said."""

    model_config = _shown(
        {
            "messages": [
                {"content": "I moved to Lisbon last week.", "speaker": "Ana", "document": "chat-2026-11-15"},
                {"content": "How do you like it there?", "role": "assistant", "document": "chat-2026-11-15"},
            ]
        }
    )
    messages: list[NewMessage] = Field(min_length=1)
    infer: Flag = Field(default=True, description="False keeps them for recall by their words alone.")
    wait: Flag = Field(default=True, description="False answers once they are stored; a worker reads them.")


class Process(Body):
    """Messages whose facts are told where a worker was faster."""

    messages: list[Name] = Field(default_factory=list, max_length=10_000)


class RetainResponse(Retained):
    """The result of a retain. With a `problem` the messages are stored and queued, but not processed yet."""

    problem: ProblemDetails | None = None  # pyright: ignore[reportIncompatibleVariableOverride]


class Filters(Body):
    """What may be found, and as of when."""

    networks: tuple[Network, ...] | None = None
    tags: tuple[Name, ...] | None = Field(default=None, max_length=100)
    tags_match: TagsMatch | None = Field(default=None, description="Which of the tags are needed; all by default.")
    entities: tuple[Name, ...] | None = Field(default=None, max_length=100)
    metadata: dict[str, JsonValue] | None = None
    occurred: Interval | None = None
    at_time: Instant | None = Field(default=None, description="What was true then.")
    known_at: Instant | None = Field(default=None, description="What the bank believed then.")
    include_expired: Flag | None = None
    recency_half_life: timedelta | None = Field(default=None, description="Newer facts weigh more; ISO 8601.")
    importance_weight: Annotated[float, Strict(), Field(ge=0, le=1)] | None = None
    now: Instant | None = Field(default=None, description="The moment of the question; the present, if left out.")
    explain: Flag | None = None

    def options(self) -> RecallOptions:
        """Those that were given."""
        names = RecallOptions.__annotations__.keys()
        given: Any = {name: value for name in names if (value := getattr(self, name)) is not None}
        return given


Budgeted = Literal["low", "mid", "high"] | Annotated[Count, Field(ge=1, le=10_000)]
Question = Annotated[str, Field(min_length=1, max_length=MAX_QUERY, examples=["Where does Ana live?"])]


class Recall(Filters):
    """A question, and how many tokens the answer may take."""

    model_config = _shown({"query": "Where does Ana live?", "max_tokens": 1000, "budget": "low"})
    query: Question
    max_tokens: Count = Field(default=4096, ge=1)
    budget: Budgeted = "mid"


class Retrieve(Filters):
    """A question, and how many facts the answer may have."""

    model_config = _shown({"query": "Where did Ana live?", "top_k": 5, "at_time": "2026-01-01T00:00:00Z"})
    query: Question
    top_k: Count = Field(default=10, ge=1, le=1000)


class Reflect(Filters):
    """A question to answer from memory."""

    model_config = _shown({"query": "What should we do when Ana visits?", "max_lookups": 1, "opinions": False})
    query: Question
    max_tokens: Count = Field(default=8192, ge=1)
    budget: Budgeted = "mid"
    max_lookups: Count = Field(default=3, ge=0, le=3)
    answer_schema: dict[str, JsonValue] | None = Field(
        default=None, alias="schema", description="A JSON schema that the answer is also put into."
    )
    opinions: Flag = Field(default=True, description="Whether opinions may be formed; that takes the right to write.")


class Forget(Body):
    """Exactly one thing to forget."""

    model_config = _shown({"document": "chat-2026-11-15"}, {"entity": "Ana"})
    messages: list[Name] | None = Field(default=None, min_length=1, max_length=10_000)
    document: Name | None = None
    entity: Name | None = Field(default=None, description="An entity's id or name.")


class NewProfile(Body):
    """A bank's character; what is left out becomes its default."""

    model_config = _shown({"name": "Mira", "disposition": {"skepticism": 4}, "background": "I teach history."})
    name: Name = "assistant"
    disposition: Disposition = Field(default_factory=Disposition)
    bias: Share = 0.5
    background: Background = ""

    def profile(self) -> Profile:
        """The profile."""
        return Profile.of(self.model_dump())


class MoreBackground(Body):
    """A piece of background to work into the profile."""

    snippet: Content = Field(examples=["You grew up in Colorado."])


class NewMerge(Body):
    """Two entities that are one, each by id or name."""

    model_config = _shown({"keep": "Ana Sousa", "absorb": "Ana", "reason": "She said so."})
    keep: Name
    absorb: Name
    reason: Annotated[Text, Field(max_length=1000)] = ""
