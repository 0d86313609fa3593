"""The format of a foreign file, and its importer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.transfer.importers.chats import read_chat, read_chatgpt, read_claude
from vmemo.transfer.importers.foreign import NOTHING_IMPORTED, ForeignFile, ForeignFormat, ForeignRecords, read_file
from vmemo.transfer.importers.memories import HINDSIGHT_MANIFEST, read_hindsight, read_mem0, read_zep

IMPORTERS: Mapping[ForeignFormat, Callable[[ForeignFile], ForeignRecords]] = {
    "mem0": read_mem0,
    "zep": read_zep,
    "hindsight": read_hindsight,
    "chatgpt": read_chatgpt,
    "claude": read_claude,
    "chat": read_chat,
}
_CHAT_KEYS = ("role", "content")


def read_foreign(path: Path, format: ForeignFormat | None = None) -> tuple[ForeignFormat, ForeignRecords]:
    """Return the format of a foreign export, which is detected unless it is given, and its validated records."""
    file = read_file(path)
    chosen = format or detect(file)
    if chosen is None:
        known = ", ".join(IMPORTERS)
        raise InvalidInput(f"{path} is of no format that can be recognised. {NOTHING_IMPORTED} Name one: {known}.")
    if chosen not in IMPORTERS:
        raise InvalidInput(f"format must be one of {', '.join(IMPORTERS)}, not {chosen!r:.40}. {NOTHING_IMPORTED}")
    return chosen, IMPORTERS[chosen](file)


def detect(file: ForeignFile) -> ForeignFormat | None:
    """Return the format of a file, by the keys of its first records; None if they fit none."""
    if HINDSIGHT_MANIFEST in file.members:
        return "hindsight"
    value = next((each for name, each in file.members.items() if "conversations" in name), None)
    return _of(value if file.members else file.values[0][1])


def _of(value: JsonValue) -> ForeignFormat | None:
    if isinstance(value, list):
        return _of(value[0]) if value and isinstance(value[0], dict) else None
    if not isinstance(value, dict):
        return None
    if "mapping" in value:
        return "chatgpt"
    if "chat_messages" in value:
        return "claude"
    if "memory" in value:
        return "mem0"
    if "results" in value:
        return _of(value["results"])
    return _conversation(value)


def _conversation(value: Mapping[str, JsonValue]) -> ForeignFormat | None:
    """Return the format of messages, which Zep's have ids, or of what else Zep stores."""
    if "fact" in value or "thread_id" in value or "session_id" in value:
        return "zep"
    if any(name in value for name in ("threads", "edges", "facts", "episodes")):
        return "zep"
    if all(name in value for name in _CHAT_KEYS):
        return "zep" if "uuid" in value or "role_type" in value else "chat"
    messages = value.get("messages")
    return None if messages is None else _of(messages)
