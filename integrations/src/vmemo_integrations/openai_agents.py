"""OpenAI Agents SDK: a session that remembers, and tools for memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Literal, cast

from pydantic import JsonValue

from vmemo import Message
from vmemo.errors import VmemoError
from vmemo_integrations import AnyMemory, MemoryTools, missing_extra

try:
    from agents import SessionABC, SessionSettings, Tool, TResponseInputItem, function_tool
except ImportError as error:
    raise missing_extra("The OpenAI Agents SDK", "openai-agents") from error

ITEM = "openai_agents_item"
"""The metadata of a message that holds its item, unless role and text are all that it has."""
WITHOUT_WORDS = "…"
"""The content of an item that nobody said, such as a tool call: no query finds it."""
LONGEST = 1_000_000
"""Characters of a message."""
PAGE = 1000
_ROLES: Mapping[str, Literal["user", "assistant", "system"]] = {"user": "user", "assistant": "assistant"}


class VmemoSession(SessionABC):
    """A conversation of the Agents SDK in a bank: every item as it is, and the facts that its texts state.

    Each item is a message of the document `session_id`, so `forget()` deletes it from the conversation too.
    """

    def __init__(
        self,
        session_id: str,
        memory: AnyMemory,
        *,
        speaker: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Use the session of this id; `speaker` is the name of the user."""
        self.session_id = session_id
        self.session_settings = session_settings
        self._memory = memory
        self._speaker = speaker

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest `limit` items, or all, oldest first."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        messages = await self._messages()
        return [
            _item(message) for message in (messages if limit is None else messages[max(0, len(messages) - limit) :])
        ]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items, and derive facts from the texts of user and assistant.

        If deriving fails, the items are stored and the texts queued all the same, so the agent goes on.
        """
        now = datetime.now(UTC)
        # Different times, because the same words at the same time are one message.
        messages = [self._message(item, now + timedelta(microseconds=number)) for number, item in enumerate(items)]
        for said, group in groupby(messages, lambda message: message.role in ("user", "assistant")):
            try:
                await self._memory.retain(list(group), infer=said, document=self.session_id)
            except VmemoError as error:
                if not error.stored:
                    raise

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the newest item with the facts that it states, and return it."""
        messages = await self._messages()
        if not messages:
            return None
        await self._memory.forget(messages=[messages[-1].id])
        return _item(messages[-1])

    async def clear_session(self) -> None:
        """Delete all items of the session with the facts that they state."""
        if await self._memory.messages(document=self.session_id, limit=1):
            await self._memory.forget(document=self.session_id)

    async def _messages(self) -> list[Message]:
        found: list[Message] = []
        while True:
            after = found[-1].id if found else None
            page = await self._memory.messages(document=self.session_id, after=after, limit=PAGE)
            found += page
            if len(page) < PAGE:
                return found

    def _message(self, item: TResponseInputItem, timestamp: datetime) -> Message:
        values = cast("Mapping[str, object]", item)
        text = _text(values.get("content")).replace("\0", "")[:LONGEST]
        if not text.strip():
            return Message(role="tool", content=WITHOUT_WORDS, timestamp=timestamp, metadata={ITEM: _storable(item)})
        role = _ROLES.get(str(values.get("role")), "system")
        return Message(
            role=role,
            content=text,
            speaker=self._speaker if role == "user" else None,
            timestamp=timestamp,
            metadata={} if values == {"role": role, "content": text} else {ITEM: _storable(item)},
        )


def _text(content: object) -> str:
    """Return the words of a message: its text, or the texts of its parts."""
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Mapping[str, object]]", content or ())
    return "\n".join(text for part in parts if isinstance(text := part.get("text"), str))


def _storable(item: TResponseInputItem) -> JsonValue:
    """Return an item as JSON values, with a question mark in place of what is not valid Unicode."""
    return json.loads(json.dumps(item, ensure_ascii=False).encode("utf-8", "replace"))


def _item(message: Message) -> TResponseInputItem:
    return cast("TResponseInputItem", message.metadata.get(ITEM, {"role": message.role, "content": message.content}))


def memory_tools(memory: AnyMemory) -> list[Tool]:
    """Return the tools `remember` and `recall` for an agent."""
    tools = MemoryTools(memory)
    return [function_tool(tools.remember), function_tool(tools.recall)]
