"""Settings of a memory. Each default is stated here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from vmemo.errors import InvalidInput
from vmemo.models.base import in_words
from vmemo.models.ids import Channel

Style = Literal["narrative", "atomic"]
"""Facts that a language model extracts: a few comprehensive ones per topic, or many indivisible ones."""
Fusion = Literal["sum", "rank"]
"""Fusion of channel rankings: the weighted sum of normalised scores, or reciprocal ranks."""
EncryptionKey: TypeAlias = str | bytes | Callable[[], str | bytes]
"""A passphrase, a key of 32 bytes or 64 hexadecimal characters, or a function that returns either."""
CHANNELS: frozenset[Channel] = frozenset(get_args(Channel))


@dataclass(frozen=True)
class Env:
    """The environment variable that a setting is read from."""

    name: str


def _split(value: object) -> object:
    """Split a list that an environment variable holds."""
    return tuple(filter(None, value.replace(" ", "").split(","))) if isinstance(value, str) else value


Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Languages = Annotated[tuple[str, ...], BeforeValidator(_split)]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]


@dataclass(frozen=True)
class _Checked:
    """Validates its fields by their types; raises InvalidInput that names the field, the rule and the value."""

    def __post_init__(self) -> None:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        if all(values[each.name] is each.default for each in fields(self)):
            # Defaults are valid. A default instance may be created on import, where no validator must be built.
            return
        try:
            checked = _validator(type(self)).model_validate(values)
        except ValidationError as error:
            raise InvalidInput(_explain(type(self).__name__, error, {})) from error
        for name in values:
            object.__setattr__(self, name, getattr(checked, name))


@cache
def _validator(kind: type[_Checked]) -> type[BaseModel]:
    """Return the Pydantic model of a settings class, built on first use to keep the import of vmemo fast."""
    types: dict[str, Any] = {name: (hint, ...) for name, hint in get_type_hints(kind, include_extras=True).items()}
    return create_model(
        kind.__name__, __config__=ConfigDict(revalidate_instances="never", hide_input_in_errors=True), **types
    )


def _explain(source: str, error: ValidationError, labels: Mapping[str, str]) -> str:
    """Return what is wrong; a field with a label is reported under it, and the value of a secret is left out."""
    secrets = {each.name for each in fields(Settings) if not each.repr}
    lines: list[str] = []
    for each in error.errors():
        name = str(each["loc"][0])
        value = "" if name in secrets else f", not {each['input']!r:.60}"
        lines.append(f"{labels.get(name, name)}: {in_words(each['type'], each['msg'])}{value}")
    return f"{source} is not valid: {'; '.join(lines)}."


@dataclass(frozen=True, kw_only=True)
class ResolutionWeights(_Checked):
    """Weights of an entity candidate's score, and the score and lead that a match needs."""

    name: float = 0.75
    cooccurrence: float = 0.15
    nearness: float = 0.10
    days: float = 30.0
    threshold: float = 0.6
    margin: float = 0.08


@dataclass(frozen=True, kw_only=True)
class MaintenanceSettings(_Checked):
    """Steps of maintenance and its interval."""

    join: bool = True
    """Join consecutive episodes on the same topic."""
    shorten_after: NotNegative | None = 90.0
    """Days after which an episode's narrative is shortened to one or two sentences; None keeps narratives."""
    fade_below: float | None = None
    """Retention score below which a fact is closed; None closes none.

    The score is the fact's importance, halved with each half-life since a message last stated it, plus a fifth for
    each recall of it, at most 1.
    """
    half_life: Positive = 180.0
    """Days in which a fact loses half of its importance."""
    every: NotNegative = 24.0
    """Hours between the end of scheduled maintenance and the next run; 0 disables the schedule."""


