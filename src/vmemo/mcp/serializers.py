"""Facts and messages as tool results: the fields a model needs to use, cite, question or forget them."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from vmemo.mcp.tool import NOTICE, ToolResult
from vmemo.models import Fact, Hit, HitStatus, Message, Network


class FactItem(ToolResult):
    """A fact, opinion or observation."""

    id: str = Field(description="Cite the fact by this id; `why` explains where it comes from.")
    text: str
    network: Network = Field(description="world and experience are facts; opinion and observation are conclusions.")
    mentioned_at: datetime = Field(description="When it was said.")
    occurred_start: datetime | None = Field(default=None, description="When the event started, if known.")
    occurred_end: datetime | None = None
    valid_until: datetime | None = Field(default=None, description="Set if it is no longer true.")
    no_longer_believed: bool | None = Field(default=None, description="Set if it was found to be wrong.")
    confidence: float | None = Field(default=None, description="Of an opinion, from 0 to 1.")
    instruction: bool | None = Field(default=None, description="Set for a standing instruction of the user.")
    entities: list[str] = Field(default=[], description="The people and things it is about.")

    @staticmethod
    def of(fact: Fact) -> FactItem:
        """Return a fact without the fields that only the store needs."""
        return FactItem(
            id=fact.id,
            text=fact.text,
            network=fact.network,
            mentioned_at=fact.mentioned_at,
            occurred_start=fact.occurred_start,
            occurred_end=fact.occurred_end,
            valid_until=fact.invalid_at,
            no_longer_believed=None if fact.expired_at is None else True,
            confidence=fact.confidence,
            instruction=fact.instruction or None,
            entities=[mention.name for mention in fact.entities],
        )


class HitItem(FactItem):
    """A recalled fact."""

    status: HitStatus = Field(description="former: it held before; maybe_outdated: a newer fact may replace it.")

    truncated: bool | None = Field(default=None, description="Set if the text was cut to fit; `why` returns all of it.")

    @staticmethod
    def of_hit(hit: Hit) -> HitItem:
        """Return a hit without the fields that only debugging needs."""
        return HitItem(**dict(FactItem.of(hit.fact)), status=hit.status, truncated=hit.truncated or None)


class MessageItem(ToolResult):
    """A stored message, word for word."""

    id: str = Field(description="`forget` takes this id in `messages`.")
    timestamp: datetime
    speaker: str = Field(description="The speaker's name, or the role if no name is known.")
    content: str
    document: str | None = Field(default=None, description="`forget` takes this name as `document`.")

    @staticmethod
    def of(message: Message) -> MessageItem:
        """Return a message without the fields that only the store needs."""
        return MessageItem(
            id=message.id,
            timestamp=message.timestamp,
            speaker=message.voice,
            content=message.content,
            document=message.document,
        )


class QuotedResult(ToolResult):
    """A result that quotes memory, with the notice that it is data."""

    notice: str = NOTICE

    def as_text(self) -> str:
        """Return the result as JSON after the notice."""
        return self.quote(self.model_dump_json(exclude={"notice"}, exclude_none=True, indent=2))

    def quote(self, text: str) -> str:
        """Return a text after the notice."""
        return f"{self.notice}\n\n{text}"
