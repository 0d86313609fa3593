"""Identifier types and the literal types of fields."""

from __future__ import annotations

from typing import Literal, NamedTuple, NewType

BankId = NewType("BankId", str)
MessageId = NewType("MessageId", str)
EpisodeId = NewType("EpisodeId", str)
FactId = NewType("FactId", str)
EntityId = NewType("EntityId", str)
Role = Literal["user", "assistant", "system", "tool", "document"]
"""document: text that nobody says to the agent, such as a web page; it is data, as a tool's output is."""
Network = Literal["world", "experience", "opinion", "observation"]
LinkKind = Literal[
    "temporal", "semantic", "entity", "causes", "caused_by", "enables", "prevents", "replaces", "outdates"
]
"""Stores number the kinds in this order. A newer fact replaces one that it closed, and outdates one that it may."""
RevisionKind = Literal["replaces", "outdates"]
EntityType = Literal["PERSON", "ORGANIZATION", "LOCATION", "PRODUCT", "CONCEPT", "EVENT", "OTHER"]
Channel = Literal["semantic", "keyword", "graph", "temporal", "verbatim"]
QueryType = Literal[
    "temporal",
    "update",
    "multi-hop",
    "preference",
    "assistant",
    "count",
    "ordering",
    "summary",
    "change",
    "contradiction",
    "instruction",
    "factual",
    "general",
]
QuestionTense = Literal["present", "past", "former"]
"""present; past: an earlier event or state, which may last; former: a state that is over, or how it changed."""
Budget = Literal["low", "mid", "high"] | int
MessageState = Literal["pending", "grouped", "derived", "extracted", "raw", "curated"]
"""pending; grouped: pending and placed in an episode; derived: its facts keep its words; extracted: its facts do not;
raw: stored without facts, for verbatim recall; curated: one of its facts was edited or deleted by hand, so that it is
neither processed again nor recalled by its words."""
Verdict = Literal["add", "merge", "supersede", "duplicate"]
Stance = Literal["reinforce", "weaken", "contradict", "neutral"]
JobKind = Literal["process", "extract", "opinions", "observe", "maintain", "webhook"]
"""process: pending messages; extract: one episode; opinions: update by new facts; observe: describe an entity;
maintain: maintenance of the bank; webhook: the delivery of one event."""
HitStatus = Literal["current", "maybe_outdated", "former"]
"""current; maybe_outdated: a newer fact may replace it; former: it held before, or is no longer believed."""
CauseKind = Literal["causes", "caused_by", "enables", "prevents"]


class BankRevision(NamedTuple):
    """One state of a bank's memories: `number` grows with every change.

    The identity never repeats: a bank that is created again under the name of a deleted one has another.
    """

    identity: str
    number: int

    def next(self) -> BankRevision:
        """Return the revision after one more change."""
        return BankRevision(self.identity, self.number + 1)
