"""The records of an export in their order, and the line of each. The format is described in docs/export.md.

A record refers only to earlier ones, and its line does not depend on the store.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
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
from vmemo.ports import Store, fact_tokens, paged

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


_LATER_FIELDS = ("claims", "instruction", "pinned", "reason", "expires_at")
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
    for record in (
        *await store.confidence_changes(bank),
        *(_with_sorted_mentions(merge, places) for merge in await store.merges(bank)),
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


def _with_sorted_mentions(merge: MergeRecord, places: Mapping[FactId, int]) -> MergeRecord:
    mentions = sorted(merge.mentions, key=lambda mention: places.get(mention.fact, len(places)))
    return merge.model_copy(update={"mentions": tuple(mentions)})
