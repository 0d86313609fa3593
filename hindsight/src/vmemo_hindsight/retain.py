"""Routes that retain items and clear memories.

A repeated document is compared with its stored lines, so that unchanged messages stay as they are. The ids of an
operation's messages start with the operation's id. They show its progress, so nothing else is stored for it, and a
repeated operation stores nothing twice.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Literal, TypeAlias

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from vmemo.errors import InvalidInput
from vmemo.memory import Memory
from vmemo.models import Message, MessageId, new_id, utc_now
from vmemo.models.records import Name
from vmemo.models.requests import NewMessage, RetainRequest
from vmemo.models.select import MessageSelect
from vmemo_hindsight.dependencies import BANK, CreateBank, WriteBank
from vmemo_hindsight.reads import every_message
from vmemo_hindsight.schemas import (
    DeleteResponse,
    HindsightRequest,
    HindsightRetainResponse,
    TokenUsage,
    unsupported_option,
)
from vmemo_hindsight.serializers import CONTEXT, parse_time
from vmemo_server.dependencies import RequestSession
from vmemo_server.paths import ExactRoute
from vmemo_server.problems import HttpProblem
from vmemo_server.responses import record

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


Line: TypeAlias = tuple[str | None, str, tuple[str, ...], str]


@dataclass(frozen=True)
class DocumentChanges:
    """The messages that a retain adds, and those of replaced documents that it removes.

    `unchanged` have the ids of stored messages: retaining them again stores nothing, and derives only facts that are
    still missing.
    """

    added: Sequence[NewMessage]
    unchanged: Sequence[NewMessage]
    removed: Sequence[MessageId]


async def document_changes(body: HindsightRetain, operation: str, memory: Memory) -> DocumentChanges:
    """Compare items with the documents that they replace or extend; unchanged messages stay as they are."""
    documents = dict.fromkeys(item.document_id for item in body.items if item.document_id)
    stored = [message for document in documents async for message in every_message(memory, document)]
    # A document may have any number of lines.
    return await asyncio.to_thread(compare, body, operation, stored)


def compare(body: HindsightRetain, operation: str, stored: Sequence[Message]) -> DocumentChanges:
    """Return the changes that items make to the stored messages of their documents."""
    lines, modes = _StoredLines(stored), body.modes()
    added, unchanged = list[NewMessage](), list[NewMessage]()
    for item in body.items:
        message = item.message(f"{operation}.{len(added)}", item.document_id or operation, body.document_tags or ())
        known = lines.take(message, any_time=item.time is None)
        if known is None:
            added.append(message)
        else:
            unchanged.append(message.model_copy(update={"id": known}))
    removed = [message.id for message in lines.left() if modes.get(message.document or "") == "replace"]
    return DocumentChanges(added, unchanged, removed)


class _StoredLines:
    """Stored messages by what makes a line, so that each item is looked up and not searched for."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._left = {message.id: message for message in messages}
        self._by_line: defaultdict[Line, deque[MessageId]] = defaultdict(deque)
        self._by_time: defaultdict[tuple[Line, datetime | None], deque[MessageId]] = defaultdict(deque)
        for message in self._left.values():
            line = _line(message)
            self._by_line[line].append(message.id)
            self._by_time[line, message.timestamp].append(message.id)

    def take(self, message: NewMessage, *, any_time: bool) -> MessageId | None:
        """Return the first message with the same line and time, or with any time; it is taken once."""
        line = _line(message)
        found = self._by_line.get(line) if any_time else self._by_time.get((line, message.timestamp))
        while found:
            id = found.popleft()
            if self._left.pop(id, None) is not None:
                return id
        return None

    def left(self) -> Iterable[Message]:
        """Return the messages that were not taken, in the order they were stored."""
        return self._left.values()


def _line(message: NewMessage | Message) -> Line:
    metadata = json.dumps(dict(message.metadata), sort_keys=True)
    return message.document, message.content, tuple(message.tags), metadata


router = APIRouter(include_in_schema=False, route_class=ExactRoute)
_FIRST_PAGE = 16


async def messages_of(operation: str, memory: Memory) -> list[Message]:
    """Return the messages that an operation stored, in order."""
    found: list[Message] = []
    size = _FIRST_PAGE
    while True:
        ids = [MessageId(f"{operation}.{n}") for n in range(len(found), len(found) + size)]
        page = {message.id: message for message in await memory.store.messages(memory.name, MessageSelect(ids=ids))}
        found += [page[id] for id in ids if id in page]
        if len(page) < size:
            return found
        size *= 2


@router.post(f"{BANK}/memories")
async def retain(session: CreateBank, body: HindsightRetain) -> Response:
    """Store items and derive facts from them, now or later. A repeated document is replaced, unless appended to."""
    session.principal.check_batch(len(body.items))
    body.check()
    await session.memory.open()
    operation = body.operation_id or new_id()
    if body.operation_id and (known := await messages_of(operation, session.memory)):
        return _repeated(session, body, known)
    changes = await document_changes(body, operation, session.memory)
    return record(await _retain(session, body, operation, changes))


async def _retain(
    session: RequestSession, body: HindsightRetain, operation: str, changes: DocumentChanges
) -> HindsightRetainResponse:
    """Store the messages in place of those they replace, in one transaction, and derive facts from them.

    Messages that stay pending are reported as an asynchronous operation.
    """
    wait = not (body.is_async and changes.added)
    request = RetainRequest(messages=(*changes.added, *changes.unchanged), wait=wait)
    if changes.removed:
        async with session.erasing():
            retained = await session.memory.replace_messages(request, changes.removed)
    else:
        retained = await session.memory.run(request)
    pending = not wait or retained.problem is not None
    return HindsightRetainResponse(
        bank_id=session.bank,
        items_count=len(body.items),
        is_async=pending,
        operation_id=operation if pending and changes.added else None,
        usage=None if pending else TokenUsage.of(retained.usage),
    )


def _repeated(session: RequestSession, body: HindsightRetain, known: Sequence[Message]) -> Response:
    texts = {item.text for item in body.items}
    if any(message.content not in texts for message in known):
        raise HttpProblem(409, "OperationIdReused", "This operation_id was used for other items; use a new one.")
    count = len(body.items)
    return record(
        HindsightRetainResponse(bank_id=session.bank, items_count=count, is_async=True, operation_id=body.operation_id)
    )


@router.delete(f"{BANK}/memories")
async def clear(session: WriteBank, type: str | None = None) -> Response:
    """Forget all messages; the bank and its profile stay."""
    if type:
        raise unsupported_option(
            "type", "Facts of different types are derived from the same messages; delete documents, or all memories."
        )
    messages = [message.id async for message in every_message(session.memory)]
    async with session.erasing():
        deleted = (await session.memory.forget(messages=messages)).facts if messages else 0
    return record(DeleteResponse(message=f"Deleted {len(messages)} messages.", deleted_count=deleted))
