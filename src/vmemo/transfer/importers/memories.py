"""Importers of other memory products, whose records are facts already.

- Mem0: the memories that `get_all()` returns, or a list of them.
- Zep and Graphiti: threads of messages, and edges, whose facts have times of validity. Neither product writes a file.
  This reads what their APIs return: one object with any of `threads`, `messages`, `episodes`, `edges` (or `facts`) and
  `nodes`, a list of messages or edges, or one of them on each line.
- Hindsight: the archive of a document transfer, with documents, their chunks and the facts extracted from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Literal

from pydantic import AliasChoices, Field, JsonValue

from vmemo.models.records import Instant
from vmemo.models.requests import NewMessage
from vmemo.models.results import Skipped
from vmemo.transfer.importers.foreign import (
    ForeignFile,
    ForeignModel,
    ForeignRecords,
    Place,
    StatedFact,
    derived_id,
    without_none,
)


class Mem0Memory(ForeignModel):
    id: str = Field(min_length=1)
    memory: str
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    metadata: Mapping[str, JsonValue] | None = None
    categories: tuple[str, ...] | None = None
    created_at: Instant
    updated_at: Instant | None = None
    expiration_date: Instant | None = None


def read_mem0(file: ForeignFile) -> ForeignRecords:
    found = [_mem0_fact(place, place.parse(Mem0Memory, value)) for place, value in _mem0_memories(file)]
    return ForeignRecords(facts=sorted(found, key=lambda fact: str(fact.message.timestamp)))


def _mem0_memories(file: ForeignFile) -> Iterator[tuple[Place, JsonValue]]:
    for place, value in file.values:
        listed = value.get("results", value) if isinstance(value, dict) else value
        if isinstance(listed, list):
            named = place / "results" if isinstance(value, dict) else place / "memories"
            yield from ((named[number], each) for number, each in enumerate(listed))
        else:
            yield place, listed


def _mem0_fact(place: Place, memory: Mem0Memory) -> StatedFact:
    """Return a memory as a fact; one of an agent without a user is the agent's own experience."""
    own = memory.user_id is None and memory.agent_id is not None
    ids = {name: getattr(memory, name) for name in ("user_id", "agent_id", "app_id", "run_id", "actor_id")}
    message = place.message(
        {
            "id": derived_id("mem0", memory.id),
            "content": memory.memory,
            "role": "assistant" if own else "user",
            "speaker": memory.agent_id if own else memory.actor_id or memory.user_id,
            "timestamp": memory.updated_at or memory.created_at,
            "document": "mem0" if memory.run_id is None else f"mem0/{memory.run_id}",
            "tags": tuple(dict.fromkeys(memory.categories or ())),
            "metadata": {**without_none(ids), "mem0_id": memory.id, **(memory.metadata or {})},
        }
    )
    return StatedFact(
        message=message,
        network="experience" if own else "world",
        valid_at=memory.created_at,
        expires_at=memory.expiration_date,
    )


_ZEP_ROLES = {"norole": "user", "function": "tool", "developer": "system", "ai": "assistant", "human": "user"}


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


def read_zep(file: ForeignFile) -> ForeignRecords:
    """Return messages and facts. Messages beside facts are kept verbatim: the facts were derived from them."""
    parts = _ZepParts()
    for place, value in file.values:
        parts.add(place, value)
    names = {node.uuid: node.name for node in (place.parse(ZepNode, each) for place, each in parts.nodes)}
    facts = [_zep_fact(place, place.parse(ZepEdge, each), names) for place, each in parts.edges]
    facts.sort(key=lambda fact: str(fact.message.timestamp))
    messages = [_zep_message(place, place.parse(ZepMessage, each), thread) for place, each, thread in parts.messages]
    messages.sort(key=lambda message: str(message.timestamp))
    return ForeignRecords(facts=facts, verbatim=messages) if facts else ForeignRecords(messages=messages)


class _ZepParts:
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
        elif found := [name for name in _ZEP_LISTS if name in value]:
            for name in found:
                self.add(place / name, value[name], thread)
        elif "name" in value:
            self.nodes.append((place, value))
        else:
            raise place.error("is neither a message, an edge nor a node")


_ZEP_LISTS = ("threads", "messages", "episodes", "edges", "facts", "nodes")


