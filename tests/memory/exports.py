"""Fixtures of the export tests: a bank with every type of record, and ways to break its file."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders import NOON, open_memory, said

from vmemo import InvalidInput, Memory, Message, Profile

Line = dict[str, object]


def fill(memory: Memory) -> None:
    """Messages of every state, episodes, entities, links, tags, metadata, other scripts and access counts."""
    memory.profile_sync(Profile(name="Ada", bias=0.2, background="I like order."))
    talk = [
        said("Yesterday I met Robert Hale at the Harbour Cafe.", 0, speaker="Mira"),
        said("Bob Hale? Give him my regards, 山田さん also says hello 🙂.", 1, speaker="Jon"),
        said("I met Robert Hale at the Harbour Cafe again.", 3, speaker="Mira"),
    ]
    memory.retain_sync(talk, document="talk", tags=["trip", "día"], metadata={"page": 1, "deep": {"a": [None, True]}})
    memory.retain_sync("Kept for its words alone.\nIn two lines.", infer=False, timestamp=NOON)
    memory.add_message_sync(Message(content="Not read yet.", timestamp=NOON, role="tool"))
    memory.recall_sync("Who met Robert Hale?")


def replaced(kind: str, /, **fields: object) -> Callable[[list[Line]], int]:
    """Change fields of the first line of a kind, and say which line that was."""

    def change(lines: list[Line]) -> int:
        at = next(n for n, line in enumerate(lines) if line["record"] == kind)
        lines[at] = {**lines[at], **fields}
        return at + 1

    return change


def repeated(kind: str) -> Callable[[list[Line]], int]:
    """Hold the last line of a kind twice."""

    def change(lines: list[Line]) -> int:
        at = max(n for n, line in enumerate(lines) if line["record"] == kind)
        lines.insert(at + 1, dict(lines[at]))
        return at + 2

    return change


@contextmanager
def alone(url: str) -> Generator[Memory]:
    """A bank with one message, and no other beside it."""
    with open_memory(url, "here") as memory:
        memory.retain_sync("The kettle is red.")
        yield memory


def assert_refused(here: Memory, folder: Path, content: bytes, words: str) -> None:
    """The file is not imported beside a bank that is alone, and what is there stays."""
    broken = folder / "broken.jsonl"
    broken.write_bytes(content)
    with pytest.raises(InvalidInput, match=words):
        here.bank("there").import_bank_sync(broken)
    assert here.banks_sync() == ["here"]
    assert here.status_sync().messages == 1
