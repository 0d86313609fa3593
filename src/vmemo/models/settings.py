"""Settings of a memory. Each default is stated here; docs/settings.md lists them all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, cast, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from vmemo.errors import InvalidInput
from vmemo.models.records import Channel, QueryType, in_words

Style = Literal["narrative", "atomic"]
"""Facts that a language model extracts: a few comprehensive ones per topic, or many indivisible ones."""
Fusion = Literal["sum", "rank"]
"""Fusion of channel rankings: the weighted sum of normalised scores, or reciprocal ranks."""
ResolutionPart = Literal["name", "cooccurrence", "nearness"]
"""Parts of the score of a known entity for a name."""
EncryptionKey: TypeAlias = str | bytes | Callable[[], str | bytes]
"""A passphrase, a key of 32 bytes or 64 hexadecimal characters, or a function that returns either."""
Redactor: TypeAlias = Callable[[str], str]
"""Returns a text without what must not be stored."""
CHANNELS: frozenset[Channel] = frozenset(get_args(Channel))
CHANNEL_WEIGHTS: Mapping[Channel, float] = {
    "semantic": 1.0,
    "keyword": 0.5,
    "graph": 0.05,
    "temporal": 0.3,
    "verbatim": 0.8,
}
"""Chosen on conversations of our own, like the weights by type and those of resolution."""
WEIGHTS_BY_TYPE: Mapping[QueryType, Mapping[Channel, float]] = {
    "temporal": {"temporal": 0.4},
    "multi-hop": {"graph": 0.2},
}
RESOLUTION_WEIGHTS: Mapping[ResolutionPart, float] = {"name": 0.75, "cooccurrence": 0.15, "nearness": 0.1}


def _split(value: object) -> object:
    """Split a list that an environment variable holds."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


