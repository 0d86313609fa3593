"""The episodes that new messages may extend, and a cache of them: most messages extend the same one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from vmemo.models import BankId, BankRevision, Episode, Fact, FactId, Message
from vmemo.models.changes import Changes
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import Reads
from vmemo.retain.segment import MessageVector

MOST_EPISODES = 64
"""Episodes that are cached, each with the vectors of its messages."""


@dataclass(frozen=True)
class OpenEpisode:
    """The episode of the previous message, which new messages may extend."""

    episode: Episode
    messages: tuple[Message, ...] = ()
    lines: tuple[MessageVector, ...] = ()

    def extended(self, facts: Sequence[Fact], messages: Sequence[Message]) -> OpenEpisode:
        """Return the episode with further facts, each of which represents its first message."""
        by_id = {message.id: message for message in messages}
        found, lines = list(self.messages), list(self.lines)
        seen = {message.id for message in found}
        for fact in facts:
            # A fact that is stated repeatedly belongs to several episodes.
            message = next((by_id[id] for id in fact.messages if id in by_id), None)
            if message is not None and fact.embedding is not None and message.id not in seen:
                seen.add(message.id)
                found.append(message)
                lines.append(MessageVector(message.timestamp, np.array(fact.embedding, np.float32)))
        return OpenEpisode(self.episode, tuple(found), tuple(lines))


@dataclass(frozen=True)
class _Cached:
    """An episode as it was read, and what commits have added to it since."""

    revision: BankRevision
    known: OpenEpisode
    facts: tuple[FactId, ...] = ()
    messages: tuple[Message, ...] = ()


class OpenEpisodes:
    """The last episode of each document, valid for one revision of its bank.

    Vectors are always read, because a store rounds them: an episode must not depend on the cache.
    """

    def __init__(self, store: Reads) -> None:
        self._store = store
        self._lock = Lock()
        self._cached: OrderedDict[tuple[BankId, str | None], _Cached] = OrderedDict()

    async def of(self, bank: BankId, revision: BankRevision, message: Message) -> OpenEpisode | None:
        """Return the episode of a message, or None if it is in none."""
        cached = self._cached.get((bank, message.document))
        if cached is None or cached.revision != revision or message.id not in cached.known.episode.messages:
            found = await self._read(bank, message)
        elif cached.facts:
            facts = await self._store.facts(bank, FactSelect(ids=cached.facts, with_embeddings=True))
            found = cached.known.extended(facts, cached.messages)
        else:
            found = cached.known
        if found is not None:
            self._keep(bank, message.document, _Cached(revision, found))
        return found

    async def _read(self, bank: BankId, message: Message) -> OpenEpisode | None:
        episode = first_of(await self._store.episodes(bank, EpisodeSelect(messages=[message.id])))
        if episode is None:
            return None
        messages = await self._store.messages(bank, MessageSelect(ids=episode.messages))
        facts = await self._store.facts(bank, FactSelect(episode=episode.id, with_embeddings=True))
        return OpenEpisode(episode).extended(facts, messages)

    def committed(self, revision: BankRevision, changes: Changes, messages: Sequence[Message]) -> None:
        """Note what a batch of messages has changed, which was the only change after this revision."""
        for document, last in {message.document: message for message in messages}.items():
            episode = next((each for each in changes.episodes if last.id in each.messages), None)
            cached = self._cached.get((changes.bank, document))
            base = _base(cached, revision, episode, messages)
            if episode is None or base is None or any(episode.id in each.episodes for each in changes.sources):
                with self._lock:
                    self._cached.pop((changes.bank, document), None)
            else:
                facts = tuple(item.fact.id for item in changes.facts if episode.id in item.fact.episodes)
                known, own = OpenEpisode(episode, base.messages, base.lines), set(episode.messages)
                new = tuple(message for message in messages if message.id in own)
                self._keep(changes.bank, document, _Cached(revision.next(), known, facts, new))

    def _keep(self, bank: BankId, document: str | None, cached: _Cached) -> None:
        with self._lock:
            self._cached[bank, document] = cached
            self._cached.move_to_end((bank, document))
            while len(self._cached) > MOST_EPISODES:
                self._cached.popitem(last=False)


def _base(
    cached: _Cached | None, revision: BankRevision, episode: Episode | None, messages: Sequence[Message]
) -> OpenEpisode | None:
    """Return what is known of an episode without a batch of messages; None if that would have to be read."""
    if episode is None:
        return None
    if {message.id for message in messages}.issuperset(episode.messages):
        return OpenEpisode(episode)
    if cached is None or cached.revision != revision or cached.facts or cached.known.episode.id != episode.id:
        return None
    return cached.known
