"""Settings of a memory. Each default is stated here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from vmemo.errors import InvalidInput
from vmemo.models.ids import Channel

Style = Literal["narrative", "atomic"]
"""Facts that a language model extracts: a few comprehensive ones per topic, or many indivisible ones."""
Fusion = Literal["sum", "rank"]
"""Fusion of channel rankings: the weighted sum of normalised scores, or reciprocal ranks."""
CHANNELS: frozenset[Channel] = frozenset(get_args(Channel))


@dataclass(frozen=True, kw_only=True)
class ResolutionWeights:
    """Weights of an entity candidate's score, and the score and lead that a match needs."""

    name: float = 0.75
    cooccurrence: float = 0.15
    nearness: float = 0.10
    days: float = 30.0
    threshold: float = 0.6
    margin: float = 0.08


@dataclass(frozen=True, kw_only=True)
class MaintenanceSettings:
    """Steps of maintenance and its interval."""

    join: bool = True
    """Join consecutive episodes on the same topic."""
    shorten_after: float | None = 90.0
    """Days after which an episode's narrative is shortened to one or two sentences; None keeps narratives."""
    fade_below: float | None = None
    """Retention score below which a fact is closed; None closes none.

    The score is the fact's importance, halved with each half-life since a message last stated it, plus a fifth for
    each recall of it, at most 1.
    """
    half_life: float = 180.0
    """Days in which a fact loses half of its importance."""
    every: float = 24.0
    """Hours between the end of scheduled maintenance and the next run; 0 disables the schedule."""

    def __post_init__(self) -> None:
        if not (self.half_life > 0 and self.every >= 0 and (self.shorten_after is None or self.shorten_after >= 0)):
            raise InvalidInput(
                "MaintenanceSettings: half_life must be greater than 0, every and shorten_after at least 0; "
                f"got half_life={self.half_life}, every={self.every}, shorten_after={self.shorten_after}."
            )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What can be set, each default stated here and nowhere else."""

    embedding_cache: Path | None = None
    """File of the on-disk embedding cache; None keeps vectors in memory only."""
    remembered_embeddings: int = 4096
    """Texts whose vectors the in-memory cache keeps."""
    fusion: Fusion = "sum"
    """How channels are merged."""
    channels: frozenset[Channel] = CHANNELS
    """The ways of finding candidates that recall uses."""
    analysis: bool = True
    """Whether a question's type, time and parts are looked for."""
    names: Literal["auto", "rules", "spacy"] = "auto"
    """Who finds names besides the rules: spaCy, where it is installed, or nobody."""
    languages: tuple[str, ...] = ()
    """Codes of languages besides English in which times are read, such as de; needs `vmemo[languages]`."""
    reranker_key: str | None = field(default=None, repr=False)
    """What a reranking service is asked with."""
    llm: str | None = None
    """The language model where none is passed, such as openai:gpt-5-mini; None is the local engine."""
    llm_key: str | None = field(default=None, repr=False)
    """The model's key; without it, the variable that its provider documents is read."""
    llm_url: str | None = None
    """The base URL of an OpenAI-compatible server, in place of the provider's own."""
    llm_timeout: float = 60.0
    """Seconds that one call of a language model may take."""
    question_timeout: float = 5.0
    """Seconds that a model may take for a question's time, which recall does without otherwise; 0 asks none."""
    llm_tries: int = 4
    """How often a call is made that fails for a reason which may pass."""
    llm_rate: float | None = None
    """Calls per minute at most."""
    llm_prices: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Dollars per million tokens in and out, by model, where the provider does not tell."""
    style: Style = "narrative"
    """How a language model writes facts: a few comprehensive ones, or many that can't be divided."""
    identity: ResolutionWeights = field(default_factory=ResolutionWeights)
    """What tells whether two names are one entity."""
    extractions_per_bank: int = 10
    """Pieces of queued work that run at a time for one bank."""
    extractions_per_process: int = 300
    """Pieces of queued work that run at a time in this process."""
    lease_seconds: float = 60.0
    """How long a worker that has died keeps others from its work."""
    poll_seconds: float = 0.25
    """How often the queue is looked at while there is nothing to do."""
    first_retry: float = 15.0
    """Seconds after which failed work is tried again by itself; each failure doubles them."""
    longest_retry: float = 3600.0
    """The most seconds between two tries."""
    observe_delay: float = 30.0
    """Seconds after new facts in which further ones are waited for before an entity is described anew."""
    background: bool = True
    """Whether opinions and observations are seen to while the program goes on, besides by `process()` and workers."""
    upkeep: MaintenanceSettings = field(default_factory=MaintenanceSettings)
    """What maintenance does."""
    access_delay: float = 2.0
    """Seconds after a recall until access counts are written."""
    busy_seconds: float = 60.0
    """How long a call waits for another process's write before it gives up."""
    connections: int = 10
    """Connections to a PostgreSQL server that this process opens at most."""

    def __post_init__(self) -> None:
        if self.fusion not in get_args(Fusion):
            raise InvalidInput(f"fusion is {' or '.join(get_args(Fusion))}, not {self.fusion!r}.")
        if unknown := set(self.channels) - CHANNELS:
            raise InvalidInput(f"There is no channel {min(unknown)!r}; there are {', '.join(sorted(CHANNELS))}.")
        if self.style not in get_args(Style):
            raise InvalidInput(f"style is {' or '.join(get_args(Style))}, not {self.style!r}.")
        if self.lease_seconds <= 0 or self.extractions_per_bank < 1 or self.extractions_per_process < 1:
            raise InvalidInput("Leases take time, and at least one piece of work must be allowed to run.")
        if self.connections < 1:
            raise InvalidInput("A memory needs at least one connection.")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Settings from VMEMO_* variables; what is not set keeps its default."""
        cache = environment.get("VMEMO_EMBEDDING_CACHE")
        return cls(
            embedding_cache=Path(cache).expanduser() if cache else None,
            busy_seconds=_number(environment, "VMEMO_BUSY_SECONDS", cls.busy_seconds),
            connections=int(_number(environment, "VMEMO_CONNECTIONS", cls.connections)),
            reranker_key=environment.get("VMEMO_RERANKER_KEY"),
            names=_names(environment.get("VMEMO_NAMES", "auto")),
            llm=environment.get("VMEMO_LLM") or None,
            llm_key=environment.get("VMEMO_LLM_KEY"),
            llm_url=environment.get("VMEMO_LLM_URL"),
            llm_timeout=_number(environment, "VMEMO_LLM_TIMEOUT", cls.llm_timeout),
            style=_style(environment.get("VMEMO_STYLE", "narrative")),
            languages=tuple(filter(None, environment.get("VMEMO_LANGUAGES", "").replace(" ", "").split(","))),
        )


def _names(given: str) -> Literal["auto", "rules", "spacy"]:
    if given in ("auto", "rules", "spacy"):
        return given
    raise InvalidInput(f"VMEMO_NAMES is auto, rules or spacy, not {given!r}.")


def _style(given: str) -> Style:
    if given in ("narrative", "atomic"):
        return given
    raise InvalidInput(f"VMEMO_STYLE is narrative or atomic, not {given!r}.")


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(environment.get(name, default))
    except ValueError as error:
        raise InvalidInput(f"{name} must be a number, not {environment[name]!r}.") from error
