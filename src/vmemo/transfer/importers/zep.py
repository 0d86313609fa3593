"""Zep and Graphiti: threads of messages, and edges, whose facts have times of validity.

Neither product writes a file, so this reads what their APIs return: one object with any of `threads`, `messages`,
`episodes`, `edges` (or `facts`) and `nodes`, a list of messages or edges, or one of them on each line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import AliasChoices, Field, JsonValue

from vmemo.models.base import Instant
from vmemo.models.requests import NewMessage
from vmemo.transfer.importers.reading import ForeignFile
from vmemo.transfer.importers.records import (
    ForeignModel,
    ForeignRecords,
    Place,
    StatedFact,
    derived_id,
    without_none,
)

_ROLES = {"norole": "user", "function": "tool", "developer": "system", "ai": "assistant", "human": "user"}


class ZepMessage(ForeignModel):
    """A message; in earlier versions `role` is the speaker's name and `role_type` the role."""

    uuid: str | None = Field(default=None, validation_alias=AliasChoices("uuid", "uuid_"))
    role: str | None = None
    role_type: str | None = None
    name: str | None = None
    content: str
    created_at: Instant
    metadata: Mapping[str, JsonValue] | None = None
    thread_id: str | None = Field(default=None, validation_alias=AliasChoices("thread_id", "session_id"))


class ZepThread(ForeignModel):
    """A thread and its user; its messages are read one by one."""

    thread_id: str = Field(validation_alias=AliasChoices("thread_id", "session_id", "uuid"))
    user_id: str | None = None
    messages: Sequence[JsonValue] = ()


class ZepNode(ForeignModel):
    """An entity."""

    uuid: str = Field(validation_alias=AliasChoices("uuid", "uuid_"))
    name: str


class ZepEdge(ForeignModel):
    """A fact about two entities."""

    uuid: str = Field(validation_alias=AliasChoices("uuid", "uuid_"))
    fact: str
    name: str | None = None
    group_id: str | None = None
    source_node_uuid: str | None = None
    target_node_uuid: str | None = None
    created_at: Instant
    valid_at: Instant | None = None
    invalid_at: Instant | None = None
    expired_at: Instant | None = None


def read(file: ForeignFile) -> ForeignRecords:
    """Return messages and facts. Messages beside facts are kept verbatim: the facts were derived from them."""
    parts = _Parts()
    for place, value in file.values:
        parts.add(place, value)
    names = {node.uuid: node.name for node in (place.parse(ZepNode, each) for place, each in parts.nodes)}
    facts = [_fact(place, place.parse(ZepEdge, each), names) for place, each in parts.edges]
    facts.sort(key=lambda fact: str(fact.message.timestamp))
    messages = [_message(place, place.parse(ZepMessage, each), thread) for place, each, thread in parts.messages]
    messages.sort(key=lambda message: str(message.timestamp))
    return ForeignRecords(facts=facts, verbatim=messages) if facts else ForeignRecords(messages=messages)


class _Parts:
    """The records of a file by type, each with its place."""

    def __init__(self) -> None:
        self.messages: list[tuple[Place, JsonValue, ZepThread | None]] = []
        self.edges: list[tuple[Place, JsonValue]] = []
        self.nodes: list[tuple[Place, JsonValue]] = []

    def add(self, place: Place, value: JsonValue, thread: ZepThread | None = None) -> None:
        """Add the records of a value, whatever its type."""
        if isinstance(value, list):
            named = place if place.path else place / "records"
            for number, each in enumerate(value):
                self.add(named[number], each, thread)
        elif not isinstance(value, dict):
            raise place.error("must be an object with a message, an edge, a node or lists of them")
        elif "fact" in value:
            self.edges.append((place, value))
        elif "content" in value:
            self.messages.append((place, value, thread))
        elif "messages" in value and ("thread_id" in value or "session_id" in value):
            found = place.parse(ZepThread, value)
            self.add(place / "messages", value["messages"], found)
        elif found := [name for name in _LISTS if name in value]:
            for name in found:
                self.add(place / name, value[name], thread)
        elif "name" in value:
            self.nodes.append((place, value))
        else:
            raise place.error("is neither a message, an edge nor a node")


_LISTS = ("threads", "messages", "episodes", "edges", "facts", "nodes")


def _message(place: Place, message: ZepMessage, thread: ZepThread | None) -> NewMessage:
    named = message.role_type is not None
    role = (message.role_type or message.role or "user").lower().removesuffix("role") or "user"
    belongs = thread.thread_id if thread is not None else message.thread_id
    user = thread.user_id if thread is not None else None
    role = _ROLES.get(role, role)
    own_name = message.name or (message.role if named else None)
    return place.message(
        without_none(
            {
                "id": derived_id("zep", message.uuid) if message.uuid else None,
                "content": message.content,
                "role": "user" if role == "no" else role,
                "speaker": own_name or (user if role == "user" else None),
                "timestamp": message.created_at,
                "document": "zep" if belongs is None else f"zep/{belongs}",
                "metadata": {**without_none({"user_id": user, "thread_id": belongs}), **(message.metadata or {})},
            }
        )
    )


def _fact(place: Place, edge: ZepEdge, names: Mapping[str, str]) -> StatedFact:
    """Return an edge as a fact; an invalidated one is closed."""
    nodes = [names[id] for id in (edge.source_node_uuid, edge.target_node_uuid) if id is not None and id in names]
    message = place.message(
        without_none(
            {
                "id": derived_id("zep", "edge", edge.uuid),
                "content": edge.fact,
                "timestamp": edge.created_at,
                "document": "zep/facts" if edge.group_id is None else f"zep/facts/{edge.group_id}",
                "metadata": without_none({"zep_id": edge.uuid, "relation": edge.name, "graph": edge.group_id}),
            }
        )
    )
    return StatedFact(
        message=message,
        names=tuple(dict.fromkeys(nodes)),
        valid_at=edge.valid_at or edge.created_at,
        invalid_at=edge.invalid_at,
        expired_at=edge.expired_at,
    )
