"""Facts and messages in Hindsight's format."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pydantic import BaseModel, JsonValue

from vmemo.errors import InvalidInput, NotFound
from vmemo.memory import Memory
from vmemo.models import Fact, Hit, Message, MessageId
from vmemo.models.select import MessageSelect
from vmemo.ports import TokenCounter

CONTEXT = "hindsight:context"
"""The metadata field of a message that holds the context of its item."""


class ResultScores(BaseModel):
    """Scores of a result; each channel has its own scale."""

    final: float
    reranker: float | None
    semantic: float | None
    keyword: float | None

    @staticmethod
    def of(hit: Hit) -> ResultScores:
        """Return the scores of a hit."""
        found = hit.channels
        return ResultScores(
            final=hit.score,
            reranker=hit.reranking.score if hit.reranking else None,
            semantic=found["semantic"].score if "semantic" in found else None,
            keyword=found["keyword"].score if "keyword" in found else None,
        )


class MemoryResult(BaseModel):
    """A fact in the results of recall and reflect."""

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
    scores: ResultScores | None = None

    @staticmethod
    def of(fact: Fact, messages: Mapping[MessageId, Message], scores: ResultScores | None = None) -> MemoryResult:
        """Return a fact with the first message that it was derived from."""
        message = first_message(fact, messages)
        return MemoryResult(
            id=fact.id,
            text=fact.text,
            type=fact.network,
            entities=[mention.name for mention in fact.entities],
            context=context_of(fact.metadata),
            occurred_start=format_time(fact.occurred_start),
            occurred_end=format_time(fact.occurred_end),
            mentioned_at=fact.mentioned_at.isoformat(),
            document_id=None if message is None else message.document,
            metadata=string_metadata(fact.metadata),
            chunk_id=None if message is None else chunk_id(fact.bank, message.id),
            tags=list(fact.tags),
            source_fact_ids=list(fact.basis) or None,
            scores=scores,
        )


def memory_item(fact: Fact, messages: Mapping[MessageId, Message]) -> dict[str, JsonValue]:
    """Return a fact in the format of lists."""
    message = first_message(fact, messages)
    closed = fact.expired_at is not None or fact.invalid_at is not None
    return {
        "id": fact.id,
        "text": fact.text,
        "context": context_of(fact.metadata) or "",
        "date": (fact.occurred_start or fact.mentioned_at).isoformat(),
        "fact_type": fact.network,
        "document_id": None if message is None else message.document,
        "mentioned_at": fact.mentioned_at.isoformat(),
        "occurred_start": format_time(fact.occurred_start),
        "occurred_end": format_time(fact.occurred_end),
        "entities": ", ".join(mention.name for mention in fact.entities),
        "chunk_id": None if message is None else chunk_id(fact.bank, message.id),
        "proof_count": len(fact.basis) if fact.basis else len(fact.messages),
        "tags": list(fact.tags),
        "metadata": dict(string_metadata(fact.metadata)),
        "state": "invalidated" if closed else "valid",
        "invalidation_reason": None,
        "invalidated_at": format_time(fact.invalid_at or fact.expired_at),
        "updated_at": fact.recorded_at.isoformat(),
        "source_memory_ids": list(fact.basis),
    }


async def source_messages(facts: Iterable[Fact], memory: Memory) -> dict[MessageId, Message]:
    """Return the first message of each fact by its id."""
    ids = [id for fact in facts for id in fact.messages[:1]]
    found = await memory.store.messages(memory.name, MessageSelect(ids=ids))
    return {message.id: message for message in found}


def first_message(fact: Fact, messages: Mapping[MessageId, Message]) -> Message | None:
    """Return the first message that a fact was derived from, if it is loaded."""
    return messages.get(fact.messages[0]) if fact.messages else None


def string_metadata(metadata: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return metadata as strings, the only type that Hindsight has; other values are encoded as JSON."""
    kept = {name: value for name, value in metadata.items() if name != CONTEXT}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in kept.items()}


def context_of(metadata: Mapping[str, JsonValue]) -> str | None:
    """Return the context of the item that metadata belongs to."""
    found = metadata.get(CONTEXT)
    return found if isinstance(found, str) else None


def format_time(time: datetime | None) -> str | None:
    """Return a time in ISO format."""
    return None if time is None else time.isoformat()


def parse_time(name: str, text: str | None) -> datetime | None:
    """Parse a time of the client; one without a zone is UTC, as in Hindsight."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} must be a date and time in ISO format, not {text[:40]!r}.") from error


def chunk_id(bank: str, message: MessageId) -> str:
    """Return a chunk id that contains the bank's name; Hindsight reads chunks without naming a bank."""
    return f"{urlsafe_b64encode(bank.encode()).decode().rstrip('=')}.{message}"


def parse_chunk_id(id: str) -> tuple[str, MessageId]:
    """Return the bank and the message of a chunk id, or raise NotFound."""
    name, _, message = id.partition(".")
    try:
        bank = urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
    except ValueError:
        bank = ""
    if not bank or not message or chunk_id(bank, MessageId(message)) != id:
        raise NotFound("There is no such chunk.")
    return bank, MessageId(message)


def truncate(text: str, max_tokens: int, tokens: TokenCounter) -> str:
    """Return the longest start of a text that has at most `max_tokens` tokens."""
    low, high = 0, len(text)
    if tokens(text) <= max_tokens:
        return text
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle]) <= max_tokens else (low, middle - 1)
    return text[:low].rstrip()
