"""A bank's records in the order of an export, and each of them as its line. The format is described in docs/export.md.

A record refers only to those before it, and its line is the same whatever store holds the bank.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from vmemo.lifecycle.paging import paged
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
from vmemo.models.base import Record
from vmemo.models.changes import MergeRecord, NewFact, RestoreRecord
from vmemo.models.results import Spending
from vmemo.models.search import ExpandRequest
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import Store

FORMAT = "vmemo-export"
VERSION = 1
PAGE = 500
ONE = 127.0
"""The signed byte that represents 1 in a token vector."""
Kind = Literal["profile", "message", "entity", "episode", "fact", "link", "move", "merge", "spending"]


def head(bank: Bank) -> str:
    """The first line."""
    return _line("bank", bank, {"format": FORMAT, "version": VERSION})


def line_of(record: RestoreRecord) -> str:
    """A record as its line."""
    kind = kind_of(record)
    return _fact_line(record) if isinstance(record, NewFact) else _line(kind, record)


def kind_of(record: RestoreRecord) -> Kind:
    """The name of a record's type in its line."""
    match record:
        case FormerProfile():
            return "profile"
        case Message():
            return "message"
        case Entity():
            return "entity"
        case Episode():
            return "episode"
        case NewFact():
            return "fact"
        case Link():
            return "link"
        case ConfidenceChange():
            return "move"
        case MergeRecord():
            return "merge"
        case Spending():
            return "spending"
        case _:
            assert_never(record)


def _line(kind: str, record: Record, more: Mapping[str, JsonValue] | None = None) -> str:
    values = record.model_dump(mode="json")
    return json.dumps({"record": kind, **(more or {}), **values}, ensure_ascii=False, sort_keys=True)


def _fact_line(item: NewFact) -> str:
    values = item.fact.model_dump(mode="json", exclude={"embedding", "bank"})
    values["embedding"] = _text(item.embedding.astype("<f2"))
    if item.tokens is not None:
        values["token_width"] = item.tokens.shape[1]
        values["token_vectors"] = _text(np.rint(item.tokens * ONE).astype(np.int8))
    return json.dumps({"record": "fact", **values}, ensure_ascii=False, sort_keys=True)


def _text(numbers: NDArray[Any]) -> str:
    return base64.b64encode(numbers.tobytes()).decode("ascii")


async def records(store: Store, bank: BankId) -> AsyncGenerator[RestoreRecord]:
    """A bank's former profiles, messages, entities, episodes, facts and links, then what became of opinions and
    entities, and what it cost. It is read page by page: who writes meanwhile is seen from some record on."""
    for former in await store.former_profiles(bank):
        yield former
    unread = _Unread(store, bank)
    async for message in paged(lambda after: store.messages(bank, MessageSelect(after=after, limit=PAGE))):
        yield unread.noted(message)
    async for entity in paged(lambda after: store.entities(bank, EntitySelect(after=after, limit=PAGE))):
        yield entity
    async for episode in paged(lambda after: store.episodes(bank, EpisodeSelect(after=after, limit=PAGE))):
        if (read := await unread.without(episode)) is not None:
            yield read
    order = _Order()
    async for item in _facts(store, bank):
        for told in order.told(item):
            yield told
    for told in order.rest():
        yield told
    for record in (
        *order.links(await store.links(bank)),
        *await store.confidence_changes(bank),
        *order.merges(await store.merges(bank)),
        *(await store.status(bank)).spending,
    ):
        yield record


@dataclass(frozen=True)
class _Unread:
    """Messages that were placed in an episode and not read: an import places and reads them anew."""

    store: Store
    bank: BankId
    placed: set[MessageId] = field(default_factory=set[MessageId])
    left_out: dict[EpisodeId, EpisodeId | None] = field(default_factory=dict[EpisodeId, EpisodeId | None])
    """Episodes of nothing else, with what came before them."""

    def noted(self, message: Message) -> Message:
        """The message as it is exported."""
        if message.state == "grouped":
            self.placed.add(message.id)
        return waiting(message)

    async def without(self, episode: Episode) -> Episode | None:
        """The episode of the messages that were read, or None if there are none."""
        previous = episode.previous
        while previous is not None and previous in self.left_out:
            previous = self.left_out[previous]
        read = tuple(id for id in episode.messages if id not in self.placed)
        if read == episode.messages:
            return episode.model_copy(update={"previous": previous})
        if not read:
            self.left_out[episode.id] = previous
            return None
        times = [message.timestamp for message in await self.store.messages(self.bank, MessageSelect(ids=read))]
        span = {"started_at": min(times), "ended_at": max(times)}
        return episode.model_copy(update={"previous": previous, "messages": read, **span})


def waiting(message: Message) -> Message:
    """The message without its place: work is not exported, so nothing would read one that waits in an episode."""
    return message.model_copy(update={"state": "pending"}) if message.state == "grouped" else message


@dataclass
class _Order:
    """The order of facts: as stored, but for those that rest on facts stored after them, which follow these.

    Opinions do so that were formed before all was derived anew.
    """

    places: dict[FactId, int] = field(default_factory=dict[FactId, int])
    held: dict[FactId, list[NewFact]] = field(default_factory=dict[FactId, list[NewFact]])
    """Facts by one that they wait for."""
    moved: bool = False

    def told(self, item: NewFact) -> list[NewFact]:
        """The facts that come next when this one is read."""
        found: list[NewFact] = []
        queue = [item]
        for next_one in queue:
            missing = next((id for id in next_one.fact.basis if id not in self.places), None)
            if missing is None:
                found.append(self._placed(next_one))
                queue += self.held.pop(next_one.fact.id, [])
            else:
                self.held.setdefault(missing, []).append(next_one)
                self.moved = True
        return found

    def rest(self) -> list[NewFact]:
        """Facts that rest on something which is not there."""
        return [self._placed(item) for held in self.held.values() for item in held]

    def links(self, found: Sequence[Link]) -> Sequence[Link]:
        """Links in the order of their facts."""

        def place(link: Link) -> tuple[int, int]:
            return self._place(link.source), self._place(link.target)

        return sorted(found, key=place) if self.moved else found

    def merges(self, found: Sequence[MergeRecord]) -> Sequence[MergeRecord]:
        """Merges with their mentions in the order of facts."""
        return [self._sorted(merge) for merge in found] if self.moved else found

    def _sorted(self, merge: MergeRecord) -> MergeRecord:
        mentions = tuple(sorted(merge.mentions, key=lambda mention: self._place(mention.fact)))
        return merge.model_copy(update={"mentions": mentions})

    def _placed(self, item: NewFact) -> NewFact:
        self.places[item.fact.id] = len(self.places)
        if not self.moved or len(item.fact.basis) < 2:
            return item
        basis = tuple(sorted(item.fact.basis, key=self._place))
        return NewFact(fact=item.fact.model_copy(update={"basis": basis}), embedding=item.embedding, tokens=item.tokens)

    def _place(self, fact: FactId) -> int:
        return self.places.get(fact, len(self.places))


async def _facts(store: Store, bank: BankId) -> AsyncIterator[NewFact]:
    """Facts with all their vectors, page by page."""
    after: FactId | None = None
    while page := await store.facts(bank, FactSelect(after=after, limit=PAGE, with_embeddings=True)):
        expansion = await store.expand(ExpandRequest(bank=bank, token_vectors=[fact.id for fact in page]))
        for fact, vectors in zip(page, expansion.token_vectors, strict=True):
            yield NewFact(fact=fact, embedding=np.array(fact.embedding or (), np.float32), tokens=vectors)
        after = page[-1].id
