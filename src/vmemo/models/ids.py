"""Identifiers and the fixed choices that fields take."""

from __future__ import annotations

from typing import Literal, NewType

BankId = NewType("BankId", str)
MessageId = NewType("MessageId", str)
EpisodeId = NewType("EpisodeId", str)
FactId = NewType("FactId", str)
EntityId = NewType("EntityId", str)
Role = Literal["user", "assistant", "system", "tool"]
Network = Literal["world", "experience", "opinion", "observation"]
LinkKind = Literal["temporal", "semantic", "entity", "causes", "caused_by", "enables", "prevents"]
EntityType = Literal["PERSON", "ORGANIZATION", "LOCATION", "PRODUCT", "CONCEPT", "EVENT", "OTHER"]
Channel = Literal["semantic", "keyword", "graph", "temporal", "verbatim"]
QueryType = Literal["temporal", "update", "multi-hop", "preference", "assistant", "count", "factual", "general"]
Budget = Literal["low", "mid", "high"] | int
MessageState = Literal["pending", "grouped", "derived", "extracted", "raw"]
"""Unread; unread but placed in an episode; read into facts that repeat its words; read into facts that don't; kept for
recall by its words alone."""
Verdict = Literal["add", "merge", "supersede", "duplicate"]
Stance = Literal["reinforce", "weaken", "contradict", "neutral"]
JobKind = Literal["process", "extract", "opinions", "observe", "maintain"]
"""Work of a bank: read what is unread; read one episode; weigh opinions against new facts; describe an entity anew;
tidy the bank up."""
CauseKind = Literal["causes", "caused_by", "enables", "prevents"]
