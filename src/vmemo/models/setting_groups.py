"""Groups of settings, by the stage that they are for. Each default is stated here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from vmemo.models.checked import AtLeastOne, Checked, Cosine, FromJson, NotNegative, Positive, Share
from vmemo.models.ids import Channel, EntityType, LinkKind, QueryType, RevisionKind

Fusion = Literal["sum", "rank"]
"""Fusion of channel rankings: the weighted sum of normalised scores, or reciprocal ranks."""
WeightsByType: TypeAlias = Mapping[QueryType, Mapping[Channel, NotNegative]]
"""Weights of channels that differ for a type of question."""


def _weights_by_type() -> WeightsByType:
    return {"temporal": {"temporal": 0.4}, "multi-hop": {"graph": 0.2}}


@dataclass(frozen=True, kw_only=True)
class FusionSettings(Checked):
    """Weights of the channels' rankings in the fused order of a recall, chosen on conversations of our own."""

    method: Fusion = "sum"
    """The weighted sum of normalised scores, or reciprocal ranks."""
    rank_constant: NotNegative = 60.0
    """The constant k of reciprocal rank fusion, 1 / (k + rank)."""
    semantic: NotNegative = 1.0
    """Weight of the semantic channel."""
    keyword: NotNegative = 0.5
    """Weight of the keyword channel."""
    graph: NotNegative = 0.05
    """Weight of the graph channel."""
    temporal: NotNegative = 0.3
    """Weight of the temporal channel."""
    verbatim: NotNegative = 0.8
    """Weight of the verbatim channel."""
    by_type: Annotated[WeightsByType, FromJson] = field(default_factory=_weights_by_type)
    """Weights of channels that differ for a type of question; in the environment a JSON object."""
    reply: Share = 0.8
    """Factor of the scores of the assistant's long replies, unless the question asks what the assistant said."""
    reply_tokens: AtLeastOne = 80
    """Tokens from which a reply of the assistant, or a part of one, is long; shorter ones have their full score."""
    parts: NotNegative = 0.3
    """Weight of the rankings of all parts of a question together, relative to that of the whole question."""
    late: NotNegative = 1.0
    """Weight of late interaction beside the fused score, whose best is about 1.5."""
    texts: AtLeastOne = 50
    """Candidates whose texts a reranker of the caller compares, at most: each takes a model pass."""
    gather: Positive = 2.0
    """Factor of the candidates that are searched if a question asks to count or to list everything."""
    repeated_episode: Share = 0.9
    """Share of its score that a fact keeps for each better one of its episode but the first, if a question counts."""
    semantic_floor: Cosine = 0.3
    """Least cosine of a candidate of the semantic channel."""

    def weights(self, type: QueryType) -> dict[Channel, float]:
        """Return the channels' weights for a type of question."""
        return {**{channel: getattr(self, channel) for channel in get_args(Channel)}, **self.by_type.get(type, {})}


@dataclass(frozen=True, kw_only=True)
class TemporalSettings(Checked):
    """The temporal channel: facts of the time that a question is about."""

    floor: Cosine = 0.4
    """Least cosine of a fact inside the interval, also if a temporal link leads to it."""
    edge_penalty: Share = 0.25
    """Share of its score that a fact at the very edge of the interval loses."""
    decay: Share = 0.7
    """Share of a score that is left after a step along a temporal link."""
    linked: int = 10
    """Best facts inside the interval whose temporal links are followed."""


@dataclass(frozen=True, kw_only=True)
class SpreadingSettings(Checked):
    """The graph channel: activation spreads from entry points along links."""

    decay: Share = 0.8
    """Share of activation that is left after each step."""
    floor: Positive = 0.1
    """Activation below which a fact is not reached."""
    entry_floor: Cosine = 0.5
    """Cosine from which a semantic hit is an entry point."""
    entries: int = 6
    """Semantic hits that activation starts from, at most."""
    expansions: AtLeastOne = 12
    """Nodes whose edges are followed, at least; larger budgets follow more."""
    fan: AtLeastOne = 8
    """Facts of an entity that are followed: those most similar to the question."""
    common: AtLeastOne = 25
    """Facts of an entity up to which its edges weigh less with each: an entity with n facts weighs 1 / sqrt(n)."""
    entity: NotNegative = 1.2
    """Multiplier of activation along a shared entity."""
    causes: NotNegative = 1.2
    """Multiplier from a cause to its effect."""
    caused_by: NotNegative = 1.2
    """Multiplier from an effect to its cause."""
    enables: NotNegative = 1.1
    """Multiplier along a link to or from what enables."""
    prevents: NotNegative = 1.1
    """Multiplier along a link to or from what prevents."""
    semantic: NotNegative = 1.0
    """Multiplier along a semantic link."""
    temporal: NotNegative = 0.7
    """Multiplier along a temporal link."""

    @property
    def multipliers(self) -> dict[LinkKind, float]:
        """The multipliers of activation by kind of link."""
        return {kind: getattr(self, kind) for kind in get_args(LinkKind) if kind not in get_args(RevisionKind)}


@dataclass(frozen=True, kw_only=True)
class LinkSettings(Checked):
    """Links that are stored between facts."""

    hours: Positive = 24.0
    """Hours over which the weight of a temporal link falls to 1/e; also the longest distance of a link."""
    least_temporal: Share = 0.3
    """Least weight of a temporal link."""
    temporal: int = 5
    """Temporal links per fact, to the nearest earlier ones."""
    cosine: Cosine = 0.7
    """Least cosine of a semantic link."""
    semantic: int = 5
    """Semantic links per fact, at most."""


