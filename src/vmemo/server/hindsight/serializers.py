"""Facts and messages in the words of Hindsight."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pydantic import BaseModel, JsonValue

from vmemo.errors import InvalidInput, NotFound
from vmemo.memory.lookup import Lookup
from vmemo.models import Fact, Hit, Message, MessageId
from vmemo.ports import TokenCounter

CONTEXT = "hindsight:context"
"""Where a message's metadata keeps the context that an item came with."""


class Scores(BaseModel):
    """What placed a result; each channel has a scale of its own."""

    final: float
    reranker: float | None
    semantic: float | None
    keyword: float | None

    @staticmethod
    def of(hit: Hit) -> Scores:
        """A hit's scores."""
        found = hit.channels
        return Scores(
            final=hit.score,
            reranker=hit.reranking.score if hit.reranking else None,
            semantic=found["semantic"].score if "semantic" in found else None,
            keyword=found["keyword"].score if "keyword" in found else None,
        )


class Result(BaseModel):
    """A fact as recall and reflect tell it."""

    id: str
    text: str
    type: str
    entities: list[str]
    context: str | None
    occurred_start: str | None
    occurred_end: str | None
    mentioned_at: str
    document_id: str | None
    metadata: dict[str, str]
    chunk_id: str | None
    tags: list[str]
    source_fact_ids: list[str] | None = None
    scores: Scores | None = None

    @staticmethod
    def of(fact: Fact, said: Mapping[MessageId, Message], scores: Scores | None = None) -> Result:
        """A fact, with the message that first tells it."""
        message = first(fact, said)
        return Result(
            id=fact.id,
            text=fact.text,
            type=fact.network,
            entities=[mention.name for mention in fact.entities],
            context=context_of(fact.metadata),
            occurred_start=when(fact.occurred_start),
            occurred_end=when(fact.occurred_end),
            mentioned_at=fact.mentioned_at.isoformat(),
            document_id=None if message is None else message.document,
            metadata=strings(fact.metadata),
            chunk_id=None if message is None else chunk_id(fact.bank, message.id),
            tags=list(fact.tags),
            source_fact_ids=list(fact.basis) or None,
            scores=scores,
        )


def unit(fact: Fact, said: Mapping[MessageId, Message]) -> dict[str, JsonValue]:
    """A fact as lists tell it."""
    message = first(fact, said)
    closed = fact.expired_at is not None or fact.invalid_at is not None
    return {
        "id": fact.id,
        "text": fact.text,
        "context": context_of(fact.metadata) or "",
        "date": (fact.occurred_start or fact.mentioned_at).isoformat(),
        "fact_type": fact.network,
        "document_id": None if message is None else message.document,
        "mentioned_at": fact.mentioned_at.isoformat(),
        "occurred_start": when(fact.occurred_start),
        "occurred_end": when(fact.occurred_end),
        "entities": ", ".join(mention.name for mention in fact.entities),
        "chunk_id": None if message is None else chunk_id(fact.bank, message.id),
        "proof_count": len(fact.basis) if fact.basis else len(fact.messages),
        "tags": list(fact.tags),
        "metadata": dict(strings(fact.metadata)),
        "state": "invalidated" if closed else "valid",
        "invalidation_reason": None,
        "invalidated_at": when(fact.invalid_at or fact.expired_at),
        "updated_at": fact.recorded_at.isoformat(),
        "source_memory_ids": list(fact.basis),
    }


async def said_by(facts: Iterable[Fact], lookup: Lookup) -> dict[MessageId, Message]:
    """The messages that facts come from."""
    found = await lookup.messages([id for fact in facts for id in fact.messages[:1]])
    return {message.id: message for message in found}


def first(fact: Fact, said: Mapping[MessageId, Message]) -> Message | None:
    """The message that first tells a fact."""
    return said.get(fact.messages[0]) if fact.messages else None


def strings(metadata: Mapping[str, JsonValue]) -> dict[str, str]:
    """Metadata as Hindsight knows it: texts only. Other values are written as JSON."""
    kept = {name: value for name, value in metadata.items() if name != CONTEXT}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in kept.items()}


def context_of(metadata: Mapping[str, JsonValue]) -> str | None:
    """The context that an item came with."""
    found = metadata.get(CONTEXT)
    return found if isinstance(found, str) else None


def when(moment: datetime | None) -> str | None:
    """A moment as text."""
    return None if moment is None else moment.isoformat()


def moment(name: str, text: str | None) -> datetime | None:
    """A moment that the client gave; without a zone it is UTC, as in Hindsight."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} must be a date and time in ISO format, not {text[:40]!r}.") from error


def chunk_id(bank: str, message: MessageId) -> str:
    """A message's id with its bank's name, for Hindsight asks for chunks without naming a bank."""
    return f"{urlsafe_b64encode(bank.encode()).decode().rstrip('=')}.{message}"


def of_chunk(id: str) -> tuple[str, MessageId]:
    """The bank and the message of a chunk's id."""
    name, _, message = id.partition(".")
    try:
        bank = urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
    except ValueError:
        bank = ""
    if not bank or not message or chunk_id(bank, MessageId(message)) != id:
        raise NotFound("There is no such chunk.")
    return bank, MessageId(message)


def cut(text: str, most: int, tokens: TokenCounter) -> str:
    """As much of a text from its beginning as has at most so many tokens."""
    low, high = 0, len(text)
    if tokens(text) <= most:
        return text
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle]) <= most else (low, middle - 1)
    return text[:low].rstrip()
