"""The records of an export in their order, and the line of each. The format is described in docs/export.md.

A record refers only to earlier ones, and its line does not depend on the store.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from vmemo.models import (
    Bank,
    BankId,
    ConfidenceChange,
    Entity,
    Episode,
    EpisodeId,
    FactId,
    FormerProfile,
    Link,
    Message,
    MessageId,
)
from vmemo.models.changes import MergeRecord, NewFact, RestoreRecord
from vmemo.models.records import Record
from vmemo.models.results import Spending
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo.ports.store import paged

FORMAT = "vmemo-export"
VERSION = 1
PAGE = 500
ONE = 127.0
"""The signed byte that represents 1 in a token vector."""
Kind = Literal["profile", "message", "entity", "episode", "fact", "link", "confidence_change", "merge", "spending"]


PlainRecord = FormerProfile | Message | Entity | Episode | Link | ConfidenceChange | MergeRecord | Spending
RECORD_TYPES: Mapping[Kind, type[PlainRecord]] = {
    "profile": FormerProfile,
    "message": Message,
    "entity": Entity,
    "episode": Episode,
    "link": Link,
    "confidence_change": ConfidenceChange,
    "merge": MergeRecord,
    "spending": Spending,
}
"""All records but facts, which also have vectors."""
_KINDS: Mapping[type[PlainRecord], Kind] = {type: kind for kind, type in RECORD_TYPES.items()}


def kind_of(record: RestoreRecord) -> Kind:
    """Return the name of a record's type in its line."""
    return "fact" if isinstance(record, NewFact) else _KINDS[type(record)]


def head(bank: Bank) -> str:
    return _line("bank", bank, {"format": FORMAT, "version": VERSION})


def line_of(record: RestoreRecord) -> str:
    return _fact_line(record) if isinstance(record, NewFact) else _line(kind_of(record), record)


_LATER_FIELDS = ("instruction", "pinned", "reason", "expires_at")
"""Fields that most facts do not have; without a value they are left out."""


def _line(kind: str, record: Record, more: Mapping[str, JsonValue] | None = None) -> str:
    values = record.model_dump(mode="json")
    if isinstance(record, Message):
        values = _without_unused(values)
    return json.dumps({"record": kind, **(more or {}), **values}, ensure_ascii=False, sort_keys=True)


def _fact_line(item: NewFact) -> str:
    values = _without_unused(item.fact.model_dump(mode="json", exclude={"embedding", "bank"}))
    values["embedding"] = _text(item.embedding.astype("<f2"))
    if item.tokens is not None:
        values["token_width"] = item.tokens.shape[1]
        values["token_vectors"] = _text(np.rint(item.tokens * ONE).astype(np.int8))
    return json.dumps({"record": "fact", **values}, ensure_ascii=False, sort_keys=True)


def _without_unused(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value or name not in _LATER_FIELDS}


def _text(numbers: NDArray[Any]) -> str:
    return base64.b64encode(numbers.tobytes()).decode("ascii")


async def records(store: Store, bank: BankId) -> AsyncGenerator[RestoreRecord]:
    """Yield a bank's records in the order of an export.

    The bank is read page by page. A caller that needs one state compares the revisions before and after.
    """
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
    order = _FactOrder()
    async for fact in _ordered_facts(store, bank, order):
        yield fact
    for page in order.pages():
        for link in order.links(await store.links(bank, page)):
            yield link
    for record in (
        *await store.confidence_changes(bank),
        *order.merges(await store.merges(bank)),
        *(await store.status(bank)).spending,
    ):
        yield record


@dataclass(frozen=True)
class _PendingMessages:
    """Messages that are in an episode but not processed: an import groups and processes them again."""

    store: Store
    bank: BankId
    grouped: set[MessageId] = field(default_factory=set[MessageId])
    omitted: dict[EpisodeId, EpisodeId | None] = field(default_factory=dict[EpisodeId, EpisodeId | None])
    """Episodes of pending messages only, with the episode before each."""

    def add(self, message: Message) -> Message:
        """Return the message as it is exported."""
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


@dataclass
class _FactOrder:
    """The order of facts: as stored, except that a fact follows all facts of its basis.

    After a reprocess, opinions formed before it are stored before the facts that they are based on.
    """

    places: dict[FactId, int] = field(default_factory=dict[FactId, int])
    waiting: dict[FactId, list[NewFact]] = field(default_factory=dict[FactId, list[NewFact]])
    """Facts by the fact of their basis that they wait for."""
    changed: bool = False

    def add(self, item: NewFact) -> list[NewFact]:
        """Return the facts that come next after this one was read."""
        found: list[NewFact] = []
        queue = [item]
        for next_one in queue:
            missing = next((id for id in next_one.fact.basis if id not in self.places), None)
            if missing is None:
                found.append(self._placed(next_one))
                queue += self.waiting.pop(next_one.fact.id, [])
            else:
                self.waiting.setdefault(missing, []).append(next_one)
                self.changed = True
        return found

    def incomplete(self) -> list[NewFact]:
        """Return the facts whose basis is not in the bank."""
        return [self._placed(item) for items in self.waiting.values() for item in items]

    def pages(self) -> Iterator[list[FactId]]:
        """Yield the facts in order, some at a time."""
        ids = iter(self.places)
        while page := list(islice(ids, PAGE)):
            yield page

    def links(self, found: Sequence[Link]) -> Sequence[Link]:
        """Return the links of a page in the order of their facts."""
        if not self.changed:
            return found
        return sorted(found, key=lambda link: (self._place(link.source), self._place(link.target)))

    def merges(self, found: Sequence[MergeRecord]) -> Sequence[MergeRecord]:
        """Return the merges, with their mentions in the order of facts."""
        return [self._sorted(merge) for merge in found] if self.changed else found

    def _sorted(self, merge: MergeRecord) -> MergeRecord:
        mentions = tuple(sorted(merge.mentions, key=lambda mention: self._place(mention.fact)))
        return merge.model_copy(update={"mentions": mentions})

    def _placed(self, item: NewFact) -> NewFact:
        self.places[item.fact.id] = len(self.places)
        if not self.changed or len(item.fact.basis) < 2:
            return item
        basis = tuple(sorted(item.fact.basis, key=self._place))
        return replace(item, fact=item.fact.model_copy(update={"basis": basis}))

    def _place(self, fact: FactId) -> int:
        return self.places.get(fact, len(self.places))


async def _ordered_facts(store: Store, bank: BankId, order: _FactOrder) -> AsyncIterator[NewFact]:
    async for item in _facts(store, bank):
        for fact in order.add(item):
            yield fact
    for fact in order.incomplete():
        yield fact


async def _facts(store: Store, bank: BankId) -> AsyncIterator[NewFact]:
    """Yield the facts with all their vectors, page by page."""
    after: FactId | None = None
    while page := await store.facts(bank, FactSelect(after=after, limit=PAGE, with_embeddings=True)):
        ids = [fact.id for fact in page]
        tokens = await store.read(bank, lambda reader, ids=ids: reader.token_vectors(ids))
        for fact, vectors in zip(page, tokens, strict=True):
            yield NewFact(fact=fact, embedding=np.array(fact.embedding or (), np.float32), tokens=vectors)
        after = page[-1].id
