"""Settings of a memory. Each default is stated here or in its group; docs/settings.md lists them all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Literal, TypeAlias, get_args

from vmemo.models.checked import AtLeastOne, Checked, Env, Languages, Names, Positive, UserPath, field_types
from vmemo.models.ids import Channel
from vmemo.models.setting_groups import (
    FusionSettings,
    LinkSettings,
    MaintenanceSettings,
    ObservationSettings,
    OpinionSettings,
    ResolutionWeights,
    RevisionModelSettings,
    RevisionSettings,
    SegmentationSettings,
    SpreadingSettings,
    TemporalSettings,
)

Style = Literal["narrative", "atomic"]
"""Facts that a language model extracts: a few comprehensive ones per topic, or many indivisible ones."""
EncryptionKey: TypeAlias = str | bytes | Callable[[], str | bytes]
"""A passphrase, a key of 32 bytes or 64 hexadecimal characters, or a function that returns either."""
Redactor: TypeAlias = Callable[[str], str]
"""Returns a text without what must not be stored."""
CHANNELS: frozenset[Channel] = frozenset(get_args(Channel))


@dataclass(frozen=True, kw_only=True)
class Settings(Checked):
    """Settings of a memory. Those with an `Env` are read from that variable by `from_environment()`."""

    url: Annotated[str, Env("VMEMO_URL")] = field(default="sqlite:///memory.db", repr=False)
    """The database if none is passed: a URL, a file path or :memory:."""
    embedder: Annotated[str | None, Env("VMEMO_EMBEDDER")] = None
    """The embedder if none is passed, such as openai:text-embedding-3-small or small; None uses the packaged one."""
    embedder_key: Annotated[str | None, Env("VMEMO_EMBEDDER_KEY")] = field(default=None, repr=False)
    """API key of the embedder; by default the variable that its provider documents."""
    embedder_url: Annotated[str | None, Env("VMEMO_EMBEDDER_URL")] = None
    """Base URL of an OpenAI-compatible server, in place of the embedding provider's own."""
    embedder_timeout: Annotated[Positive, Env("VMEMO_EMBEDDER_TIMEOUT")] = 30.0
    """Seconds that one request to an embedding service may take."""
    embedder_attempts: AtLeastOne = 4
    """Attempts per request to an embedding service for transient errors."""
    embedder_concurrency: AtLeastOne = 8
    """Requests to an embedding service at a time, at most."""
    embedding_cache: Annotated[UserPath | None, Env("VMEMO_EMBEDDING_CACHE")] = None
    """File of the on-disk embedding cache; None keeps vectors in memory only."""
    embedding_cache_size: int = 4096
    """Texts whose vectors the in-memory cache keeps."""
    channels: frozenset[Channel] = CHANNELS
    """Channels that recall searches."""
    analysis: bool = True
    """Analyse the type, the time and the parts of a question before the search."""
    name_finder: Annotated[Literal["auto", "rules", "spacy"], Env("VMEMO_NAMES")] = "auto"
    """Names in texts are found by rules, or also by spaCy; auto uses spaCy if it is installed."""
    languages: Annotated[Languages, Env("VMEMO_LANGUAGES")] = ()
    """Codes of languages besides English in which times are recognised, such as de or zh; needs `vmemo[languages]`."""
    southern_seasons: Annotated[bool, Env("VMEMO_SOUTHERN_SEASONS")] = False
    """Read seasons as those of the southern hemisphere: summer is December to February."""
    instruction_tokens: Annotated[int, Env("VMEMO_INSTRUCTION_TOKENS")] = 150
    """Tokens of the user's standing instructions that every recall and reflection is given, at most; 0 gives none."""
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
    extraction_instructions: Annotated[str, Env("VMEMO_EXTRACTION_INSTRUCTIONS")] = ""
    """Your rules for the facts that a language model extracts; they are added to the extraction prompt."""
    categories: Annotated[Names, Env("VMEMO_CATEGORIES")] = ()
    """Categories to which a language model assigns the facts that it extracts, as tags; separated by commas."""
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
    """Seconds after new facts before observations are updated; facts in between share one update."""
    background: bool = True
    """Run opinion and observation jobs in this process, in addition to `process()` and workers."""
    access_delay: float = 2.0
    """Seconds after a recall until access counts are written."""
    busy_timeout: Annotated[float, Env("VMEMO_BUSY_SECONDS")] = 60.0
    """Seconds that a call waits for another process's write before it raises StoreBusy."""
    encryption_key: Annotated[EncryptionKey | None, Env("VMEMO_ENCRYPTION_KEY")] = field(default=None, repr=False)
    """Key of an encrypted SQLite file; needs `vmemo[encryption]`."""
    encryption_key_file: Annotated[UserPath | None, Env("VMEMO_ENCRYPTION_KEY_FILE")] = None
    """File that holds the key of an encrypted SQLite file as text, in place of `encryption_key`."""
    redact: Annotated[Literal["secrets", "none"] | Redactor, Env("VMEMO_REDACT")] = "secrets"
    """Redaction of messages before they are stored: of secrets, none, or by a function from text to text."""
    webhook_private: Annotated[bool, Env("VMEMO_WEBHOOK_PRIVATE")] = False
    """Let webhooks reach loopback and private addresses, as receivers on the same machine or network need."""
    webhook_timeout: Annotated[Positive, Env("VMEMO_WEBHOOK_TIMEOUT")] = 10.0
    """Seconds that one delivery to a webhook may take."""
    connections: Annotated[AtLeastOne, Env("VMEMO_CONNECTIONS")] = 10
    """Maximum connections of this process to a PostgreSQL server."""
    read_url: Annotated[str | None, Env("VMEMO_READ_URL")] = field(default=None, repr=False)
    """URL of a PostgreSQL replica that recalls and listings read from; None reads from the database itself."""
    fusion: FusionSettings = field(default_factory=FusionSettings)
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    spreading: SpreadingSettings = field(default_factory=SpreadingSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    segmentation: SegmentationSettings = field(default_factory=SegmentationSettings)
    resolution: ResolutionWeights = field(default_factory=ResolutionWeights)
    revision: RevisionSettings = field(default_factory=RevisionSettings)
    revision_model: RevisionModelSettings = field(default_factory=RevisionModelSettings)
    opinions: OpinionSettings = field(default_factory=OpinionSettings)
    observations: ObservationSettings = field(default_factory=ObservationSettings)
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Return the settings of the VMEMO_* variables; a variable that is missing or empty keeps the default."""
        given = {name: kind.read(environment, variables_of_group(name, kind)) for name, kind in groups().items()}
        return cls.read(environment, variables(), **given)


def groups() -> dict[str, type[Checked]]:
    """Return the groups of settings by name."""
    return {
        name: hint
        for name, hint in field_types(Settings).items()
        if isinstance(hint, type) and issubclass(hint, Checked)
    }


def variables() -> dict[str, str]:
    """Return the environment variable of each setting that has one and is in no group."""
    found = ((name, part) for name, hint in field_types(Settings).items() for part in getattr(hint, "__metadata__", ()))
    return {name: part.name for name, part in found if isinstance(part, Env)}


def variables_of_group(name: str, kind: type[Checked]) -> dict[str, str]:
    """Return the environment variable of each setting of a group."""
    return {each.name: f"VMEMO_{name}_{each.name}".upper() for each in fields(kind)}
