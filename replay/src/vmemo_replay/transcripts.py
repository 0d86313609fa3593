"""Messages of conversations in any format that `vmemo import` reads, in the order of time and by session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Never, Self, cast
from uuid import UUID, uuid5

from vmemo.cli.transfer import IMPORTERS
from vmemo.errors import InvalidInput
from vmemo.memory.verbs import Verbs
from vmemo.models import Message, MessageId
from vmemo.models.requests import NewMessage, ReflectRequest, RetainRequest
from vmemo.models.results import Event, Retained
from vmemo.providers import count_tokens
from vmemo.transfer.files import is_export, read as read_export
from vmemo.transfer.foreign import ForeignFormat, read_foreign

_IDS = UUID("8d1f1c02-4a77-5b0e-9f13-5f7a0c2be6d4")
"""The namespace of the ids of messages that have none."""
UNTIMED_STEP = timedelta(minutes=1)
"""Time between messages of a file that states no times; the last one has the time of the file."""


@dataclass(frozen=True)
class Line:
    """A message of a transcript with its number (from 0) and its session."""

    number: int
    session: int
    message: NewMessage

    @property
    def id(self) -> str:
        return self.message.id or ""

    @property
    def time(self) -> datetime:
        assert self.message.timestamp is not None
        return self.message.timestamp

    @property
    def known_before(self) -> datetime:
        """The last time at which the bank did not know it."""
        assert self.message.recorded_at is not None
        return self.message.recorded_at - timedelta(microseconds=1)

    @property
    def is_turn(self) -> bool:
        """True for what a user says to the agent."""
        return self.message.author == "user"


@dataclass(frozen=True)
class Transcript:
    """Messages in the order of time, and remarks on how they were read."""

    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    @property
    def turns(self) -> list[Line]:
        return [line for line in self.lines if line.is_turn]


def read_transcript(paths: Sequence[Path], format: str | None = None, *, gap: timedelta) -> Transcript:
    """Return the messages of files, whose formats are detected unless one is given."""
    messages: list[NewMessage] = []
    notes: list[str] = []
    for path, place in zip(paths, _places(paths), strict=True):
        read, skipped = read_messages(path, format)
        timed, note = _with_times(read, _modified(path))
        messages += with_ids(timed, place)
        notes += [f"{path.name}: {note}"] if note else []
        notes += [f"{path.name}: {skipped:,} messages without text were skipped."] if skipped else []
    if repeated := len(messages) - len({message.id for message in messages}):
        notes.append(f"{repeated:,} messages were read once although their ids occur several times.")
    return in_order(messages, gap, notes)


def _places(paths: Sequence[Path]) -> list[str]:
    """Return the names of files, numbered if several have the same."""
    names = [path.name for path in paths]
    earlier = [names[:number].count(name) for number, name in enumerate(names)]
    return [f"{name}\n{count}" if count else name for name, count in zip(names, earlier, strict=True)]


def in_order(messages: Iterable[NewMessage], gap: timedelta, notes: Sequence[str] = ()) -> Transcript:
    """Return messages with ids and times as a transcript; a longer pause than `gap` begins another session."""
    known = {message.id: message for message in messages}
    ordered = sorted(known.values(), key=lambda message: cast("datetime", message.timestamp))
    times = [cast("datetime", message.timestamp) for message in ordered]
    session, lines = 0, list[Line]()
    recorded = datetime.min.replace(tzinfo=UTC)
    for number, message in enumerate(ordered):
        session += number > 0 and times[number] - times[number - 1] > gap
        # The bank knows a message since it was said, each later than the last: `known_at` separates them.
        recorded = max(times[number], recorded + timedelta(microseconds=1))
        lines.append(Line(number, session, message.model_copy(update={"recorded_at": recorded})))
    return Transcript(tuple(lines), tuple(notes))


def read_messages(path: Path, format: str | None = None) -> tuple[list[NewMessage], int]:
    """Return the messages of a file or folder as they are, and the number of those without text."""
    if format == "vmemo" or (format is None and path.is_file() and is_export(path)):
        records = read_export(path, counter=count_tokens).records
        return [new_message(record) for record in records if isinstance(record, Message)], 0
    if (added := next(iter(entry_points(group=IMPORTERS, name=format or "")), None)) is not None:
        collector = _Collector()
        collector.sync(added.load(), path)
        return collector.found, 0
    found = read_foreign(path, cast("ForeignFormat | None", format))
    messages = [*found.verbatim, *found.messages]
    if not messages:
        raise InvalidInput(f"{path} holds no messages, so there is nothing to replay. Pass a file of conversations.")
    return messages, len(found.skipped)


def new_message(message: Message) -> NewMessage:
    """Return a stored message as one to store."""
    return NewMessage.of({name: getattr(message, name) for name in _KEPT if getattr(message, name) is not None})


_KEPT = ("content", "role", "speaker", "timestamp", "document", "tags", "metadata", "id")


def with_ids(messages: Iterable[NewMessage], place: str) -> list[NewMessage]:
    """Return messages with ids: their own, or those of their number in this place, the same at each reading."""
    return [
        message if message.id else message.model_copy(update={"id": MessageId(str(uuid5(_IDS, f"{place}\n{number}")))})
        for number, message in enumerate(messages)
    ]


def with_times(messages: Sequence[NewMessage], last: datetime) -> list[NewMessage]:
    """Return messages with times: one without has that of the one before it; if none has any, `last` is the end."""
    return _with_times(messages, last)[0]


def _with_times(messages: Sequence[NewMessage], last: datetime) -> tuple[list[NewMessage], str]:
    untimed = sum(message.timestamp is None for message in messages)
    if not untimed:
        return list(messages), ""
    first = next((message.timestamp for message in messages if message.timestamp is not None), None)
    time = last - UNTIMED_STEP * len(messages) if first is None else first
    timed: list[NewMessage] = []
    for message in messages:
        time = message.timestamp or (time + UNTIMED_STEP if first is None else time)
        timed.append(message.model_copy(update={"timestamp": time}))
    return timed, f"{untimed:,} of {len(messages):,} messages state no time; they were placed by their order."


def _modified(path: Path) -> datetime:
    try:
        return datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}.") from error


class _Collector(Verbs):
    """A memory that only collects what an importer of another distribution retains."""

    def __init__(self) -> None:
        self.found: list[NewMessage] = []

    async def run(self, request: Any) -> Any:
        if not isinstance(request, RetainRequest):
            raise self._unsupported()
        self.found += request.texts
        return Retained()

    def sync(self, importer: Any, path: Path) -> None:
        """Run an importer, which is asynchronous, to its end."""
        asyncio.run(importer(self, path))

    def _unsupported(self) -> InvalidInput:
        return InvalidInput("This format can be imported and not be replayed: its importer does more than retain.")

    def stream(self, request: ReflectRequest) -> AsyncGenerator[Event]:
        raise self._unsupported()

    def bank(self, name: str) -> Self:
        raise self._unsupported()

    async def exists(self) -> bool:
        return True

    async def export(self, path: Path | str) -> Never:
        raise self._unsupported()

    async def import_bank(self, path: Path | str) -> Never:
        raise self._unsupported()

    async def open(self) -> None:
        """Do nothing: there is no database."""

    async def close(self) -> None:
        """Do nothing: there is no database."""
