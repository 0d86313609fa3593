"""Facts and messages as tools tell them: what a model needs to use, cite, question or forget them."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from vmemo.mcp.tool import NOTICE, Told
from vmemo.models import Fact, Message, Network


class Remembered(Told):
    """A fact, opinion or observation."""

    id: str = Field(description="Cite it by this id; `why` tells where it comes from.")
    text: str
    network: Network = Field(description="world and experience are facts; opinion and observation are conclusions.")
    said_at: datetime = Field(description="When it was said.")
    happened_from: datetime | None = Field(default=None, description="When what it tells began, if known.")
    happened_until: datetime | None = None
    valid_until: datetime | None = Field(default=None, description="Set where it is no longer true.")
    no_longer_believed: bool | None = Field(default=None, description="Set where it was found to be wrong.")
    confidence: float | None = Field(default=None, description="Of an opinion, from 0 to 1.")
    entities: list[str] = Field(default=[], description="Who and what it is about.")

    @staticmethod
    def of(fact: Fact) -> Remembered:
        """A fact without what only the store needs."""
        return Remembered(
            id=fact.id,
            text=fact.text,
            network=fact.network,
            said_at=fact.mentioned_at,
            happened_from=fact.occurred_start,
            happened_until=fact.occurred_end,
            valid_until=fact.invalid_at,
            no_longer_believed=None if fact.expired_at is None else True,
            confidence=fact.confidence,
            entities=[mention.name for mention in fact.entities],
        )


class Said(Told):
    """A message of the archive, word for word."""

    id: str = Field(description="`forget` takes this id in `messages`.")
    said_at: datetime
    voice: str = Field(description="Who said it.")
    content: str
    document: str | None = Field(default=None, description="`forget` takes this name as `document`.")

    @staticmethod
    def of(message: Message) -> Said:
        """A message without what only the store needs."""
        return Said(
            id=message.id,
            said_at=message.timestamp,
            voice=message.voice,
            content=message.content,
            document=message.document,
        )


class FromMemory(Told):
    """Something that came out of a bank, with the notice that goes before it."""

    notice: str = NOTICE

    def quoted(self, text: str) -> str:
        """A text with the notice before it."""
        return f"{self.notice}\n\n{text}"