@dataclass(frozen=True, kw_only=True)
class SegmentationSettings(Checked):
    """Division of messages into episodes."""

    gap_minutes: Positive = 30.0
    """A longer pause between two messages begins a new episode."""
    messages: AtLeastOne = 25
    """Messages of an episode, at most."""
    contrast: float = 0.065
    """Least difference of mean cosine within topics and between them to separate a run of messages."""
    interleaved: float = 0.12
    """Least such difference to separate topics that alternate."""
    run_messages: AtLeastOne = 3
    """Least messages of a run that is separated, and of the rest."""
    topic_messages: AtLeastOne = 2
    """Least messages of a topic that alternates with another, and on each side of a run within a topic."""
    adjacency: float = 0.05
    """Added to the cosine of adjacent messages."""
    repeat_cosine: Cosine = 0.95
    """Cosine from which a message counts as a repetition."""

    @property
    def gap(self) -> timedelta:
        """The longest pause within an episode."""
        return timedelta(minutes=self.gap_minutes)


@dataclass(frozen=True, kw_only=True)
class RevisionSettings(Checked):
    """Known facts that a new one is compared with."""

    similar: AtLeastOne = 8
    """Known facts that are compared, at most."""
    cosine: Cosine = 0.85
    """Least cosine of a known fact that shares no entity with the new one."""
    cosine_shared_entity: Cosine = 0.8
    """Least cosine of a known fact that shares an entity."""
    claims: int = 50
    """Known facts that are searched for a conflicting claim; 0 compares no claims."""
    claim_cosine: Cosine = 0.3
    """Least cosine of these."""


@dataclass(frozen=True, kw_only=True)
class OpinionSettings(Checked):
    """Changes of opinions by new facts."""

    step: Share = 0.15
    """Change of confidence when a fact reinforces or weakens an opinion; a contradiction counts twice."""
    cosine: Cosine = 0.6
    """Least cosine of a fact that affects an opinion without sharing an entity."""


@dataclass(frozen=True, kw_only=True)
class ObservationSettings(Checked):
    """Profiles of entities: which entities have one, when it is updated, and its share of a recall."""

    person_facts: AtLeastOne = 5
    """Facts from which a person gets a profile with the next call of the model."""
    other_facts: AtLeastOne = 12
    """Facts from which an organization or a product gets one; places, events and concepts get none."""
    least_new_facts: AtLeastOne = 16
    """New facts about an entity below which the model is not called for it; half of it if a statement lost support."""
    new_facts: AtLeastOne = 30
    """New facts from which a profile is updated; a young one already when the facts about its entity have doubled."""
    characters: Annotated[int, Field(ge=8_000)] = 12_000
    """Characters of profiles and facts in one prompt, at most; more are divided among several calls."""
    recall_share: Share = 0.2
    """Share of a recall's budget that observations may take if the question asks for a profile or a summary.

    Other recalls return observations only if their `networks` name no other network.
    """
    reflect_share: Share = 0.05
    """The same for questions to reflect, whatever they ask for."""

    def least_facts(self, type: EntityType) -> int | None:
        """Return the number of facts from which an entity has a profile; None for types that have none."""
        if type == "PERSON":
            return self.person_facts
        return self.other_facts if type in ("ORGANIZATION", "PRODUCT") else None


@dataclass(frozen=True, kw_only=True)
class ResolutionWeights(Checked):
    """Entity resolution: weights of a candidate's score, and the score and lead that a match needs."""

    name: NotNegative = 0.75
    """Weight of the similarity of the names."""
    cooccurrence: NotNegative = 0.15
    """Weight of the share of names in the same fact that the candidate was mentioned with before."""
    nearness: NotNegative = 0.10
    """Weight of the time since the candidate was last mentioned."""
    days: Positive = 30.0
    """Days in which the nearness falls to 1/e."""
    threshold: float = 0.6
    """Least score of a match."""
    margin: float = 0.08
    """Least lead over the next candidate."""


@dataclass(frozen=True, kw_only=True)
class RevisionModelSettings(Checked):
    """The packaged model that finds facts which newer ones make outdated, in banks without a language model."""

    enabled: bool = True
    """Use the packaged model, which needs the packaged embedder."""
    close: Share = 0.32
    """Probability from which the older fact is closed."""
    suspect: Share = 0.3
    """Probability from which the older fact is marked as maybe outdated."""
    prefer: Share = 0.03
    """Probability from which the newer of two best candidates ranks above the older one."""
    part: Share = 0.15
    """Probability from which one of several statements of a fact that is closed does not hold any more."""
    statements: AtLeastOne = 8
    """Statements of a fact that is closed, at most: one with more is only marked."""
    candidates: AtLeastOne = 12
    """Nearest earlier statements that a new one is compared with, at most."""
    floor: Cosine = 0.3
    """Least cosine of these."""
    few: AtLeastOne = 12
    """Number of such statements up to which a probability counts in full; with more its odds fall in proportion."""
    looked_up: int = 64
    """Best candidates of a recall whose newer or older facts are looked up."""
    brought_in: int = 10
    """Best candidates of a recall that bring in the fact which replaced them, even if no channel has found it."""
    reordered: int = 5
    """Best candidates of a recall among which a newer fact moves above one that it may have outdated."""


@dataclass(frozen=True, kw_only=True)
class MaintenanceSettings(Checked):
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