def _zep_message(place: Place, message: ZepMessage, thread: ZepThread | None) -> NewMessage:
    named = message.role_type is not None
    role = (message.role_type or message.role or "user").lower().removesuffix("role") or "user"
    belongs = thread.thread_id if thread is not None else message.thread_id
    user = thread.user_id if thread is not None else None
    role = _ZEP_ROLES.get(role, role)
    own_name = message.name or (message.role if named else None)
    return place.message(
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


def _zep_fact(place: Place, edge: ZepEdge, names: Mapping[str, str]) -> StatedFact:
    """Return an edge as a fact; an invalidated one is closed."""
    nodes = [names[id] for id in (edge.source_node_uuid, edge.target_node_uuid) if id is not None and id in names]
    message = place.message(
        {
            "id": derived_id("zep", "edge", edge.uuid),
            "content": edge.fact,
            "timestamp": edge.created_at,
            "document": "zep/facts" if edge.group_id is None else f"zep/facts/{edge.group_id}",
            "metadata": without_none({"zep_id": edge.uuid, "relation": edge.name, "graph": edge.group_id}),
        }
    )
    return StatedFact(
        message=message,
        names=tuple(dict.fromkeys(nodes)),
        valid_at=edge.valid_at or edge.created_at,
        invalid_at=edge.invalid_at,
        expired_at=edge.expired_at,
    )


HINDSIGHT_VERSION = 1
HINDSIGHT_MANIFEST = "manifest.json"


class HindsightManifest(ForeignModel):
    schema_version: int
    source_bank_id: str
    observation_count: int = 0
    mental_model_count: int = 0
    directive_count: int = 0


class HindsightFact(ForeignModel):
    """A fact without its embedding."""

    text: str
    fact_type: Literal["world", "experience"]
    event_date: Instant | None = None
    occurred_start: Instant | None = None
    occurred_end: Instant | None = None
    mentioned_at: Instant | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()


class HindsightChunk(ForeignModel):
    chunk_index: int
    chunk_text: str


class HindsightDocument(ForeignModel):
    id: str = Field(min_length=1)
    original_text: str | None = None
    tags: tuple[str, ...] = ()
    created_at: Instant | None = None
    chunks: Sequence[HindsightChunk] = ()
    facts: Sequence[HindsightFact] = ()


def read_hindsight(file: ForeignFile) -> ForeignRecords:
    """Return the documents' facts, and their text; text without facts is processed."""
    if HINDSIGHT_MANIFEST not in file.members:
        raise file.place.error(f"has no {HINDSIGHT_MANIFEST}: it is no archive of Hindsight's document transfer")
    head = Place(f"{file.path.name}/{HINDSIGHT_MANIFEST}")
    manifest = head.parse(HindsightManifest, file.members[HINDSIGHT_MANIFEST])
    if manifest.schema_version != HINDSIGHT_VERSION:
        raise (head / "schema_version").error(f"must be {HINDSIGHT_VERSION}, not {manifest.schema_version}")
    documents = [name for name in sorted(file.members) if name.startswith("documents/")]
    places = [(Place(f"{file.path.name}/{name}"), file.members[name]) for name in documents]
    found = [(place, place.parse(HindsightDocument, value)) for place, value in places]
    facts = [fact for place, document in found for fact in _hindsight_facts(place, document)]
    return ForeignRecords(
        messages=[
            each for place, document in found if not document.facts for each in _hindsight_texts(place, document)
        ],
        verbatim=[each for place, document in found if document.facts for each in _hindsight_texts(place, document)],
        facts=sorted(facts, key=lambda fact: str(fact.message.timestamp)),
        skipped=list(_hindsight_left_out(manifest)),
    )


def _hindsight_texts(place: Place, document: HindsightDocument) -> Iterator[NewMessage]:
    whole = [] if document.original_text is None else [HindsightChunk(chunk_index=0, chunk_text=document.original_text)]
    for number, chunk in enumerate(document.chunks or whole):
        if chunk.chunk_text.strip():
            values = {
                "id": derived_id("hindsight", document.id, "chunk", chunk.chunk_index),
                "content": chunk.chunk_text,
                "timestamp": document.created_at,
                "document": document.id,
                "tags": document.tags,
            }
            yield (place / "chunks")[number].message(values)


def _hindsight_facts(place: Place, document: HindsightDocument) -> Iterator[StatedFact]:
    for number, fact in enumerate(document.facts):
        here = (place / "facts")[number]
        mentioned = fact.mentioned_at or document.created_at or fact.occurred_start or fact.event_date
        if mentioned is None:
            raise (here / "mentioned_at").error("is missing, and so are all other times of the fact")
        message = here.message(
            {
                "id": derived_id("hindsight", document.id, "fact", number, fact.text),
                "content": fact.text,
                "role": "assistant" if fact.fact_type == "experience" else "user",
                "timestamp": mentioned,
                "document": document.id,
                "tags": tuple(dict.fromkeys(fact.tags)),
                "metadata": dict(fact.metadata),
            }
        )
        start, occurred = fact.occurred_start, None
        if start is not None:
            # Our intervals are half open, and Hindsight's include their end.
            occurred = start, max(fact.occurred_end or start, start) + timedelta(seconds=1)
        yield StatedFact(message=message, network=fact.fact_type, names=fact.entities, occurred=occurred)


def _hindsight_left_out(manifest: HindsightManifest) -> Iterator[Skipped]:
    for name, many in (
        ("observations", manifest.observation_count),
        ("mental models", manifest.mental_model_count),
        ("directives", manifest.directive_count),
    ):
        if many:
            yield Skipped(what=f"{many} {name}", reason="only documents and their facts are imported")
