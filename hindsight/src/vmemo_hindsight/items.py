"""Request models of retain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from vmemo.errors import InvalidInput
from vmemo.models import utc_now
from vmemo.models.base import Name
from vmemo.models.requests import NewMessage
from vmemo_hindsight.requests import HindsightRequest, unsupported_option
from vmemo_hindsight.serializers import CONTEXT, parse_time

UpdateMode = Literal["replace", "append"]


class ContentBlock(BaseModel):
    """A block of an item's content; only text is supported."""

    type: str
    text: str | None = None

    def read(self) -> str:
        """Return the text."""
        if self.type != "text":
            raise unsupported_option(f"content of type {self.type}", "Only text is supported.")
        return self.text or ""


class MemoryItem(HindsightRequest):
    """One item to retain. Its entities are extracted from the text and can't be given."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {
        "resolve_entities": (True, False),
        "observation_scopes": ("combined",),
    }

    content: str | Annotated[list[ContentBlock], Field(max_length=10_000)]
    timestamp: str | None = None
    context: str | None = None
    metadata: dict[str, str] | None = None
    document_id: Name | None = None
    tags: list[Name] | None = Field(default=None, max_length=100)
    update_mode: UpdateMode | None = None

    @property
    def text(self) -> str:
        """The text of all blocks."""
        return self.content if isinstance(self.content, str) else "\n".join(block.read() for block in self.content)

    @property
    def time(self) -> datetime | None:
        """The time of the item; None if the client does not give one."""
        if self.timestamp == "unset":
            raise unsupported_option(
                "timestamp", "Every memory has a time; omit the timestamp to use the current time."
            )
        return parse_time("timestamp", self.timestamp)

    def message(self, id: str, document: str, tags: Sequence[str]) -> NewMessage:
        """Return the item as a message."""
        context = {CONTEXT: self.context} if self.context else {}
        return NewMessage.of(
            {
                "id": id,
                "content": self.text,
                # The text of a document is data; a client can't say who wrote it.
                "role": "document" if self.document_id else "user",
                "timestamp": self.time or utc_now(),
                "document": document,
                "tags": tuple(dict.fromkeys((*(self.tags or ()), *tags))),
                "metadata": {**(self.metadata or {}), **context},
            }
        )


class HindsightRetain(HindsightRequest):
    """Items to retain."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, populate_by_name=True)

    items: list[MemoryItem] = Field(min_length=1)
    is_async: bool | None = Field(default=None, alias="async")
    document_tags: list[Name] | None = Field(default=None, max_length=100)
    operation_id: Annotated[Name, Field(max_length=200)] | None = None

    def check(self) -> None:
        """Raise an error for items that can't be stored, before a bank is created for them."""
        for item in self.items:
            item.message("-", item.document_id or "-", self.document_tags or ())
        self.modes()

    def modes(self) -> dict[str, UpdateMode]:
        """Return the update mode of each document; its items must agree on one."""
        modes: dict[str, UpdateMode] = {}
        for item in self.items:
            document, mode = item.document_id or "", item.update_mode or "replace"
            if modes.setdefault(document, mode) != mode and document:
                raise InvalidInput(
                    f"Items of document {document!r} have both update modes, replace and append; use one. "
                    "Nothing was stored."
                )
        return modes
