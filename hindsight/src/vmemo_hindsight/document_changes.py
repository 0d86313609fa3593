"""Comparison of retained items with the stored lines of their documents."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from vmemo.memory.lookup import Lookup
from vmemo.models import Message, MessageId
from vmemo.models.requests import NewMessage
from vmemo_hindsight.items import HindsightRetain

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


async def document_changes(body: HindsightRetain, operation: str, lookup: Lookup) -> DocumentChanges:
    """Compare items with the documents that they replace or extend; unchanged messages stay as they are."""
    documents = dict.fromkeys(item.document_id for item in body.items if item.document_id)
    stored = [message for document in documents async for message in lookup.every_message(document)]
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
