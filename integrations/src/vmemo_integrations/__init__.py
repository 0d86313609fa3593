"""Adapters for agent frameworks, one module and one extra per framework.

A module imports its framework, so import the one that you use: `from vmemo_integrations.openai_agents import …`.
"""

from __future__ import annotations

from typing import TypeAlias

from vmemo import Memory
from vmemo.client import Client
from vmemo.errors import MissingExtra, VmemoError

AnyMemory: TypeAlias = Memory | Client
"""A memory in this process, or one on a server."""
RECALLED_TOKENS = 1000
"""Tokens that a call of the tool `recall` returns at most."""


class MemoryTools:
    """The tools of an agent. A framework shows the names, arguments and docstrings of the methods to the model."""

    def __init__(self, memory: AnyMemory, *, max_tokens: int = RECALLED_TOKENS) -> None:
        self._memory = memory
        self._max_tokens = max_tokens

    async def remember(self, text: str) -> str:
        """Store something worth knowing in later conversations, such as a preference, a plan or a decision.

        Args:
            text: Full sentences that can be understood alone, with names and dates instead of "they" or "tomorrow".
        """
        try:
            await self._memory.retain(text)
        except VmemoError as error:
            if not error.stored:
                raise
        return "Remembered."

    async def recall(self, query: str) -> str:
        """Search the long-term memory, which holds facts from all earlier conversations.

        Args:
            query: A question, or words to search for.
        """
        return (await self._memory.recall(query, max_tokens=self._max_tokens)).to_prompt()


def missing_extra(package: str, extra: str) -> MissingExtra:
    """Return the error of an adapter whose framework is not installed."""
    return MissingExtra(f"{package} is required and not installed. Run: pip install 'vmemo[{extra}]'")
