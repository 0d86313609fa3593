"""Mem0: the memories that `get_all()` returns, or a list of them. They are facts already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field, JsonValue

from vmemo.models.base import Instant
from vmemo.transfer.importers.reading import ForeignFile
from vmemo.transfer.importers.records import (
    ForeignModel,
    ForeignRecords,
    Place,
    StatedFact,
    derived_id,
    without_none,
)


class Mem0Memory(ForeignModel):
    """One memory."""

    id: str = Field(min_length=1)
    memory: str
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    metadata: Mapping[str, JsonValue] | None = None
    categories: tuple[str, ...] | None = None
    created_at: Instant
    updated_at: Instant | None = None
    expiration_date: Instant | None = None


def read(file: ForeignFile) -> ForeignRecords:
    """Return the memories of a file as facts."""
    found = [_fact(place, place.parse(Mem0Memory, value)) for place, value in _memories(file)]
    return ForeignRecords(facts=sorted(found, key=lambda fact: str(fact.message.timestamp)))


def _memories(file: ForeignFile) -> Iterator[tuple[Place, JsonValue]]:
    for place, value in file.values:
        listed = value.get("results", value) if isinstance(value, dict) else value
        if isinstance(listed, list):
            named = place / "results" if isinstance(value, dict) else place / "memories"
            yield from ((named[number], each) for number, each in enumerate(listed))
        else:
            yield place, listed


def _fact(place: Place, memory: Mem0Memory) -> StatedFact:
    """Return a memory as a fact; one of an agent without a user is the agent's own experience."""
    own = memory.user_id is None and memory.agent_id is not None
    ids = {name: getattr(memory, name) for name in ("user_id", "agent_id", "app_id", "run_id", "actor_id")}
    message = place.message(
        without_none(
            {
                "id": derived_id("mem0", memory.id),
                "content": memory.memory,
                "role": "assistant" if own else "user",
                "speaker": memory.agent_id if own else memory.actor_id or memory.user_id,
                "timestamp": memory.updated_at or memory.created_at,
                "document": "mem0" if memory.run_id is None else f"mem0/{memory.run_id}",
                "tags": tuple(dict.fromkeys(memory.categories or ())),
                "metadata": {**without_none(ids), "mem0_id": memory.id, **(memory.metadata or {})},
            }
        )
    )
    return StatedFact(
        message=message,
        network="experience" if own else "world",
        valid_at=memory.created_at,
        expires_at=memory.expiration_date,
    )
