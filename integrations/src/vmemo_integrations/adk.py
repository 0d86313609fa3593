"""Google ADK: a memory service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import cast
from urllib.parse import quote

from pydantic import JsonValue

from vmemo import Fact, Message
from vmemo.errors import NotFound, VmemoError
from vmemo_integrations import RECALLED_TOKENS, AnyMemory, missing_extra

try:
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai import types
except ImportError as error:
    raise missing_extra("Google ADK", "adk") from error


class VmemoMemoryService(BaseMemoryService):
    """A memory service with one bank for each user of an app.

    Events become messages of their session's document, under the ids of the events: adding a session again stores
    only what is new. Texts are stored; thoughts, tool calls and their results are not.
    """

    def __init__(self, memory: AnyMemory, *, max_tokens: int = RECALLED_TOKENS) -> None:
        """Use the database of `memory`; a search returns memories of at most `max_tokens` tokens."""
        self._memory = memory
        self._max_tokens = max_tokens

    def bank(self, app_name: str, user_id: str) -> AnyMemory:
        """Return the memory of a user of an app."""
        return self._memory.bank(f"{quote(app_name, safe='')}/{user_id}")

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events of a session that are not stored yet."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events that are not stored yet. Facts have the metadata, so recalls can filter by it."""
        messages = [_said(event, text) for event in events if not event.partial and (text := _text(event.content))]
        await self._retain(self.bank(app_name, user_id), messages, session_id, custom_metadata)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories as messages; an entry's metadata takes precedence."""
        messages = [_written(entry, text) for entry in memories if (text := _text(entry.content))]
        await self._retain(self.bank(app_name, user_id), messages, None, custom_metadata)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the user's standing instructions and the facts that answer the query, most relevant first."""
        try:
            found = await self.bank(app_name, user_id).recall(query, max_tokens=self._max_tokens)
        except NotFound:
            return SearchMemoryResponse()
        facts = {fact.id: fact for fact in (*found.instructions, *(hit.fact for hit in found.hits))}
        return SearchMemoryResponse(memories=[_entry(fact) for fact in facts.values()])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete one memory, by the id that a search returned; nothing happens if there is none."""
        if memory_id:
            with suppress(NotFound):
                await self.bank(app_name, user_id).delete(memory_id)

    async def _retain(
        self, bank: AnyMemory, messages: Sequence[Message], document: str | None, metadata: Mapping[str, object] | None
    ) -> None:
        """Store messages. If facts can't be derived now, they are queued, so the agent goes on."""
        if not messages:
            return
        try:
            await bank.retain(messages, document=document, metadata=cast("Mapping[str, JsonValue]", metadata or {}))
        except VmemoError as error:
            if not error.stored:
                raise


def _said(event: Event, text: str) -> Message:
    by_user = event.author == "user"
    return Message.of(
        {
            "id": event.id,
            "content": text,
            "role": "user" if by_user else "assistant",
            "speaker": None if by_user else event.author or None,
            "timestamp": datetime.fromtimestamp(event.timestamp, UTC),
        }
    )


def _written(entry: MemoryEntry, text: str) -> Message:
    given = {"id": entry.id, "speaker": entry.author, "timestamp": entry.timestamp}
    values = {name: value for name, value in given.items() if value}
    return Message.of({**values, "content": text, "metadata": entry.custom_metadata})


def _text(content: types.Content | None) -> str:
    parts = content.parts if content is not None and content.parts else ()
    return "\n".join(part.text for part in parts if part.text and not part.thought).replace("\0", "").strip()


def _entry(fact: Fact) -> MemoryEntry:
    return MemoryEntry(
        id=fact.id,
        content=types.Content(role="user", parts=[types.Part(text=fact.text)]),
        custom_metadata=dict(fact.metadata),
        timestamp=fact.mentioned_at.isoformat(),
    )
