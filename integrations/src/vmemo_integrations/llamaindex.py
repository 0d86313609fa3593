"""LlamaIndex: a block of long-term memory for its `Memory`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, SkipValidation

from vmemo import VmemoError
from vmemo_integrations import RECALLED_TOKENS, AnyMemory, missing_extra

try:
    from llama_index.core.llms import ChatMessage, MessageRole
    from llama_index.core.memory import BaseMemoryBlock
except ImportError as error:
    raise missing_extra("LlamaIndex", "llamaindex") from error

_ROLES: Mapping[MessageRole, Literal["user", "assistant"]] = {
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
}
"""Roles whose texts are remembered."""
_LONGEST_TEXT = 1_000_000
_LONGEST_QUERY = 100_000


class VmemoMemoryBlock(BaseMemoryBlock[str]):
    """A block that remembers messages which leave the chat history, and recalls facts for the user's last message.

    The document of a message is the id of its session, under which the same lines are stored once.
    """

    name: str = "long_term_memory"
    memory: SkipValidation[AnyMemory]
    max_tokens: int = Field(default=RECALLED_TOKENS, description="Tokens of the recalled facts, at most.")
    speaker: str | None = Field(default=None, description="The name of the user.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        asked = [text for message in messages or () if message.role == MessageRole.USER and (text := _text(message))]
        if not asked:
            return ""
        found = await self.memory.recall(asked[-1][:_LONGEST_QUERY], max_tokens=self.max_tokens)
        return found.to_prompt() if found.hits or found.instructions else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        said = [values for message in messages if (values := _values(message)) is not None]
        if not said:
            return
        try:
            await self.memory.retain(said, speaker=self.speaker)
        except VmemoError as error:
            # The messages are stored and queued all the same; `status()` reports the error.
            if not error.stored:
                raise


def _values(message: ChatMessage) -> dict[str, object] | None:
    """Return a message as `retain` takes it, or None if nobody said it."""
    role, text = _ROLES.get(message.role), _text(message)
    if role is None or not text:
        return None
    return {"role": role, "content": text[:_LONGEST_TEXT], "document": message.additional_kwargs.get("session_id")}


def _text(message: ChatMessage) -> str:
    return (message.content or "").replace("\0", "").strip()
