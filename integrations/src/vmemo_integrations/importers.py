"""Importers of other memory products, whose records are facts already, and of chat applications.

- Mem0: the memories that `get_all()` returns, or a list of them.
- Zep and Graphiti: threads of messages, and edges, whose facts have times of validity. Neither product writes a file.
  This reads what their APIs return: one object with any of `threads`, `messages`, `episodes`, `edges` (or `facts`) and
  `nodes`, a list of messages or edges, or one of them on each line.
- Hindsight: the archive of a document transfer, with documents, their chunks and the facts extracted from them.
- ChatGPT: conversations.json, where each conversation is a tree of messages. Only its current branch is imported.
- Claude: conversations.json, where each conversation has a list of messages.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeVar, get_args
from uuid import UUID, uuid5

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from vmemo.errors import InvalidInput
from vmemo.models.records import Instant, in_words
from vmemo.models.requests import NewMessage
from vmemo.models.results import Skipped
from vmemo.transfer.foreign import (
    NOTHING_IMPORTED,
    ForeignFile,
    ForeignFormat,
    ForeignRecords,
    Place,
    decoded,
    parsed,
    without_none,
)
from vmemo_integrations.stated_facts import StatedFact, StatedFacts

_IDS = UUID("6f1b9f0e-3c58-5d0b-9a54-2f0a7c1d8e43")
"""The namespace of the ids of imported messages."""


class ForeignModel(BaseModel):
    """A part of a foreign file; fields that are not needed are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True, defer_build=True)


M = TypeVar("M", bound=ForeignModel)


