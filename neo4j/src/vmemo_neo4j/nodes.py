"""Records to nodes and back. Nodes are our own, so models are built from them without validation.

Times are read as whole microseconds: the driver takes many times longer to build its own datetimes than Python does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from vmemo.models import Bank, BankId, Entity, Episode, EpisodeId, Fact, Mention, Message, Profile
from vmemo.stores.values import claims_of, dump, instant, metadata_of, micros as micros_of

Properties = dict[str, object]
Cells = Sequence[Any]
"""The columns of a row."""


def micros(time: str) -> str:
    """Return the Cypher expression of a time as whole microseconds since 1970."""
    return f"{time}.epochSeconds * 1000000 + {time}.microsecond"


LISTS: Final = frozenset({"tags", "aliases", "not_aliases"})
FLAGS: Final = frozenset({"instruction", "pinned"})
"""Properties that are true or absent."""


class Stored(NamedTuple):
    """The fields of a record that are properties of its node."""

    names: tuple[str, ...]
    times: tuple[str, ...]

    def columns(self, node: str) -> str:
        """Return the Cypher expressions of the properties of a node, with times in microseconds."""
        plain = [f"{node}.{name}" for name in self.names]
        return ", ".join([*plain, *(micros(f"{node}.{name}") for name in self.times)])

    def properties(self, record: Message | Episode | Entity | Fact) -> Properties:
        """Return the properties of a record's node."""
        values = {name: getattr(record, name) for name in (*self.names, *self.times)}
        for name in self.names:
            if name in LISTS:
                values[name] = list(values[name])
            elif name == "metadata":
                values |= {name: dump(values[name]), "metadata_items": metadata_items(values[name])}
            elif name == "claims":
                values[name] = dump(values[name]) if values[name] else None
            elif name in FLAGS:
                values[name] = values[name] or None
        return values

    def fields(self, cells: Cells) -> tuple[dict[str, Any], Cells]:
        """Return the fields of a record from its columns, and the other cells."""
        end = len(self.names) + len(self.times)
        values = dict(zip(self.names, cells, strict=False))
        for name, time in zip(self.times, cells[len(self.names) : end], strict=True):
            values[name] = instant_or_none(time)
        for name in self.names:
            if name in LISTS:
                values[name] = tuple(values[name])
        if "metadata" in values:
            values["metadata"] = metadata_of(values["metadata"])
        return values, cells[end:]


def metadata_items(metadata: Mapping[str, JsonValue]) -> list[str]:
    """Return keys with their values as JSON: Cypher compares texts. 1, true and "1" are three values, 1 and 1.0 one."""
    return [dump([key, _canonical(value)]) for key, value in metadata.items()]


