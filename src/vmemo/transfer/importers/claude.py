"""Claude: conversations.json, where each conversation has a list of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from vmemo.models.base import Instant
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

_ROLES = {"human": "user", "assistant": "assistant"}


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

    @property
    def current(self) -> Mapping[str, int]:
        """The places of messages by id."""
        return {message.uuid: number for number, message in enumerate(self.chat_messages)}


def read(file: ForeignFile) -> ForeignRecords:
    """Return what the user and Claude said in all conversations."""
    found = [(place, place.parse(ClaudeConversation, value)) for place, value in conversations(file)]
    return ForeignRecords(messages=in_order((each.created_at, _messages(place, each)) for place, each in found))


def _messages(place: Place, conversation: ClaudeConversation) -> list[NewMessage]:
    listed = place / "chat_messages"
    found: list[NewMessage] = []
    for number in _branch(listed, conversation):
        message = conversation.chat_messages[number]
        if message.sender not in _ROLES:
            raise (listed[number] / "sender").error(f"must be human or assistant, not {message.sender!r:.60}")
        if message.said.strip():
            values = {
                "id": derived_id("claude", conversation.uuid, message.uuid),
                "content": message.said,
                "role": _ROLES[message.sender],
                "timestamp": message.created_at,
                "document": f"claude/{conversation.uuid}",
                "metadata": without_none({"title": conversation.name}),
            }
            found.append(listed[number].message(values))
    return found


def _branch(place: Place, conversation: ClaudeConversation) -> Sequence[int]:
    """Return the places of the messages to import: of the current branch if it is named, or else all."""
    places, leaf = conversation.current, conversation.current_leaf_message_uuid
    if leaf is None or leaf not in places:
        return range(len(conversation.chat_messages))
    nodes = {message.uuid: message for message in conversation.chat_messages}
    return [places[id] for id in branch(nodes, leaf, lambda message: message.parent_message_uuid, place)]
