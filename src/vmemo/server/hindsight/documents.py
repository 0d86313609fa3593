"""Routes of documents, and of the messages that they are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from vmemo.errors import NotFound
from vmemo.memory.lookup import Lookup
from vmemo.models import Fact, Message
from vmemo.models.base import Name, Text
from vmemo.server.dependencies import AnyGuest
from vmemo.server.hindsight import schemas
from vmemo.server.hindsight.dependencies import BANK, PREFIX, Reading, Writing
from vmemo.server.hindsight.includes import positions
from vmemo.server.hindsight.memories import current
from vmemo.server.hindsight.serializers import chunk_id, moment, of_chunk, strings
from vmemo.server.hindsight.tags import Match, meets
from vmemo.server.hindsight.unsupported import Page
from vmemo.server.paths import ExactRoute
from vmemo.server.responses import record

router = APIRouter(route_class=ExactRoute)
PATH = f"{BANK}/documents/{{document_id}}"


class DocumentPage(Page):
    """Some documents, those that were written last first; `q` stands in their ids or texts."""

    q: str = ""
    tags: list[str] | None = Field(default=None, max_length=100)
    tags_match: Match | None = None
    time_field: Literal["created_at", "updated_at"] | None = None
    start_date: str | None = None
    end_date: str | None = None

    def lets(self, document: schemas.Document, text: str) -> bool:
        """Whether a document is listed."""
        if self.q.casefold() not in document.id.casefold() and self.q.casefold() not in text.casefold():
            return False
        at = moment("at", self.moment(document))
        start, end = moment("start_date", self.start_date), moment("end_date", self.end_date)
        inside = at is not None and (start is None or at >= start) and (end is None or at < end)
        return inside and meets(document.tags, self.tags, self.tags_match)

    def moment(self, document: schemas.Document) -> str:
        """When a document was written, first or last."""
        return document.created_at if self.time_field == "created_at" else document.updated_at


def _document(bank: str, lines: Sequence[Message], facts: Sequence[Fact]) -> schemas.DocumentText:
    """A document of these messages, with what is believed from them."""
    written = sorted(message.recorded_at for message in lines)
    kinds = Counter(str(fact.network) for fact in facts)
    alike = {name: value for name, value in lines[0].metadata.items() if all(_has(m, name, value) for m in lines)}
    text = "\n".join(message.content for message in lines)
    return schemas.DocumentText(
        id=lines[0].document or "",
        bank_id=bank,
        created_at=written[0].isoformat(),
        updated_at=written[-1].isoformat(),
        text_length=len(text),
        memory_unit_count=len(facts),
        document_metadata=strings(alike) or None,
        tags=list(dict.fromkeys(tag for message in lines for tag in message.tags)),
        original_text=text,
        nodes_by_fact_type=dict(kinds),
    )


def _has(message: Message, name: str, value: object) -> bool:
    return message.metadata.get(name) == value


async def _told(lines: Mapping[str, Sequence[Message]], lookup: Lookup) -> dict[str, list[Fact]]:
    """What is believed from each document."""
    of = {message.id: document for document, messages in lines.items() for message in messages}
    found: dict[str, list[Fact]] = {document: [] for document in lines}
    async for fact in lookup.every_fact():
        if current(fact):
            for document in {of[id] for id in fact.messages if id in of}:
                found[document].append(fact)
    return found


@router.get(f"{BANK}/documents")
async def documents(visit: Reading, page: Annotated[DocumentPage, Query()]) -> Response:
    """Documents, those that were written last first."""
    lines: dict[str, list[Message]] = {}
    async for message in visit.memory.lookup.every_message():
        if message.document:
            lines.setdefault(message.document, []).append(message)
    told = await _told(lines, visit.memory.lookup)
    every = (_document(visit.bank, lines[document], told[document]) for document in lines)
    found = sorted((each for each in every if page.lets(each, each.original_text)), key=page.moment, reverse=True)
    items = [each.model_dump(exclude={"original_text", "nodes_by_fact_type"}) for each in page.of(found)]
    return record(schemas.Listed(items=items, total=len(found), limit=page.limit, offset=page.offset))


@router.get(f"{PATH}/chunks")
async def chunks(visit: Reading, document_id: Name, page: Annotated[Page, Query()]) -> Response:
    """The messages of a document in order."""
    lines = await _lines(visit.memory.lookup, document_id)
    every = [_chunk(visit.bank, place, message) for place, message in enumerate(lines)]
    items = [chunk.model_dump() for chunk in page.of(every)]
    return record(schemas.Listed(items=items, total=len(lines), limit=page.limit, offset=page.offset))


@router.get(f"{PREFIX}/chunks/{{id}}")
async def chunk(guest: AnyGuest, id: Text) -> Response:
    """A message of a document; its id names the bank, which the key must reach."""
    bank, wanted = of_chunk(id)
    visit = await guest.visit(bank, "read")
    found = [message for message in await visit.memory.lookup.messages([wanted]) if message.document]
    if not found:
        raise NotFound("There is no such chunk.")
    places = await positions({found[0].document or ""}, visit.memory)
    return record(_chunk(bank, places.get(wanted, 0), found[0]))


@router.get(PATH)
async def document(visit: Reading, document_id: Name) -> Response:
    """A document with its text."""
    lines = await _lines(visit.memory.lookup, document_id)
    told = await _told({document_id: lines}, visit.memory.lookup)
    return record(_document(visit.bank, lines, told[document_id]))


@router.delete(PATH)
async def forget(visit: Writing, document_id: Name) -> Response:
    """Forget a document with everything that rests on it."""
    gone = await visit.memory.forget(document=document_id)
    told = f"Document {document_id!r} is forgotten."
    return record(schemas.DocumentGone(message=told, document_id=document_id, memory_units_deleted=gone.facts))


async def _lines(lookup: Lookup, document: str) -> list[Message]:
    lines = [message async for message in lookup.every_message(document)]
    if not lines:
        raise NotFound(f"There is no document {document!r:.80} in this bank.")
    return lines


def _chunk(bank: str, place: int, message: Message) -> schemas.Chunk:
    return schemas.Chunk(
        chunk_id=chunk_id(bank, message.id),
        document_id=message.document or "",
        bank_id=bank,
        chunk_index=place,
        chunk_text=message.content,
        created_at=message.recorded_at.isoformat(),
    )