def _canonical(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _canonical(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def instant_or_none(micros: int | None) -> Any:
    """Return a time from its microseconds, or None."""
    return None if micros is None else instant(micros)


MESSAGE: Final = Stored(
    ("id", "role", "speaker", "content", "document", "key", "tags", "metadata", "state", "error"),
    ("timestamp", "recorded_at", "expires_at"),
)
EPISODE: Final = Stored(("id", "title", "narrative", "previous"), ("started_at", "ended_at", "recorded_at"))
ENTITY: Final = Stored(("id", "name", "type", "aliases", "not_aliases"), ("first_seen", "last_seen"))
FACT: Final = Stored(
    (
        *("id", "network", "text", "tokens", "context", "confidence", "importance", "access_count", "supersedes"),
        *("claims", "tags", "metadata", "engine", "instruction", "pinned", "reason"),
    ),
    (
        *("occurred_start", "occurred_end", "mentioned_at", "valid_at", "invalid_at", "recorded_at"),
        *("expired_at", "expires_at"),
    ),
)
BANK_COLUMNS: Final = f"b {{.name, .profile, .embedder, .dimension, created_at: {micros('b.created_at')}}}"
MESSAGE_COLUMNS: Final = MESSAGE.columns("m")
EPISODE_COLUMNS: Final = (
    f"{EPISODE.columns('p')}, [(p)-[:CONTAINS]->(m:Message) | [{micros('m.timestamp')}, m.seq, m.id]]"
)
ENTITY_COLUMNS: Final = f"{ENTITY.columns('e')}, COUNT {{(e)<-[:MENTIONS]-()}}"
FACT_COLUMNS: Final = (
    f"{FACT.columns('f')}, "
    "[(f)-[r:MENTIONS|SOURCE|CONTEXT|IN_EPISODE|BASED_ON]->(o) | CASE type(r) "
    "WHEN 'MENTIONS' THEN ['MENTIONS', o.seq, o.id, o.name, o.type, r.name_in_text] "
    "WHEN 'IN_EPISODE' THEN ['IN_EPISODE', o.seq, o.id, o.title] "
    "ELSE [type(r), o.seq, o.id] END]"
)
"""The columns of a fact `f`: its id first, and last its references, which one traversal reads."""


def bank_of(node: Mapping[str, Any]) -> Bank:
    """Return a bank from its node; raise ValueError for a damaged one."""
    if node["dimension"] < 1:
        raise ValueError(f"{node['dimension']} is not a dimension")
    return Bank.model_construct(
        id=BankId(node["name"]),
        profile=Profile.model_validate_json(node["profile"]),
        embedder=node["embedder"],
        dimension=node["dimension"],
        created_at=instant(node["created_at"]),
    )


def message_properties(message: Message) -> Properties:
    """Return the properties of a new message."""
    failed = message.error is not None
    failure = {"attempts": int(failed), "failed_at": message.recorded_at if failed else None}
    return {**MESSAGE.properties(message), **failure}


def message_of(cells: Cells) -> Message:
    """Return a message from its columns."""
    return Message.model_construct(**MESSAGE.fields(cells)[0])


def episode_of(cells: Cells) -> Episode:
    """Return an episode from its columns, with its messages in order of time."""
    fields, (messages,) = EPISODE.fields(cells)
    return Episode.model_construct(**fields, messages=tuple(id for *_, id in sorted(messages)))


def entity_of(cells: Cells) -> Entity:
    """Return an entity from its columns."""
    fields, (mentions,) = ENTITY.fields(cells)
    return Entity.model_construct(**fields, mentions=mentions)


def fact_properties(fact: Fact) -> Properties:
    """Return the properties of a fact, with the beginning and end of its occurrence in microseconds.

    Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond.
    """
    mentioned = micros_of(fact.mentioned_at)
    end = None if fact.occurred_end is None else micros_of(fact.occurred_end)
    began = min(mentioned, mentioned if end is None else end - 1)
    if fact.occurred_start is not None:
        began = micros_of(fact.occurred_start)
    ended = max(mentioned + 1 if end is None else end, began + 1)
    return {**FACT.properties(fact), "began": began, "ended": ended}


def fact_of(cells: Cells, bank: BankId, embedding: tuple[float, ...] | None = None) -> Fact:
    """Return a fact from its columns; what it refers to comes in the order in which that was stored."""
    fields, (references,) = FACT.fields(cells)
    referred: defaultdict[str, list[Cells]] = defaultdict(list)
    for type, *reference in references:
        referred[type].append(reference)
    return Fact.trusted(
        {
            **fields,
            "bank": bank,
            "claims": claims_of(fields["claims"] or "[]"),
            "instruction": fields["instruction"] is True,
            "pinned": fields["pinned"] is True,
            "entities": tuple(_mention(*cells) for _, *cells in sorted(referred["MENTIONS"], key=itemgetter(0))),
            "messages": _ids(referred["SOURCE"]),
            "context_from": next(iter(_ids(referred["CONTEXT"])), None),
            "episodes": _ids(referred["IN_EPISODE"]),
            "basis": _ids(referred["BASED_ON"]),
            "embedding": embedding,
        }
    )


def _mention(id: str, name: str, type: str, name_in_text: str | None) -> Mention:
    return Mention.trusted({"id": id, "name": name, "type": type, "name_in_text": name_in_text or ""})


def _ids(found: Sequence[Cells]) -> tuple[str, ...]:
    return tuple(id for _, id, *_ in sorted(found, key=itemgetter(0)))


def titles_of(cells: Cells) -> dict[EpisodeId, str]:
    """Return the titles of the episodes of a fact, from its columns."""
    return {EpisodeId(id): title for type, _, id, *title in cells[-1] if type == "IN_EPISODE" for title in title}
