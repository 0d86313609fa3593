"""Export and import: a bank as JSON Lines. The format is described in docs/export.md.

In a file ids are unique, a record refers only to earlier ones, and its line does not depend on the store.
"""

from __future__ import annotations

import base64
import json
import os
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from pydantic_core import from_json

from vmemo.errors import InvalidInput, StoreBusy
from vmemo.models import Bank, BankId, ConfidenceChange, Entity, EntityId, Episode, EpisodeId, Fact, FactId, Link
from vmemo.models.changes import MergeRecord, NewFact, RestoreRecord
from vmemo.models.records import FormerProfile, Message, MessageId, Record, line_key
from vmemo.models.results import Spending
from vmemo.models.search import TokenVectors
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import BankNotFound, Store, TokenCounter, fact_tokens, paged

FORMAT = "vmemo-export"
VERSION = 1
PAGE = 500
ONE = 127.0
"""The signed byte that represents 1 in a token vector."""
Kind = Literal["profile", "message", "entity", "episode", "fact", "link", "confidence_change", "merge", "spending"]

PlainRecord = FormerProfile | Message | Entity | Episode | Link | ConfidenceChange | MergeRecord | Spending
_KINDS: Mapping[type[PlainRecord], Kind] = {
    FormerProfile: "profile",
    Message: "message",
    Entity: "entity",
    Episode: "episode",
    Link: "link",
    ConfidenceChange: "confidence_change",
    MergeRecord: "merge",
    Spending: "spending",
}
_RECORD_TYPES: Mapping[str, type[PlainRecord]] = {kind: type for type, kind in _KINDS.items()}


def kind_of(record: RestoreRecord) -> Kind:
    """Return the name of a record's type in its line."""
    return "fact" if isinstance(record, NewFact) else _KINDS[type(record)]


def head(bank: Bank) -> str:
    return _line("bank", {"format": FORMAT, "version": VERSION, **bank.model_dump(mode="json")})


_LATER_FIELDS = ("claims", "instruction", "pinned", "reason", "expires_at")
"""Fields that most facts do not have; without a value they are left out."""


def line_of(record: RestoreRecord) -> str:
    if not isinstance(record, NewFact):
        values = record.model_dump(mode="json")
        return _line(kind_of(record), _without_unused(values) if isinstance(record, Message) else values)
    values = _without_unused(record.fact.model_dump(mode="json", exclude={"embedding", "bank"}))
    values["embedding"] = _text(record.embedding.astype("<f2"))
    if record.tokens is not None:
        values["token_width"] = record.tokens.shape[1]
        values["token_vectors"] = _text(np.rint(record.tokens * ONE).astype(np.int8))
    return _line("fact", values)


def _line(kind: str, values: Mapping[str, Any]) -> str:
    return json.dumps({"record": kind, **values}, ensure_ascii=False, sort_keys=True)


def _without_unused(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value or name not in _LATER_FIELDS}


def _text(numbers: NDArray[Any]) -> str:
    return base64.b64encode(numbers.tobytes()).decode("ascii")


async def records(store: Store, bank: BankId) -> AsyncGenerator[RestoreRecord]:
    """Yield a bank's records in the order of an export; its revision before and after shows if it changed meanwhile."""
    for former in await store.former_profiles(bank):
        yield former
    pending = _PendingMessages(store, bank)
    async for message in paged(lambda after: store.messages(bank, MessageSelect(after=after, limit=PAGE))):
        yield pending.add(message)
    async for entity in paged(lambda after: store.entities(bank, EntitySelect(after=after, limit=PAGE))):
        yield entity
    async for episode in paged(lambda after: store.episodes(bank, EpisodeSelect(after=after, limit=PAGE))):
        if (processed := await pending.removed_from(episode)) is not None:
            yield processed
    async for record in _facts_and_later(store, bank):
        yield record


async def _facts_and_later(store: Store, bank: BankId) -> AsyncGenerator[RestoreRecord]:
    places = {id: place for place, id in enumerate(await _ordered(store, bank))}
    for page in _pages(places):
        async for fact in _facts(store, bank, page, places):
            yield fact
    for page in _pages(places):
        for link in sorted(await store.links(bank, page), key=lambda link: (places[link.source], places[link.target])):
            yield link
    for change in await store.confidence_changes(bank):
        yield change
    for merge in await store.merges(bank):
        mentions = sorted(merge.mentions, key=lambda mention: places.get(mention.fact, len(places)))
        yield merge.model_copy(update={"mentions": tuple(mentions)})
    for spent in (await store.status(bank)).spending:
        yield spent


