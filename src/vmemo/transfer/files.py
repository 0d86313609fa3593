"""Export and import: a bank as JSON Lines. The format is described in docs/export.md.

In a file that is imported, ids are unique and a record refers only to earlier ones.
"""

from __future__ import annotations

import base64
import os
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from pydantic_core import from_json

from vmemo.errors import InvalidInput, StoreBusy
from vmemo.models import Bank, BankId, ConfidenceChange, Entity, EntityId, Episode, Fact, Link, Message
from vmemo.models.changes import MergeRecord, NewFact, RestoreRecord
from vmemo.models.records import Record, line_key
from vmemo.models.results import Spending
from vmemo.models.search import TokenVectors
from vmemo.ports import BankNotFound, Store, TokenCounter
from vmemo.transfer.export_format import (
    FORMAT,
    ONE,
    RECORD_TYPES,
    VERSION,
    PlainRecord,
    head,
    line_of,
    records,
    ungrouped,
)

TRIES = 5
"""Times that a bank is read until it does not change meanwhile."""
MAX_EQUAL_LINES = 32
"""Equal lines of one request whose keys are recognised."""
HEAD_BYTES = 4096
"""Bytes in which an export names its format: keys are sorted, and only the dimension and times come before it."""
MAX_LENGTH = 1.01
"""Length up to which a vector counts as one of length 1 that was rounded."""
_RECORD_TYPES: Mapping[str, type[PlainRecord]] = {**RECORD_TYPES}


async def export(store: Store, bank: BankId, path: Path) -> int:
    """Write a bank to a file, which appears whole or not at all and is its owner's alone; return the number of lines.

    A bank is read page by page. If its memories change meanwhile, it is read again.
    """
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
        raise InvalidInput(f"{path}: line {number} is not JSON in UTF-8. Nothing was imported.") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{path}: line {number} is not an object. Nothing was imported.")
    return value


def _records(numbered: Iterator[tuple[int, dict[str, JsonValue]]], bank: Bank, path: Path) -> Iterator[RestoreRecord]:
    references = References()
    for number, values in numbered:
        record = _record(values, bank, path, number)
        if problem := references.problem(record, number):
            raise InvalidInput(f"{path}: line {number} {problem}. Nothing was imported.")
        yield _verified(record) if type(record) is Message else record
    for number, entity in references.missing_entities():
        raise InvalidInput(
            f"{path}: line {number} refers to entity {entity!r}, which no line holds. Nothing was imported."
        )


def _verified(message: Message) -> Message:
    """Return the message as pending if it is grouped, and with a key only if that is a key of its own line.

    With a key of another line, that line could never be retained.
    """
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
    raise InvalidInput(f"{path}: line {number} is of no known record {kind!r}. Nothing was imported.")


def _fact(values: dict[str, JsonValue], bank: Bank, path: Path, number: int) -> NewFact:
    vector = _vector(values.pop("embedding", ""), bank.dimension)
    if vector is None:
        raise InvalidInput(
            f"{path}: line {number} has no embedding of dimension {bank.dimension}. Nothing was imported."
        )
    width, packed = values.pop("token_width", None), values.pop("token_vectors", None)
    tokens = _tokens(packed, width)
    if tokens is None and not (width is None and packed is None):
        raise InvalidInput(f"{path}: line {number} has token vectors that can't be read. Nothing was imported.")
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
        if isinstance(record, Link) and self._adds(record):
            return None
        for what, needed in _needed(record):
            known = self.known[what]
            if not known.issuperset(needed):
                missing = next(id for id in needed if id not in known)
                return f"refers to {what} {missing!r}, which no line before it holds"
        own = _own(record)
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

    def _adds(self, link: Link) -> bool:
        """Add a link without a problem, the record of most lines; return False for any other."""
        facts, links = self.known["fact"], self.known["link"]
        before = len(links)
        if link.source in facts and link.target in facts:
            links.add((link.kind, link.source, link.target))
        return len(links) > before

    def missing_entities(self) -> list[tuple[int, EntityId]]:
        """Return the merges, by line, whose entity is neither in the file nor absorbed by another merge."""
        found = self.absorbed | (self.known["entity"] & self.merged_into.keys())
        return [(number, id) for id, number in self.merged_into.items() if id not in found]


Own = list[tuple[str, str | tuple[str | None, ...]]]


def _own(record: RestoreRecord) -> Own:
    """Return the ids of a record; the first one names it."""
    match record:
        case Link():
            return [("link", (record.kind, record.source, record.target))]
        case NewFact():
            return [("fact", record.fact.id)]
        case Message():
            line: Own = [("line", (record.document, record.key))] if record.key is not None else []
            return [("message", record.id), *line]
        case Entity():
            return [("entity", record.id)]
        case Episode():
            return [("episode", record.id)]
        case MergeRecord():
            return [("merge", record.id)]
        case Spending():
            return [("spending", (record.step, record.model))]
        case _:
            return []


def _needed(record: RestoreRecord) -> Iterator[tuple[str, Collection[str]]]:
    """Yield the ids that a record refers to."""
    match record:
        case Link():
            yield "fact", (record.source, record.target)
        case NewFact():
            fact = record.fact
            yield "message", fact.messages
            if fact.context_from is not None:
                yield "message", (fact.context_from,)
            yield "episode", fact.episodes
            yield "entity", [mention.id for mention in fact.entities]
            yield "fact", fact.basis
        case Episode():
            yield "message", record.messages
        case ConfidenceChange():
            # The facts that changed an opinion's confidence may have been forgotten.
            yield "fact", (record.opinion,)
        case MergeRecord():
            yield "fact", [mention.fact for mention in record.mentions]
        case _:
            pass
