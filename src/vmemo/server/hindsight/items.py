"""What Hindsight's client gives to retain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from vmemo.errors import InvalidInput
from vmemo.models import Message, MessageId, utc_now
from vmemo.models.base import Name
from vmemo.server.hindsight.serializers import CONTEXT, moment
from vmemo.server.hindsight.unsupported import Wish, absent

Mode = Literal["replace", "append"]


class Block(BaseModel):
    """A piece of an item's content; only text is read."""

    type: str
    text: str | None = None

    def read(self) -> str:
        """The text."""
        if self.type != "text":
            raise absent(f"content of type {self.type}", "Only text is read.")
        return self.text or ""


class Item(Wish):
    """Something to keep. Entities are found by reading it, and can't be given."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {
        "resolve_entities": (True, False),
        "observation_scopes": ("combined",),
    }

    content: str | Annotated[list[Block], Field(max_length=10_000)]
    timestamp: str | None = None
    context: str | None = None
    metadata: dict[str, str] | None = None
    document_id: Name | None = None
    tags: list[Name] | None = Field(default=None, max_length=100)
    update_mode: Mode | None = None

    @property
    def text(self) -> str:
        """What is read."""
        return self.content if isinstance(self.content, str) else "\n".join(block.read() for block in self.content)

    @property
    def said_at(self) -> datetime | None:
        """When it was said; None where the client does not tell."""
        if self.timestamp == "unset":
            raise absent("timestamp", "'unset' would make a memory without a time; leave it out for the present.")
        return moment("timestamp", self.timestamp)

    def message(self, id: str, document: str, tags: Sequence[str]) -> Message:
        """The item as a message."""
        context = {CONTEXT: self.context} if self.context else {}
        return Message.of(
            {
                "id": MessageId(id),
                "content": self.text,
                "timestamp": self.said_at or utc_now(),
                "document": document,
                "tags": tuple(dict.fromkeys((*(self.tags or ()), *tags))),
                "metadata": {**(self.metadata or {}), **context},
            }
        )


class Retain(Wish):
    """Items to keep."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, populate_by_name=True)

    items: list[Item] = Field(min_length=1)
    is_async: bool | None = Field(default=None, alias="async")
    document_tags: list[Name] | None = Field(default=None, max_length=100)
    operation_id: Annotated[Name, Field(max_length=200)] | None = None

    def check(self) -> None:
        """Refuse what can't be stored, before a bank is made for it."""
        for item in self.items:
            item.message("-", item.document_id or "-", self.document_tags or ())
            self.mode(item.document_id or "")

    def mode(self, document: str) -> Mode:
        """Whether a document is replaced or added to; its items must agree."""
        modes = {item.update_mode or "replace" for item in self.items if item.document_id == document}
        if len(modes) > 1:
            raise InvalidInput(f"Items of document {document!r} ask for both replace and append. Nothing was stored.")
        return "append" if "append" in modes else "replace"