@dataclass(frozen=True)
class _PendingMessages:
    """Messages that are in an episode but not processed: an import groups and processes them again."""

    store: Store
    bank: BankId
    grouped: set[MessageId] = field(default_factory=set[MessageId])
    omitted: dict[EpisodeId, EpisodeId | None] = field(default_factory=dict[EpisodeId, EpisodeId | None])
    """Episodes of pending messages only, with the episode before each."""

    def add(self, message: Message) -> Message:
        if message.state == "grouped":
            self.grouped.add(message.id)
        return ungrouped(message)

    async def removed_from(self, episode: Episode) -> Episode | None:
        """Return the episode without pending messages, or None if it has no others."""
        previous = episode.previous
        while previous is not None and previous in self.omitted:
            previous = self.omitted[previous]
        processed = tuple(id for id in episode.messages if id not in self.grouped)
        if processed == episode.messages:
            return episode.model_copy(update={"previous": previous})
        if not processed:
            self.omitted[episode.id] = previous
            return None
        times = [message.timestamp for message in await self.store.messages(self.bank, MessageSelect(ids=processed))]
        span = {"started_at": min(times), "ended_at": max(times)}
        return episode.model_copy(update={"previous": previous, "messages": processed, **span})


def ungrouped(message: Message) -> Message:
    """Return the message as pending if it is grouped: jobs are not exported, so none would process its episode."""
    return message.model_copy(update={"state": "pending"}) if message.state == "grouped" else message


async def _ordered(store: Store, bank: BankId) -> list[FactId]:
    """Return the facts of a bank so that those that rest on others follow these, otherwise as they were stored."""
    stored = paged(lambda after: store.facts(bank, FactSelect(after=after, limit=PAGE)))
    basis = {fact.id: fact.basis async for fact in stored}
    return [id for id in TopologicalSorter(basis).static_order() if id in basis]


def _pages(facts: Iterable[FactId]) -> Iterator[list[FactId]]:
    ids = iter(facts)
    while page := list(islice(ids, PAGE)):
        yield page


async def _facts(
    store: Store, bank: BankId, page: Sequence[FactId], places: Mapping[FactId, int]
) -> AsyncIterator[NewFact]:
    """Yield facts with all their vectors, and with their basis in the order of the export."""
    tokens = await store.read(bank, lambda reader: fact_tokens(reader, page))
    for fact, vectors in zip(await store.facts(bank, FactSelect(ids=page, with_embeddings=True)), tokens, strict=True):
        basis = tuple(sorted(fact.basis, key=lambda id: places.get(id, len(places))))
        vector = np.array(fact.embedding or (), np.float32)
        yield NewFact(fact=fact.model_copy(update={"basis": basis}), embedding=vector, tokens=vectors)


# Files.
TRIES = 5
"""Times that a bank is read until it does not change meanwhile."""
MAX_EQUAL_LINES = 32
"""Equal lines of one request whose keys are recognised."""
HEAD_BYTES = 4096
"""Bytes in which an export names its format: keys are sorted, and only the dimension and times come before it."""
MAX_LENGTH = 1.01
"""Length up to which a vector counts as one of length 1 that was rounded."""


async def export(store: Store, bank: BankId, path: Path) -> int:
    """Write a bank to a file, whole or not at all, that is its owner's alone; return the number of lines."""
    with partial_file(path) as partial:
        for _ in range(TRIES):
            revision = await store.revision(bank)
            count = await write_private(partial, (line.encode() + b"\n" async for line in lines(store, bank)))
            if await store.revision(bank) == revision:
                partial.replace(path)
                return count
    raise StoreBusy(
        f"Bank {bank!r} changed during each of {TRIES} attempts. Nothing was exported; export again while no process "
        "derives facts in it."
    )


@contextmanager
def partial_file(path: Path) -> Generator[Path]:
    """Yield the path of a file to write in place of another and to rename at the end; otherwise it is deleted."""
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
    except OSError as error:
        raise InvalidInput(f"{path} can't be written: {error.strerror}. Nothing was exported.") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _created(path: Path) -> BinaryIO:
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


async def write_private(path: Path, chunks: AsyncIterable[bytes]) -> int:
    """Write a file that only its owner may read, in place of one that is there; return the number of its lines."""
    count = 0
    with _created(path) as file:
        async for chunk in chunks:
            file.write(chunk)
            count += chunk.count(b"\n")
        file.flush()
        os.fsync(file.fileno())
    return count


