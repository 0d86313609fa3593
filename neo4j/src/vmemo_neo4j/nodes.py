"""Nodes to models and back. Nodes are our own, so models are built from them without validation.

Times are read as whole microseconds: the driver takes many times longer to build its own datetimes than Python does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, LiteralString

from vmemo.models import Bank, BankId, Entity, Episode, EpisodeId, Fact, Mention, Message, Profile
from vmemo.stores.values import dump, instant, metadata_of, micros_or_none

DAY: Final = 86_400_000_000
SPANS: Final = (DAY, 32 * DAY, 1024 * DAY, 2**62)
"""Lengths of occurrences in microseconds. An index by length and beginning finds those that reach into an interval."""
Properties = dict[str, object]
Node = Mapping[str, Any]
"""The properties of a node, or a map of a projection."""
Cells = Sequence[Any]
"""The columns of a row."""


def micros(time: LiteralString) -> LiteralString:
    """Return the Cypher expression of a time as whole microseconds since 1970."""
    return f"{time}.epochSeconds * 1000000 + {time}.microsecond"


def _columns(node: LiteralString, names: Sequence[LiteralString], times: Sequence[LiteralString]) -> LiteralString:
    """Return the Cypher expressions of some properties of a node, and of times in microseconds."""
    plain: list[LiteralString] = [f"{node}.{name}" for name in names]
    converted: list[LiteralString] = [micros(f"{node}.{name}") for name in times]
    return ", ".join((*plain, *converted))


_MESSAGE: Final = ("id", "role", "speaker", "content", "document", "key", "tags", "metadata", "state", "error")
_MESSAGE_TIMES: Final = ("timestamp", "recorded_at", "expires_at")
_EPISODE: Final = ("id", "title", "narrative", "previous")
_EPISODE_TIMES: Final = ("started_at", "ended_at", "recorded_at")
_FACT: Final = (
    "id",
    "network",
    "text",
    "tokens",
    "context",
    "confidence",
    "importance",
    "access_count",
    "supersedes",
    "tags",
    "metadata",
    "engine",
    "instruction",
    "pinned",
    "reason",
)
_FACT_TIMES: Final = (
    "occurred_start",
    "occurred_end",
    "mentioned_at",
    "valid_at",
    "invalid_at",
    "recorded_at",
    "expired_at",
    "expires_at",
)
_ENTITY: Final = ("id", "name", "type", "aliases", "not_aliases")
_ENTITY_TIMES: Final = ("first_seen", "last_seen")

BANK: Final = f"b {{.name, .profile, .embedder, .dimension, created_at: {micros('b.created_at')}}}"
MESSAGE: Final = _columns("m", _MESSAGE, _MESSAGE_TIMES)
EPISODE: Final = (
    f"{_columns('p', _EPISODE, _EPISODE_TIMES)}, "
    f"[(p)-[:CONTAINS]->(m:Message) | [{micros('m.timestamp')}, m.seq, m.id]]"
)
FACT: Final = (
    f"{_columns('f', _FACT, _FACT_TIMES)}, "
    "[(f)-[r:MENTIONS|SOURCE|CONTEXT|IN_EPISODE|BASED_ON]->(o) | CASE type(r) "
    "WHEN 'MENTIONS' THEN ['MENTIONS', o.seq, o.id, o.name, o.type, r.name_in_text] "
    "WHEN 'IN_EPISODE' THEN ['IN_EPISODE', o.seq, o.id, o.title] "
    "ELSE [type(r), o.seq, o.id] END]"
)
"""The columns of a fact `f`: its id first, and last its references, which one traversal reads."""
ENTITY: Final = f"{_columns('e', _ENTITY, _ENTITY_TIMES)}, COUNT {{(e)<-[:MENTIONS]-()}}"


def bank_of(node: Node) -> Bank:
    """A bank from its node; raise ValueError for a damaged one."""
    if node["dimension"] < 1:
        raise ValueError(f"{node['dimension']} is not a dimension")
    return Bank.model_construct(
        id=BankId(node["name"]),
        profile=Profile.model_validate_json(node["profile"]),
        embedder=node["embedder"],
        dimension=node["dimension"],
        created_at=instant(node["created_at"]),
    )


def message_values(message: Message) -> Properties:
    """A message as properties."""
    return {
        "id": message.id,
        "role": message.role,
        "speaker": message.speaker,
        "content": message.content,
        "timestamp": message.timestamp,
        "document": message.document,
        "key": message.key,
        "tags": list(message.tags),
        "metadata": dump(message.metadata),
        "recorded_at": message.recorded_at,
        "state": message.state,
        "error": message.error,
        "attempts": 0 if message.error is None else 1,
        "failed_at": None if message.error is None else message.recorded_at,
        "expires_at": message.expires_at,
    }


def message_of(cells: Cells) -> Message:
    """A message from the columns `MESSAGE`."""
    values, _ = _values(cells, _MESSAGE, _MESSAGE_TIMES)
    values["tags"] = tuple(values["tags"])
    values["metadata"] = metadata_of(values["metadata"])
    return Message.model_construct(**values)


def episode_values(episode: Episode) -> Properties:
    """An episode as properties."""
    return {
        "id": episode.id,
        "title": episode.title,
        "narrative": episode.narrative,
        "started_at": episode.started_at,
        "ended_at": episode.ended_at,
        "previous": episode.previous,
        "recorded_at": episode.recorded_at,
    }


def episode_of(cells: Cells) -> Episode:
    """An episode from the columns `EPISODE`, with its messages in order of time."""
    values, (messages,) = _values(cells, _EPISODE, _EPISODE_TIMES)
    return Episode.model_construct(**values, messages=tuple(id for *_, id in sorted(messages)))


def entity_values(entity: Entity) -> Properties:
    """An entity as properties."""
    return {
        "id": entity.id,
        "name": entity.name,
        "type": entity.type,
        "aliases": list(entity.aliases),
        "not_aliases": list(entity.not_aliases),
        "first_seen": entity.first_seen,
        "last_seen": entity.last_seen,
    }


def entity_of(cells: Cells) -> Entity:
    """An entity from the columns `ENTITY`."""
    values, (mentions,) = _values(cells, _ENTITY, _ENTITY_TIMES)
    values["aliases"] = tuple(values["aliases"])
    values["not_aliases"] = tuple(values["not_aliases"])
    return Entity.model_construct(**values, mentions=mentions)


def fact_values(fact: Fact, revision: int) -> Properties:
    """A fact as properties."""
    return {
        "id": fact.id,
        "network": fact.network,
        "text": fact.text,
        "tokens": fact.tokens,
        "context": fact.context,
        **{name: getattr(fact, name) for name in _FACT_TIMES},
        "confidence": fact.confidence,
        "importance": fact.importance,
        "access_count": fact.access_count,
        "supersedes": fact.supersedes,
        "tags": list(fact.tags),
        "metadata": dump(fact.metadata),
        "engine": fact.engine,
        "instruction": fact.instruction or None,
        "pinned": fact.pinned or None,
        "reason": fact.reason,
        "revision": revision,
        **_occurrence(fact),
    }


def fact_of(cells: Cells, bank: BankId, embedding: tuple[float, ...] | None = None) -> Fact:
    """A fact from the columns `FACT`; what it refers to comes in the order in which that was stored."""
    values, (references,) = _values(cells, _FACT, _FACT_TIMES)
    referred: defaultdict[str, list[Cells]] = defaultdict(list)
    for type, *reference in references:
        referred[type].append(reference)
    values["bank"] = bank
    values["tags"] = tuple(values["tags"])
    values["metadata"] = metadata_of(values["metadata"])
    values["instruction"] = values["instruction"] is True
    values["pinned"] = values["pinned"] is True
    values["entities"] = tuple(mention_of(*cells) for _, *cells in sorted(referred["MENTIONS"], key=itemgetter(0)))
    values["messages"] = _ids(referred["SOURCE"])
    values["context_from"] = next(iter(_ids(referred["CONTEXT"])), None)
    values["episodes"] = _ids(referred["IN_EPISODE"])
    values["basis"] = _ids(referred["BASED_ON"])
    values["embedding"] = embedding
    return Fact.trusted(values)


def mention_of(id: str, name: str, type: str, name_in_text: str | None) -> Mention:
    """A mention of an entity."""
    return Mention.trusted({"id": id, "name": name, "type": type, "name_in_text": name_in_text or ""})


def titles_of(cells: Cells) -> dict[EpisodeId, str]:
    """The titles of the episodes of a fact, from the columns `FACT`."""
    return {EpisodeId(id): title for type, _, id, *title in cells[-1] if type == "IN_EPISODE" for title in title}


def _ids(found: Sequence[Cells]) -> tuple[str, ...]:
    return tuple(id for _, id, *_ in sorted(found, key=itemgetter(0)))


def _occurrence(fact: Fact) -> Properties:
    """The beginning and end of a fact's occurrence in microseconds, and the least of `SPANS` that it fits in.

    Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond.
    """
    start, end, mentioned = (
        micros_or_none(time) for time in (fact.occurred_start, fact.occurred_end, fact.mentioned_at)
    )
    assert mentioned is not None, "every fact has a time of mention"
    began = start if start is not None else end - 1 if end is not None and end <= mentioned else mentioned
    ended = max(mentioned + 1 if end is None else end, began + 1)
    return {"began": began, "ended": ended, "span": next(span for span in SPANS if ended - began <= span)}


def _values(cells: Cells, names: Sequence[str], times: Sequence[str]) -> tuple[dict[str, Any], Cells]:
    """Return the properties of a node by name, and the other cells."""
    end = len(names) + len(times)
    values = dict(zip(names, cells, strict=False))
    for name, time in zip(times, cells[len(names) : end], strict=True):
        values[name] = None if time is None else instant(time)
    return values, cells[end:]
