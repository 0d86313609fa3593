"""Routes of documents and their chunks; a chunk is a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from vmemo.errors import NotFound
from vmemo.memory import Memory
from vmemo.models import Fact, Message
from vmemo.models.records import Name, Text
from vmemo.models.select import MessageSelect
from vmemo_hindsight import schemas
from vmemo_hindsight.dependencies import BANK, PREFIX, ReadBank, WriteBank
from vmemo_hindsight.filters import HindsightTagsMatch, is_current, matches_tags
from vmemo_hindsight.query import positions
from vmemo_hindsight.reads import every_fact, every_message
from vmemo_hindsight.schemas import OffsetPage
from vmemo_hindsight.serializers import chunk_id, parse_chunk_id, parse_time, string_metadata
from vmemo_server.dependencies import AnyPrincipal, open_session
from vmemo_server.paths import ExactRoute
from vmemo_server.responses import record

router = APIRouter(include_in_schema=False, route_class=ExactRoute)
DOCUMENT = f"{BANK}/documents/{{document_id}}"


class DocumentListRequest(OffsetPage):
    """Query of a list of documents; `q` matches part of their ids or texts."""

    q: str = ""
    tags: list[str] | None = Field(default=None, max_length=100)
    tags_match: HindsightTagsMatch | None = None
    time_field: Literal["created_at", "updated_at"] | None = None
    start_date: str | None = None
    end_date: str | None = None

    def selects(self, document: schemas.DocumentDetail) -> bool:
        """Return True if a document meets every filter."""
        part = self.q.casefold()
        if part not in document.id.casefold() and part not in document.original_text.casefold():
            return False
        at = parse_time("at", self.time_of(document))
        start, end = parse_time("start_date", self.start_date), parse_time("end_date", self.end_date)
        inside = at is not None and (start is None or at >= start) and (end is None or at < end)
        return inside and matches_tags(document.tags, self.tags, self.tags_match)

    def time_of(self, document: schemas.DocumentItem) -> str:
        """Return the time of the first or last write to a document."""
        return document.created_at if self.time_field == "created_at" else document.updated_at


def _document(bank: str, messages: Sequence[Message], facts: Sequence[Fact]) -> schemas.DocumentDetail:
    """Return a document of these messages, with its current facts."""
    written = sorted(message.recorded_at for message in messages)
    first = messages[0]
    shared = {name: value for name, value in first.metadata.items() if all(_has(m, name, value) for m in messages)}
    text = "\n".join(message.content for message in messages)
    return schemas.DocumentDetail(
        id=first.document or "",
        bank_id=bank,
        created_at=written[0].isoformat(),
        updated_at=written[-1].isoformat(),
        text_length=len(text),
        memory_unit_count=len(facts),
        document_metadata=string_metadata(shared) or None,
        tags=list(dict.fromkeys(tag for message in messages for tag in message.tags)),
        original_text=text,
        nodes_by_fact_type=dict(Counter(str(fact.network) for fact in facts)),
    )


def _has(message: Message, name: str, value: object) -> bool:
    return message.metadata.get(name) == value


async def _facts_by_document(documents: Mapping[str, Sequence[Message]], memory: Memory) -> dict[str, list[Fact]]:
    """Return the current facts of each document."""
    document_of = {message.id: document for document, messages in documents.items() for message in messages}
    found: dict[str, list[Fact]] = {document: [] for document in documents}
    async for fact in every_fact(memory):
        if is_current(fact):
            for document in {document_of[id] for id in fact.messages if id in document_of}:
                found[document].append(fact)
    return found


@router.get(f"{BANK}/documents")
async def list_documents(session: ReadBank, options: Annotated[DocumentListRequest, Query()]) -> Response:
    """List documents, those written last first."""
    messages: dict[str, list[Message]] = {}
    async for message in every_message(session.memory):
        if message.document:
            messages.setdefault(message.document, []).append(message)
    facts = await _facts_by_document(messages, session.memory)
    every = (_document(session.bank, messages[name], facts[name]) for name in messages)
    found = sorted((each for each in every if options.selects(each)), key=options.time_of, reverse=True)
    items = [each.model_dump(exclude={"original_text", "nodes_by_fact_type"}) for each in options.of(found)]
    return record(schemas.ListResponse(items=items, total=len(found), limit=options.limit, offset=options.offset))


@router.get(f"{DOCUMENT}/chunks")
async def list_chunks(session: ReadBank, document_id: Name, options: Annotated[OffsetPage, Query()]) -> Response:
    """List the messages of a document in order."""
    messages = await _messages(session.memory, document_id)
    every = [_chunk(session.bank, place, message) for place, message in enumerate(messages)]
    items = [chunk.model_dump() for chunk in options.of(every)]
    return record(schemas.ListResponse(items=items, total=len(messages), limit=options.limit, offset=options.offset))


@router.get(f"{PREFIX}/chunks/{{id}}")
async def chunk(request: Request, principal: AnyPrincipal, id: Text) -> Response:
    """Return a message of a document; its id contains the bank, which the key must be allowed to read."""
    bank, message_id = parse_chunk_id(id)
    session = await open_session(request, principal, bank, "read", interface="hindsight")
    found = await session.store.messages(session.bank, MessageSelect(ids=[message_id]))
    if not found or not found[0].document:
        raise NotFound("There is no such chunk.")
    places = await positions({found[0].document}, session.memory)
    return record(_chunk(bank, places.get(message_id, 0), found[0]))


@router.get(DOCUMENT)
async def document(session: ReadBank, document_id: Name) -> Response:
    """Return a document with its text."""
    messages = await _messages(session.memory, document_id)
    facts = await _facts_by_document({document_id: messages}, session.memory)
    return record(_document(session.bank, messages, facts[document_id]))


@router.delete(DOCUMENT)
async def delete_document(session: WriteBank, document_id: Name) -> Response:
    """Delete a document with everything derived from it."""
    async with session.erasing():
        deleted = await session.memory.forget(document=document_id)
    return record(
        schemas.DeleteDocumentResponse(
            message=f"Deleted document {document_id!r}.", document_id=document_id, memory_units_deleted=deleted.facts
        )
    )


async def _messages(memory: Memory, document: str) -> list[Message]:
    messages = [message async for message in every_message(memory, document)]
    if not messages:
        raise NotFound(f"There is no document {document!r:.80} in this bank.")
    return messages


def _chunk(bank: str, place: int, message: Message) -> schemas.ChunkResponse:
    return schemas.ChunkResponse(
        chunk_id=chunk_id(bank, message.id),
        document_id=message.document or "",
        bank_id=bank,
        chunk_index=place,
        chunk_text=message.content,
        created_at=message.recorded_at.isoformat(),
    )
