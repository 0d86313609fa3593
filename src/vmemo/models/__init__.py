"""Frozen public data, shared by stages, stores and interfaces."""

from vmemo.models.base import new_id, utc_now
from vmemo.models.entities import Entity, Mention, Merge
from vmemo.models.facts import ConfidenceChange, Fact, Interval, Link, RetentionScore
from vmemo.models.hits import ChannelPlacement, GraphStep, Hit, Provenance, Reranking
from vmemo.models.ids import (
    BankId,
    Budget,
    CauseKind,
    Channel,
    EntityId,
    EntityType,
    EpisodeId,
    FactId,
    JobKind,
    LinkKind,
    MessageId,
    MessageState,
    Network,
    QueryType,
    Role,
    Stance,
    Verdict,
)
from vmemo.models.messages import Episode, Message
from vmemo.models.profiles import Bank, Disposition, FormerProfile, Profile

__all__ = [
    "Bank",
    "BankId",
    "Budget",
    "CauseKind",
    "Channel",
    "ChannelPlacement",
    "ConfidenceChange",
    "Disposition",
    "Entity",
    "EntityId",
    "EntityType",
    "Episode",
    "EpisodeId",
    "Fact",
    "FactId",
    "FormerProfile",
    "GraphStep",
    "Hit",
    "Interval",
    "JobKind",
    "Link",
    "LinkKind",
    "Mention",
    "Merge",
    "Message",
    "MessageId",
    "MessageState",
    "Network",
    "Profile",
    "Provenance",
    "QueryType",
    "Reranking",
    "RetentionScore",
    "Role",
    "Stance",
    "Verdict",
    "new_id",
    "utc_now",
]
