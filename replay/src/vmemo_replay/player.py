"""A conversation that is retained message by message, so that a bank holds only what was said before a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from vmemo import Fact, Memory
from vmemo.models import Entity
from vmemo.models.requests import LARGEST_PAGE
from vmemo.models.results import Retained, Usage
from vmemo_replay.transcripts import Line

Pace = Literal["turn", "session"]
"""When facts are derived: before each turn, or when a session ends; until then messages are recalled by their words."""


@dataclass
class Player:
    """Retains the lines of a transcript into a memory, in order, up to the one that is asked about."""

    memory: Memory
    lines: Sequence[Line]
    pace: Pace = "turn"
    done: int = 0
    """Lines that are retained."""
    usage: Usage = field(default_factory=Usage)
    _pending: bool = False

    async def advance(self, until: int) -> None:
        """Retain the lines before this one."""
        new = self.lines[self.done : until]
        if not new:
            return
        current = self.lines[min(until, len(self.lines) - 1)].session
        ended = [line for line in new if self.pace == "turn" or line.session != current or until == len(self.lines)]
        if ended:
            self._count(await self.memory.retain([line.message.model_dump(exclude_none=True) for line in ended]))
        elif self._pending and self.lines[self.done - 1].session != current:
            self._count(await self.memory.process())
        self._pending = bool(rest := new[len(ended) :]) or (self._pending and not ended)
        if rest:
            await self.memory.add_messages([line.message.model_dump(exclude_none=True) for line in rest])
        self.done = until

    async def finish(self) -> None:
        """Retain the lines that are left, and derive what waits."""
        await self.advance(len(self.lines))
        if self._pending:
            self._count(await self.memory.process())
            self._pending = False

    def _count(self, retained: Retained) -> None:
        self.usage += retained.usage


async def all_facts(memory: Memory) -> list[Fact]:
    """Return all facts of a bank, closed ones too, in the order in which they were stored."""
    found: list[Fact] = []
    while page := await memory.facts(after=found[-1].id if found else None, limit=LARGEST_PAGE):
        found += page
    return found


async def all_entities(memory: Memory) -> list[Entity]:
    """Return all entities of a bank, in the order in which they were first seen."""
    found: list[Entity] = []
    while page := await memory.entities(after=found[-1].id if found else None, limit=LARGEST_PAGE):
        found += page
    return found