def _decode(value: object) -> object:
    """Decode a JSON object that an environment variable holds."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _over(defaults: Mapping[Any, float]) -> BeforeValidator:
    """Add the defaults of the weights that are not given."""

    def complete(value: object) -> object:
        value = _decode(value)
        return {**defaults, **cast("Mapping[object, object]", value)} if isinstance(value, Mapping) else value

    return BeforeValidator(complete)


Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], BeforeValidator(_split)]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]


class Settings(BaseSettings):
    """Settings of a memory. `Settings(...)` ignores the environment; `from_environment()` reads VMEMO_* variables."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        # Build the validator at first use, to keep the import of vmemo fast.
        defer_build=True,
        env_prefix="VMEMO_",
        env_ignore_empty=True,
        enable_decoding=False,
    )

    url: str = Field(default="sqlite:///memory.db", repr=False)
    """The database if none is passed: a URL, a file path or :memory:."""
    read_url: str | None = Field(default=None, repr=False)
    """URL of a PostgreSQL replica that takes the load of recalls and listings; None reads from the database itself."""
    connections: AtLeastOne = 10
    """Maximum connections of this process to a database server; their sum must stay below the server's limit."""
    busy_timeout: float = 60.0
    """Seconds that a call waits for another process's write before it raises StoreBusy."""
    encryption_key: EncryptionKey | None = Field(default=None, repr=False)
    """Key of an encrypted SQLite file; needs `vmemo[encryption]`."""
    encryption_key_file: UserPath | None = None
    """File that holds the key of an encrypted SQLite file as text, in place of `encryption_key`."""

    llm: str | None = None
    """The language model if none is passed, such as openai:gpt-5-mini; None uses the local engine."""
    llm_key: str | None = Field(default=None, repr=False)
    """API key of the model; by default the variable that its provider documents."""
    llm_url: str | None = None
    """Base URL of an OpenAI-compatible server, in place of the provider's own."""
    llm_timeout: float = 60.0
    """Seconds that one call of a language model may take; slow local models need more."""
    llm_requests_per_minute: float | None = None
    """Maximum calls of the model per minute, as your provider's plan allows."""
    llm_prices: Annotated[Mapping[str, tuple[float, float]], BeforeValidator(_decode)] = {}
    """Dollars per million input and output tokens, by model, if the provider does not report the cost; JSON."""
    question_timeout: float = 5.0
    """Seconds that a model may take to resolve the time of a question; 0 leaves it to the rules."""
    embedder: str | None = None
    """The embedder if none is passed, such as openai:text-embedding-3-small or deep; None uses the packaged one."""
    embedder_key: str | None = Field(default=None, repr=False)
    """API key of the embedder; by default the variable that its provider documents."""
    embedder_url: str | None = None
    """Base URL of an OpenAI-compatible server, in place of the embedding provider's own."""
    embedder_timeout: Positive = 30.0
    """Seconds that one request to an embedding service may take."""
    embedding_cache: UserPath | None = None
    """File of an on-disk embedding cache, which saves calls of a service; None keeps vectors in memory only."""
    reranker_key: str | None = Field(default=None, repr=False)
    """API key of a reranking service."""
    attempts: AtLeastOne = 4
    """Attempts per request to a language model or an embedding service for transient errors; 1 fails at once."""

    languages: Names = ()
    """Codes of languages besides English in which times are recognised, such as de or zh; needs `vmemo[languages]`."""
    southern_seasons: bool = False
    """Read seasons as those of the southern hemisphere: summer is December to February."""
    redact: Literal["secrets", "none"] | Redactor = "secrets"
    """Redaction of messages before they are stored: of secrets, none, or by a function from text to text."""
    style: Style = "narrative"
    """Facts that a language model extracts: narrative (few, comprehensive) or atomic (many, indivisible)."""
    extraction_instructions: str = ""
    """Your rules for the facts that a language model extracts; they are added to the extraction prompt."""
    categories: Names = ()
    """Categories to which a language model assigns the facts that it extracts, as tags; separated by commas."""
    episode_gap_minutes: Positive = 30.0
    """A longer pause between two messages begins a new episode; mail and tickets need more than a chat."""
    episode_messages: AtLeastOne = 25
    """Messages of an episode, at most: a language model reads one episode per call."""
    links_per_fact: Annotated[int, Field(ge=0)] = 5
    """Temporal and semantic links that a new fact gets, at most of each; 0 stores none and saves their space."""
    resolution_weights: Annotated[Mapping[ResolutionPart, NotNegative], _over(RESOLUTION_WEIGHTS)] = RESOLUTION_WEIGHTS
    """Weights of a known entity's score for a name: similar name, names in the same fact, time since its mention."""
    revision: bool = True
    """Mark facts that newer ones outdate and close corrected ones, without a language model; off does neither."""

    channels: Annotated[frozenset[Channel], BeforeValidator(_split)] = CHANNELS
    """Channels that recall searches; one that your questions do not need can be left out."""
    fusion: Fusion = "sum"
    """Fusion of the channels: the weighted sum of normalised scores, or reciprocal ranks, which ignore scores."""
    channel_weights: Annotated[Mapping[Channel, NotNegative], _over(CHANNEL_WEIGHTS)] = CHANNEL_WEIGHTS
    """Weights of the channels for your own data; a channel that is not given keeps its default. JSON."""
    channel_weights_by_type: Annotated[Mapping[QueryType, Mapping[Channel, NotNegative]], BeforeValidator(_decode)] = (
        WEIGHTS_BY_TYPE
    )
    """Weights of channels that differ for a type of question; JSON."""
    analysis: bool = True
    """Analyse the type, the time and the parts of a question before the search; off if your questions are keywords."""
    instruction_tokens: int = 150
    """Tokens of the user's standing instructions that every recall and reflection is given, at most; 0 gives none."""

    background: bool = True
    """Run opinion and observation jobs in this process; off if `process()` or workers run them."""
    observe_delay: float = 30.0
    """Seconds after new facts before observations are updated; facts in between share one update and its cost."""
    extractions_per_bank: AtLeastOne = 10
    """Jobs that run at a time for one bank."""
    extractions_per_process: AtLeastOne = 300
    """Jobs that run at a time in this process; fewer keep below a provider's limits."""
    lease_seconds: Positive = 60.0
    """Job lease; the jobs of a dead worker become available after this."""
    poll_seconds: float = 0.25
    """Interval at which an idle worker polls the queue; a longer one spares the database."""
    retry_initial_seconds: float = 15.0
    """Delay before a failed job is tried again; it doubles with each failure."""
    webhook_private: bool = False
    """Let webhooks reach loopback and private addresses, as receivers on the same machine or network need."""
    maintenance_every: NotNegative = 24.0
    """Hours between the end of scheduled maintenance and the next run; 0 disables the schedule."""
    maintenance_shorten_after: NotNegative | None = 90.0
    """Days after which an episode's narrative is shortened to its most central line; None keeps narratives."""
    maintenance_fade_below: float | None = None
    """Retention score below which a fact is closed; None closes none.

    The score is the fact's importance, halved with each half-life since a message last stated it, plus a fifth for
    each recall of it, at most 1.
    """
    maintenance_half_life: Positive = 180.0
    """Days in which a fact loses half of its importance."""

    def __init__(self, **values: object) -> None:
        try:
            # Not that of BaseSettings, which reads the environment.
            BaseModel.__init__(self, **values)
        except ValidationError as error:
            raise InvalidInput(self._explain("Settings", error)) from error

    @classmethod
    def _explain(cls, source: str, error: ValidationError, variables: Container[str] = ()) -> str:
        lines: list[str] = []
        for each in error.errors():
            name = str(each["loc"][0])
            field = cls.model_fields.get(name)
            value = f", not {each['input']!r:.60}" if field is None or field.repr else ""
            label = f"VMEMO_{name.upper()}" if name in variables else name
            lines.append(f"{label}: {in_words(each['type'], each['msg'])}{value}")
        return f"{source} is not valid: {'; '.join(lines)}."

    @classmethod
    def from_environment(cls, **given: object) -> Self:
        """Return the settings of the VMEMO_* variables, below those given; an empty variable keeps the default."""
        # The source takes milliseconds to find that nothing is set, and every memory asks it.
        found = EnvSettingsSource(cls)() if any(name.upper().startswith("VMEMO_") for name in os.environ) else {}
        values: dict[str, Any] = {**found, **given}
        try:
            return cls(**values)
        except InvalidInput as error:
            if isinstance(cause := error.__cause__, ValidationError):
                raise InvalidInput(cls._explain("The environment", cause, found.keys() - given.keys())) from cause
            raise
