"""Parser of BEAM's chats, which are used for their dated turns only: one user and an assistant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import BaseModel, TypeAdapter

from vmemo.models import Role
from vmemo_bench.datasets.cases import Turn

_MARKER = re.compile(r"\s*->->[^\n]*\Z")
"""The marker that ends a user's turn."""


class BeamTurn(BaseModel):
    """A turn in the file; `time_anchor` dates it and the turns that follow."""

    role: Role
    id: int
    content: str
    time_anchor: str | None = None


class BeamBatch(BaseModel):
    """A part of a chat in the file."""

    turns: list[list[BeamTurn]]


_FILE = TypeAdapter(list[BeamBatch])


def parse_turns(content: bytes) -> Iterator[tuple[datetime, Turn]]:
    """Yield the turns of a chat with their times; turns before the first date are omitted."""
    said: datetime | None = None
    for raw in (raw for batch in _FILE.validate_json(content) for group in batch.turns for raw in group):
        if raw.time_anchor:
            said = datetime.strptime(raw.time_anchor, "%B-%d-%Y").replace(tzinfo=UTC)
        if said is not None:
            yield said, Turn(id=str(raw.id), text=_MARKER.sub("", raw.content), role=raw.role)