def parse(kind: type[M], value: object, place: Place) -> M:
    """Return a part of a file as a model; raise InvalidInput that names the first field that does not fit."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        for part in first["loc"]:
            place = place[part] if isinstance(part, int) else place / part
        raise place.error(in_words(first["type"], first["msg"])) from error


def derived_id(format: ForeignFormat, *parts: object) -> str:
    """Return the id of a record, which is the same whenever it is imported."""
    return str(uuid5(_IDS, "\n".join(map(str, (format, *parts)))))


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
    found = [_mem0_fact(place, parse(Mem0Memory, value, place)) for place, value in _mem0_memories(file)]
    return ForeignRecords(store_facts=StatedFacts("mem0", found))


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
    names = {node.uuid: node.name for node in (parse(ZepNode, each, place) for place, each in parts.nodes)}
    facts = [_zep_fact(place, parse(ZepEdge, each, place), names) for place, each in parts.edges]
    messages = [_zep_message(place, parse(ZepMessage, each, place), thread) for place, each, thread in parts.messages]
    messages.sort(key=lambda message: str(message.timestamp))
    if not facts:
        return ForeignRecords(messages=messages)
    return ForeignRecords(store_facts=StatedFacts("zep", facts), verbatim=messages)


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
            found = parse(ZepThread, value, place)
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
    manifest = parse(HindsightManifest, file.members[HINDSIGHT_MANIFEST], head)
    if manifest.schema_version != HINDSIGHT_VERSION:
        raise (head / "schema_version").error(f"must be {HINDSIGHT_VERSION}, not {manifest.schema_version}")
    documents = [name for name in sorted(file.members) if name.startswith("documents/")]
    places = [(Place(f"{file.path.name}/{name}"), file.members[name]) for name in documents]
    found = [(place, parse(HindsightDocument, value, place)) for place, value in places]
    facts = [fact for place, document in found for fact in _hindsight_facts(place, document)]
    return ForeignRecords(
        messages=[
            each for place, document in found if not document.facts for each in _hindsight_texts(place, document)
        ],
        verbatim=[each for place, document in found if document.facts for each in _hindsight_texts(place, document)],
        store_facts=StatedFacts("hindsight", facts),
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


FILE = "conversations.json"
N = TypeVar("N")


def conversations(file: ForeignFile) -> Iterator[tuple[Place, JsonValue]]:
    """Yield the conversations of a file, or of all conversation files in an archive, with their places."""
    if file.members:
        # Large exports are divided: conversations-000.json and so on.
        found = [name for name in file.members if name.rpartition("/")[2].startswith("conversations")]
        if not found:
            raise file.place.error(f"has no {FILE}")
        for name in found:
            yield from _listed(Place(f"{file.path.name}/{name}"), file.members[name])
        return
    for place, value in file.values:
        if file.lines:
            yield place, value
        else:
            yield from _listed(place, value)


def _listed(place: Place, value: JsonValue) -> Iterator[tuple[Place, JsonValue]]:
    if isinstance(value, dict):
        yield place / "conversation", value
    elif isinstance(value, list):
        yield from (((place / "conversations")[number], each) for number, each in enumerate(value))
    else:
        raise place.error("must be a list of conversations")


def branch(nodes: Mapping[str, N], leaf: str, parent: Callable[[N], str | None], place: Place) -> list[str]:
    """Return the ids from the root to a leaf; other branches are answers that were asked for again, or edited."""
    found: dict[str, None] = {}
    at: str | None = leaf
    while at is not None and at in nodes:
        if at in found:
            raise place.error(f"{at!r} is its own ancestor")
        found[at] = None
        at = parent(nodes[at])
    return list(found)[::-1]


def in_order(found: Iterable[tuple[datetime, list[NewMessage]]]) -> list[NewMessage]:
    """Return the messages of all conversations, the earliest conversation first: later ones may revise its facts."""
    ordered = sorted(found, key=lambda conversation: conversation[0])
    return [message for _, messages in ordered for message in messages]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXTS = ("text", "multimodal_text")


class ChatGPTAuthor(ForeignModel):
    role: str


class ChatGPTContent(ForeignModel):
    """The content of a message; parts that are not text are pictures, files and audio with its transcription."""

    content_type: str = "text"
    parts: Sequence[str | Mapping[str, JsonValue] | None] = ()

    @property
    def text(self) -> str:
        texts = (part.get("text") if isinstance(part, Mapping) else part for part in self.parts)
        return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


class ChatGPTMessage(ForeignModel):
    author: ChatGPTAuthor
    content: ChatGPTContent
    create_time: float | None = Field(default=None, ge=0, le=253402300799)
    recipient: str | None = None
    weight: float | None = None
    metadata: Mapping[str, JsonValue] | None = None

    @property
    def is_said(self) -> bool:
        """True for text that the user or the assistant addressed to the other."""
        hidden = self.weight == 0 or bool((self.metadata or {}).get("is_visually_hidden_from_conversation"))
        return (
            self.author.role in ("user", "assistant")
            and self.content.content_type in _TEXTS
            and self.recipient in (None, "all")
            and not hidden
            and bool(self.content.text)
        )


class ChatGPTNode(ForeignModel):
    """A node of the tree; the root has no message."""

    message: ChatGPTMessage | None = None
    parent: str | None = None


class ChatGPTConversation(ForeignModel):
    """A conversation; `current_node` is the last message of the branch that is shown."""

    id: str | None = None
    conversation_id: str | None = None
    title: str | None = None
    create_time: float = Field(ge=0, le=253402300799)
    current_node: str
    mapping: Mapping[str, ChatGPTNode]


def read_chatgpt(file: ForeignFile) -> ForeignRecords:
    """Return what the user and the assistant said in all conversations."""
    found = [(place, parse(ChatGPTConversation, value, place)) for place, value in conversations(file)]
    spoken = [
        (_from_epoch(conversation.create_time), _chatgpt_messages(place, conversation)) for place, conversation in found
    ]
    return ForeignRecords(messages=in_order(spoken))


def _from_epoch(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def _chatgpt_messages(place: Place, conversation: ChatGPTConversation) -> list[NewMessage]:
    if conversation.current_node not in conversation.mapping:
        raise (place / "current_node").error(f"{conversation.current_node!r:.60} is not in mapping")
    number = conversation.conversation_id or conversation.id
    if not number:
        raise (place / "conversation_id").error("is missing")
    found: list[NewMessage] = []
    time = conversation.create_time
    for id in branch(conversation.mapping, conversation.current_node, lambda node: node.parent, place / "mapping"):
        message = conversation.mapping[id].message
        if message is None or not message.is_said:
            continue
        time = message.create_time or time
        values = {
            "id": derived_id("chatgpt", number, id),
            "content": message.content.text,
            "role": message.author.role,
            "timestamp": _from_epoch(time),
            "document": f"chatgpt/{number}",
            "metadata": without_none({"title": conversation.title}),
        }
        found.append((place / "mapping" / id / "message").message(values))
    return found


_CLAUDE_ROLES = {"human": "user", "assistant": "assistant"}


class ClaudeMessage(ForeignModel):
    """A message. `content` are its parts: text, thoughts and calls of tools."""

    uuid: str = Field(min_length=1)
    sender: str
    text: str | None = None
    content: Sequence[Mapping[str, JsonValue]] = ()
    created_at: Instant
    parent_message_uuid: str | None = None

    @property
    def said(self) -> str:
        """The text parts, or else the rendered text."""
        parts = [part.get("text") for part in self.content if part.get("type") == "text"]
        return "\n".join(part for part in parts if isinstance(part, str) and part.strip()) or self.text or ""


class ClaudeConversation(ForeignModel):
    """A conversation; some exports name the last message of the branch that is shown."""

    uuid: str = Field(min_length=1)
    name: str | None = None
    created_at: Instant
    current_leaf_message_uuid: str | None = None
    chat_messages: Sequence[ClaudeMessage]


def read_claude(file: ForeignFile) -> ForeignRecords:
    found = [(place, parse(ClaudeConversation, value, place)) for place, value in conversations(file)]
    return ForeignRecords(messages=in_order((each.created_at, _claude_messages(place, each)) for place, each in found))


def _claude_messages(place: Place, conversation: ClaudeConversation) -> list[NewMessage]:
    listed, leaf = place / "chat_messages", conversation.current_leaf_message_uuid
    places = {message.uuid: number for number, message in enumerate(conversation.chat_messages)}
    chosen: Sequence[int] = range(len(conversation.chat_messages))
    if leaf is not None and leaf in places:
        nodes = {message.uuid: message for message in conversation.chat_messages}
        chosen = [places[id] for id in branch(nodes, leaf, lambda message: message.parent_message_uuid, listed)]
    found: list[NewMessage] = []
    for number in chosen:
        message = conversation.chat_messages[number]
        if message.sender not in _CLAUDE_ROLES:
            raise (listed[number] / "sender").error(f"must be human or assistant, not {message.sender!r:.60}")
        if message.said.strip():
            values = {
                "id": derived_id("claude", conversation.uuid, message.uuid),
                "content": message.said,
                "role": _CLAUDE_ROLES[message.sender],
                "timestamp": message.created_at,
                "document": f"claude/{conversation.uuid}",
                "metadata": without_none({"title": conversation.name}),
            }
            found.append(listed[number].message(values))
    return found


IMPORTERS: Mapping[ForeignFormat, Callable[[ForeignFile], ForeignRecords]] = {
    "mem0": read_mem0,
    "zep": read_zep,
    "hindsight": read_hindsight,
    "chatgpt": read_chatgpt,
    "claude": read_claude,
}
"""The importers by format."""
MAX_UNPACKED = 4 << 30
"""Bytes of one file in an archive, at most: a small archive may unpack to more than a machine has."""


def read_export(file: ForeignFile, format: ForeignFormat | None) -> ForeignRecords:
    """Return the validated records of an export, whose format is detected unless it is given."""
    if zipfile.is_zipfile(file.path):
        file = read_archive(file.path)
    chosen = format or detect(file)
    if chosen is None:
        known = ", ".join(get_args(ForeignFormat))
        raise InvalidInput(f"{file.path} is of no format that can be recognised. {NOTHING_IMPORTED} Name one: {known}.")
    return IMPORTERS[chosen](file)


def read_archive(path: Path) -> ForeignFile:
    """Return the content of an archive of JSON files."""
    with _readable(path):
        members = dict(_members(path))
    if not members:
        raise InvalidInput(f"{path} holds no .json file. {NOTHING_IMPORTED}")
    return ForeignFile(path, members=members)


@contextmanager
def _readable(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}. {NOTHING_IMPORTED}") from error
    except InvalidInput:
        raise
    except RuntimeError as error:
        raise InvalidInput(
            f"{path} is encrypted, or compressed by a method that is not supported here. {NOTHING_IMPORTED} Unpack it, "
            "and import the files in it or an archive of them without a password."
        ) from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, ValueError) as error:
        raise InvalidInput(f"{path} is a damaged archive. {NOTHING_IMPORTED}") from error


def _members(path: Path) -> Iterator[tuple[str, JsonValue]]:
    """Yield the JSON files of an archive by name; pictures and other files are not read."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".json"):
                place = Place(f"{path.name}/{info.filename}")
                if info.file_size > MAX_UNPACKED:
                    raise place.error(f"unpacks to {info.file_size:,} bytes; at most {MAX_UNPACKED:,} are read")
                with archive.open(info) as file:
                    # The size in the directory may be a lie.
                    content = file.read(info.file_size)
                yield info.filename, parsed(decoded(content, place), place)


def detect(file: ForeignFile) -> ForeignFormat | None:
    """Return the format of a file, by the keys of its first records; None if they fit none."""
    if "manifest.json" in file.members:
        return "hindsight"
    value = next((each for name, each in file.members.items() if "conversations" in name), None)
    return _of(value if file.members else file.values[0][1])


def _of(value: JsonValue) -> ForeignFormat | None:
    if isinstance(value, list):
        return _of(value[0]) if value and isinstance(value[0], dict) else None
    if not isinstance(value, dict):
        return None
    if "mapping" in value:
        return "chatgpt"
    if "chat_messages" in value:
        return "claude"
    if "memory" in value:
        return "mem0"
    if "results" in value:
        return _of(value["results"])
    return _conversation(value)


def _conversation(value: Mapping[str, JsonValue]) -> ForeignFormat | None:
    """Return the format of messages, which Zep's have ids, or of what else Zep stores."""
    if "fact" in value or "thread_id" in value or "session_id" in value:
        return "zep"
    if any(name in value for name in ("threads", "edges", "facts", "episodes")):
        return "zep"
    if "role" in value and "content" in value:
        return "zep" if "uuid" in value or "role_type" in value else None
    messages = value.get("messages")
    return None if messages is None else _of(messages)
