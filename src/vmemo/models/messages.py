"""Messages and the episodes that group them."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime

from pydantic import Field, JsonValue

from vmemo.models.base import Content, Instant, JsonObject, Name, Record, new_id, utc_now
from vmemo.models.ids import EpisodeId, MessageId, MessageState, Role


class Message(Record):
    """An immutable stored message."""

    id: MessageId = Field(default_factory=lambda: MessageId(new_id()))
    role: Role = "user"
    content: Content
    speaker: Name | None = None
    timestamp: Instant = Field(default_factory=utc_now)
    document: Name | None = None
    tags: tuple[Name, ...] = ()
    metadata: JsonObject = Field(default_factory=dict[str, JsonValue])
    recorded_at: Instant = Field(default_factory=utc_now)
    state: MessageState = "pending"
    key: str | None = Field(default=None, description="identifies a repeated message in its document")
    error: str | None = None
    expires_at: Instant | None = Field(
        default=None, description="the time after which it and its facts are not recalled any more"
    )

    @property
    def voice(self) -> str:
        """The speaker's name, or else the role."""
        return self.speaker or self.role.capitalize()


def line_key(role: Role, speaker: str | None, content: str, *, time: datetime | None, number: int) -> str:
    """Return the key of a line of a document: a hash of its words, and of its number among equal lines of a request.

    The time counts only if the caller stated it.
    """
    line = json.dumps([role, speaker, content, None if time is None else time.isoformat()], ensure_ascii=False)
    return hashlib.blake2b(f"{number}\n{line}".encode(), digest_size=16).hexdigest()


class Episode(Record):
    """Consecutive messages of one topic."""

    id: EpisodeId
    title: str
    narrative: str
    started_at: Instant
    ended_at: Instant
    previous: EpisodeId | None = None
    messages: tuple[MessageId, ...] = ()
    recorded_at: Instant = Field(default_factory=utc_now)