async def lines(store: Store, bank: BankId) -> AsyncIterator[str]:
    stored = await store.bank(bank)
    if stored is None:
        raise BankNotFound(bank)
    yield head(stored)
    async for record in records(store, bank):
        yield line_of(record)


@dataclass(frozen=True)
class Import:
    """An opened export: its bank, and its records as they are read."""

    bank: Bank
    records: Iterator[RestoreRecord]


def read(path: Path, name: BankId | None = None, *, counter: TokenCounter) -> Import:
    """Open an export, with another name for its bank if given. Records are validated as they are read.

    Values that follow from others are not believed: tokens and vector lengths of facts, and keys of messages.
    """
    numbered = _objects(path)
    number, first = next(numbered, (1, dict[str, JsonValue]()))
    if first.get("format") != FORMAT or first.get("version") != VERSION:
        raise InvalidInput(f"{path}: line {number} is not the head of a {FORMAT} version {VERSION} file.")
    bank = _checked(Bank, first, path, number)
    renamed = bank if name is None else bank.model_copy(update={"id": name})
    return Import(renamed, (_counted(record, counter) for record in _records(numbered, renamed, path)))


def is_export(path: Path) -> bool:
    """Return True unless a file begins as no export does; an unreadable or empty one is for `read` to refuse."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return True
    return not head.strip() or FORMAT.encode() in head


def _counted(record: RestoreRecord, counter: TokenCounter) -> RestoreRecord:
    if not isinstance(record, NewFact) or (tokens := counter(record.fact.text)) == record.fact.tokens:
        return record
    return replace(record, fact=record.fact.model_copy(update={"tokens": tokens}))


def _objects(path: Path) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, _object(line, path, number)
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}. Nothing was imported.") from error


def _object(line: bytes, path: Path, number: int) -> dict[str, JsonValue]:
    try:
        # This parser also refuses escaped halves of surrogate pairs, which no database accepts.
        value: JsonValue = from_json(line)
    except ValueError as error:
        raise _refused(path, number, "is not JSON in UTF-8") from error
    if not isinstance(value, dict):
        raise _refused(path, number, "is not an object")
    return value


def _refused(path: Path, number: int, problem: str) -> InvalidInput:
    return InvalidInput(f"{path}: line {number} {problem}. Nothing was imported.")


def _records(numbered: Iterator[tuple[int, dict[str, JsonValue]]], bank: Bank, path: Path) -> Iterator[RestoreRecord]:
    references = References()
    for number, values in numbered:
        record = _record(values, bank, path, number)
        if problem := references.problem(record, number):
            raise _refused(path, number, problem)
        yield _verified(record) if type(record) is Message else record
    for number, entity in references.missing_entities():
        raise _refused(path, number, f"refers to entity {entity!r}, which no line holds")


def _verified(message: Message) -> Message:
    """Return the message as pending if it is grouped, and with its key only if that is one of its own line."""
    own = message.document is not None and any(
        message.key == line_key(message.role, message.speaker, message.content, time=time, number=number)
        for number in range(1, MAX_EQUAL_LINES + 1)
        for time in (None, message.timestamp)
    )
    return ungrouped(message if own else message.model_copy(update={"key": None}))


def _record(values: dict[str, JsonValue], bank: Bank, path: Path, number: int) -> RestoreRecord:
    kind = values.get("record")
    if kind == "fact":
        return _fact(values, bank, path, number)
    # A value that is not text may have no hash.
    if isinstance(kind, str) and (known := _RECORD_TYPES.get(kind)) is not None:
        return _checked(known, values, path, number)
    raise _refused(path, number, f"is of no known record {kind!r}")


def _fact(values: dict[str, JsonValue], bank: Bank, path: Path, number: int) -> NewFact:
    vector = _vector(values.pop("embedding", ""), bank.dimension)
    if vector is None:
        raise _refused(path, number, f"has no embedding of dimension {bank.dimension}")
    width, packed = values.pop("token_width", None), values.pop("token_vectors", None)
    tokens = _tokens(packed, width)
    if tokens is None and not (width is None and packed is None):
        raise _refused(path, number, "has token vectors that can't be read")
    values["bank"] = bank.id
    fact = _checked(Fact, values, path, number)
    return NewFact(fact=fact, embedding=vector, tokens=tokens)


def _tokens(packed: JsonValue, width: JsonValue) -> TokenVectors | None:
    """Return the rows of token vectors; None if these are not at least one whole row of numbers from -1 to 1."""
    if not isinstance(packed, str) or isinstance(width, bool) or not isinstance(width, int) or width < 1:
        return None
    try:
        raw = base64.b64decode(packed, validate=True)
    except ValueError:
        return None
    numbers = np.frombuffer(raw, np.int8)
    if not raw or len(raw) % width or numbers.min() < -ONE:
        return None
    return (numbers.astype(np.float32) / ONE).reshape(-1, width)


def _vector(packed: JsonValue, dimension: int) -> NDArray[np.float32] | None:
    try:
        raw = base64.b64decode(packed, validate=True) if isinstance(packed, str) else b""
    except ValueError:
        return None
    vector = np.frombuffer(raw, "<f2").astype(np.float32) if len(raw) == 2 * dimension else None
    if vector is None or not np.isfinite(vector).all():
        return None
    length = float(np.linalg.norm(vector))
    # Embeddings have length 1, give or take rounding; a longer vector would rank before all others.
    return vector / np.float32(length) if length > MAX_LENGTH else vector


Checked = TypeVar("Checked", bound=Record)


def _checked(kind: type[Checked], values: dict[str, JsonValue], path: Path, number: int) -> Checked:
    for key in ("record", "format", "version"):
        values.pop(key, None)
    try:
        return kind.of(values)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: line {number}: {error} Nothing was imported.") from error


@dataclass
class References:
    """The ids of the records read so far, by what they name."""

    known: defaultdict[str, set[object]] = field(default_factory=lambda: defaultdict(set))
    absorbed: set[EntityId] = field(default_factory=set[EntityId])
    merged_into: dict[EntityId, int] = field(default_factory=dict[EntityId, int])
    """Entities that merges joined something to, with the line; a later merge may have absorbed one of them."""

    def problem(self, record: RestoreRecord, number: int) -> str | None:
        """Return the problem of the record in this line; a valid record becomes known."""
        own, needed = _ids(record)
        for what, ids in needed:
            missing = next((id for id in ids if id not in self.known[what]), None)
            if missing is not None:
                return f"refers to {what} {missing!r}, which no line before it holds"
        for what, id in own:
            if id in self.known[what]:
                named, first = own[0]
                return f"repeats {named} {(first[0] if isinstance(first, tuple) else first)!r}"
            if isinstance(id, str) and not id.strip():
                return f"is a {what} without an id"
        for what, id in own:
            self.known[what].add(id)
        if isinstance(record, MergeRecord):
            self.merged_into.setdefault(record.entity, number)
            self.absorbed.update([] if record.absorbed is None else [record.absorbed])
        return None

    def missing_entities(self) -> list[tuple[int, EntityId]]:
        """Return the merges, by line, whose entity is neither in the file nor absorbed by another merge."""
        found = self.absorbed | (self.known["entity"] & self.merged_into.keys())
        return [(number, id) for id, number in self.merged_into.items() if id not in found]


Own = list[tuple[str, str | tuple[str | None, ...]]]
Needed = list[tuple[str, Collection[str]]]


def _ids(record: RestoreRecord) -> tuple[Own, Needed]:
    """Return the ids of a record, the first of which names it, and those of the records that it refers to."""
    match record:
        case Link():
            ends = record.source, record.target
            return [("link", (record.kind, *ends))], [("fact", ends)]
        case NewFact():
            fact = record.fact
            context = [] if fact.context_from is None else [fact.context_from]
            mentioned = [mention.id for mention in fact.entities]
            sources: Needed = [("message", [*fact.messages, *context]), ("episode", fact.episodes)]
            return [("fact", fact.id)], [*sources, ("entity", mentioned), ("fact", fact.basis)]
        case Message():
            line: Own = [("line", (record.document, record.key))] if record.key is not None else []
            return [("message", record.id), *line], []
        case Entity():
            return [("entity", record.id)], []
        case Episode():
            return [("episode", record.id)], [("message", record.messages)]
        case ConfidenceChange():
            # The facts that changed an opinion's confidence may have been forgotten.
            return [], [("fact", (record.opinion,))]
        case MergeRecord():
            return [("merge", record.id)], [("fact", [mention.fact for mention in record.mentions])]
        case Spending():
            return [("spending", (record.step, record.model))], []
        case FormerProfile():
            return [], []
