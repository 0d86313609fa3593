"""Importers of chat applications.

- ChatGPT: conversations.json, where each conversation is a tree of messages. Only its current branch is imported.
- Claude: conversations.json, where each conversation has a list of messages.
- Chat files: messages in the form of chat APIs, as a JSON list, an object with a list `messages`, or JSON Lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pydantic import Field, JsonValue

from vmemo.errors import InvalidInput
from vmemo.models.records import Instant
from vmemo.models.requests import NewMessage, chat_values
from vmemo.models.results import Skipped
from vmemo.transfer.importers.foreign import (
    ForeignFile,
    ForeignModel,
    ForeignRecords,
    Place,
    derived_id,
    without_none,
)

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
    found = [(place, place.parse(ChatGPTConversation, value)) for place, value in conversations(file)]
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
    found = [(place, place.parse(ClaudeConversation, value)) for place, value in conversations(file)]
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


def read_chat(file: ForeignFile) -> ForeignRecords:
    """Return the messages of a file. They belong to a document of its name, so that they are imported once."""
    found = [(place, chat_fields(place, value)) for place, value in chat_items(file)]
    document = {"document": f"chat/{file.path.name}"}
    return ForeignRecords(
        messages=[place.message({**document, **values}) for place, values in found if values is not None],
        skipped=[
            Skipped(what=place.path or place.file, reason="it has no text") for place, each in found if each is None
        ],
    )


def chat_items(file: ForeignFile) -> Iterator[tuple[Place, JsonValue]]:
    """Yield the messages of a file in the form of chat APIs, with their places."""
    if file.lines:
        yield from file.values
        return
    value = file.value
    if isinstance(value, dict):
        value = [value] if "content" in value else value.get("messages")
    if not isinstance(value, list):
        raise file.place.error('must be a list of messages, or an object with one as "messages"')
    yield from (((file.place / "messages")[number], each) for number, each in enumerate(value))


def chat_fields(place: Place, value: JsonValue) -> dict[str, object] | None:
    """Return the fields of a message; None if it has no text, such as a tool call."""
    if not isinstance(value, dict):
        raise place.error("must be an object with role and content")
    try:
        return chat_values(value)
    except InvalidInput as error:
        raise place.error(str(error)) from error
