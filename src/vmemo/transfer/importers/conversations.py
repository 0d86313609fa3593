"""The conversations of chat applications: branches, and the order in which they took place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from pydantic import JsonValue

from vmemo.models.requests import NewMessage
from vmemo.transfer.importers.reading import ForeignFile
from vmemo.transfer.importers.records import Place

FILE = "conversations.json"
N = TypeVar("N")


def conversations(file: ForeignFile) -> Iterator[tuple[Place, JsonValue]]:
    """Yield the conversations of a file, or of all conversation files in an archive, with their places."""
    if file.members:
        found = [name for name in file.members if _is_conversations(name)]
        if not found:
            raise file.place.error(f"has no {FILE}")
        for name in found:
            yield from _listed(Place(f"{file.path.name}/{name}"), file.members[name])
        return
    for place, value in file.values:
        if file.lines:
            yield place, value
        else:
            yield from _listed(place, value)


def _is_conversations(name: str) -> bool:
    base = name.rpartition("/")[2]
    # Large exports are divided: conversations-000.json and so on.
    return base.startswith("conversations") and base.endswith(".json")


def _listed(place: Place, value: JsonValue) -> Iterator[tuple[Place, JsonValue]]:
    if isinstance(value, dict):
        yield place / "conversation", value
    elif isinstance(value, list):
        yield from (((place / "conversations")[number], each) for number, each in enumerate(value))
    else:
        raise place.error("must be a list of conversations")


def branch(nodes: Mapping[str, N], leaf: str, parent: Callable[[N], str | None], place: Place) -> list[str]:
    """Return the ids from the root to a leaf; other branches are answers that were asked for again, or edited."""
    found: dict[str, None] = {}
    at: str | None = leaf
    while at is not None and at in nodes:
        if at in found:
            raise place.error(f"{at!r} is its own ancestor")
        found[at] = None
        at = parent(nodes[at])
    return list(found)[::-1]


def in_order(found: Iterable[tuple[datetime, list[NewMessage]]]) -> list[NewMessage]:
    """Return the messages of all conversations, the earliest conversation first: later ones may revise its facts."""
    ordered = sorted(found, key=lambda conversation: conversation[0])
    return [message for _, messages in ordered for message in messages]
