"""ChatGPT: conversations.json, where each conversation is a tree of messages. Only its current branch is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pydantic import Field, JsonValue

from vmemo.models.requests import NewMessage
from vmemo.transfer.importers.conversations import branch, conversations, in_order
from vmemo.transfer.importers.reading import ForeignFile
from vmemo.transfer.importers.records import (
    ForeignModel,
    ForeignRecords,
    Place,
    derived_id,
    without_none,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXTS = ("text", "multimodal_text")


class ChatGPTAuthor(ForeignModel):
    """The author of a message."""

    role: str


class ChatGPTContent(ForeignModel):
    """The content of a message; parts that are not text are pictures, files and audio with its transcription."""

    content_type: str = "text"
    parts: Sequence[str | Mapping[str, JsonValue] | None] = ()

    @property
    def text(self) -> str:
        """The text of all parts."""
        texts = (part.get("text") if isinstance(part, Mapping) else part for part in self.parts)
        return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


class ChatGPTMessage(ForeignModel):
    """A message of the tree."""

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


def read(file: ForeignFile) -> ForeignRecords:
    """Return what the user and the assistant said in all conversations."""
    found = [(place, place.parse(ChatGPTConversation, value)) for place, value in conversations(file)]
    spoken = [(_time(conversation.create_time), _messages(place, conversation)) for place, conversation in found]
    return ForeignRecords(messages=in_order(spoken))


def _time(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def _messages(place: Place, conversation: ChatGPTConversation) -> list[NewMessage]:
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
            "timestamp": _time(time),
            "document": f"chatgpt/{number}",
            "metadata": without_none({"title": conversation.title}),
        }
        found.append((place / "mapping" / id / "message").message(values))
    return found