@dataclass(frozen=True, kw_only=True)
class Settings(_Checked):
    """Settings of a memory. Those with an `Env` are read from that variable by `from_environment()`."""

    embedding_cache: Annotated[UserPath | None, Env("VMEMO_EMBEDDING_CACHE")] = None
    """File of the on-disk embedding cache; None keeps vectors in memory only."""
    embedding_cache_size: int = 4096
    """Texts whose vectors the in-memory cache keeps."""
    fusion: Fusion = "sum"
    """Fusion of the channels' rankings."""
    channels: frozenset[Channel] = CHANNELS
    """Channels that recall searches."""
    analysis: bool = True
    """Analyse the type, the time and the parts of a question before the search."""
    name_finder: Annotated[Literal["auto", "rules", "spacy"], Env("VMEMO_NAMES")] = "auto"
    """Names in texts are found by rules, or also by spaCy; auto uses spaCy if it is installed."""
    languages: Annotated[Languages, Env("VMEMO_LANGUAGES")] = ()
    """Codes of languages besides English in which times are recognised, such as de; needs `vmemo[languages]`."""
    reranker_key: Annotated[str | None, Env("VMEMO_RERANKER_KEY")] = field(default=None, repr=False)
    """API key of a reranking service."""
    llm: Annotated[str | None, Env("VMEMO_LLM")] = None
    """The language model if none is passed, such as openai:gpt-5-mini; None uses the local engine."""
    llm_key: Annotated[str | None, Env("VMEMO_LLM_KEY")] = field(default=None, repr=False)
    """API key of the model; by default the variable that its provider documents."""
    llm_url: Annotated[str | None, Env("VMEMO_LLM_URL")] = None
    """Base URL of an OpenAI-compatible server, in place of the provider's own."""
    llm_timeout: Annotated[float, Env("VMEMO_LLM_TIMEOUT")] = 60.0
    """Seconds that one call of a language model may take."""
    question_timeout: float = 5.0
    """Seconds that a model may take to resolve the time of a question; 0 leaves it to the rules."""
    llm_attempts: int = 4
    """Attempts per call for transient errors."""
    llm_requests_per_minute: float | None = None
    """Maximum calls of the model per minute."""
    llm_prices: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Dollars per million input and output tokens, by model, if the provider does not report the cost."""
    style: Annotated[Style, Env("VMEMO_STYLE")] = "narrative"
    """Style of the facts that a language model extracts."""
    resolution: ResolutionWeights = field(default_factory=ResolutionWeights)
    """Weights of entity resolution."""
    extractions_per_bank: AtLeastOne = 10
    """Jobs that run at a time for one bank."""
    extractions_per_process: AtLeastOne = 300
    """Jobs that run at a time in this process."""
    lease_seconds: Positive = 60.0
    """Job lease; the jobs of a dead worker become available after this."""
    poll_seconds: float = 0.25
    """Interval at which an idle worker polls the queue."""
    retry_initial_seconds: float = 15.0
    """Delay before a failed job is tried again; it doubles with each failure."""
    retry_max_seconds: float = 3600.0
    """Maximum delay between two attempts of a job."""
    observe_delay: float = 30.0
    """Seconds after new facts before an entity's observations are updated; facts in between share one update."""
    background: bool = True
    """Run opinion and observation jobs in this process, in addition to `process()` and workers."""
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)
    """Steps of maintenance and its interval."""
    access_delay: float = 2.0
    """Seconds after a recall until access counts are written."""
    busy_timeout: Annotated[float, Env("VMEMO_BUSY_SECONDS")] = 60.0
    """Seconds that a call waits for another process's write before it raises StoreBusy."""
    encryption_key: Annotated[EncryptionKey | None, Env("VMEMO_ENCRYPTION_KEY")] = field(default=None, repr=False)
    """Key of an encrypted SQLite file; needs `vmemo[encryption]`."""
    encryption_key_file: Annotated[UserPath | None, Env("VMEMO_ENCRYPTION_KEY_FILE")] = None
    """File that holds the key of an encrypted SQLite file as text, in place of `encryption_key`."""
    connections: Annotated[AtLeastOne, Env("VMEMO_CONNECTIONS")] = 10
    """Maximum connections of this process to a PostgreSQL server."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Return the settings of the VMEMO_* variables; a variable that is missing or empty keeps the default."""
        variables = _variables()
        given = {setting: environment[name] for setting, name in variables.items() if environment.get(name)}
        try:
            return cls(**given)  # pyright: ignore[reportArgumentType]
        except InvalidInput as error:
            if isinstance(cause := error.__cause__, ValidationError):
                raise InvalidInput(_explain("The environment", cause, variables)) from cause
            raise


@cache
def _variables() -> dict[str, str]:
    """Return the environment variable of each setting that has one."""
    hints = get_type_hints(Settings, include_extras=True)
    found = ((setting, part) for setting, hint in hints.items() for part in getattr(hint, "__metadata__", ()))
    return {setting: part.name for setting, part in found if isinstance(part, Env)}
