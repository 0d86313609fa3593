"""Placement of messages in episodes: new ones, or the episode that their conversation continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vmemo.models import BankId, Episode, EpisodeId, Message, MessageId, new_id
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import MessageLog, Reads
from vmemo.retain.segment import MAX_MESSAGES, MessageVector, is_repetition, segment
from vmemo.retain.summarise import narrative, title

MessageVectors = Mapping[MessageId, NDArray[np.float32]]


class EpisodeStore(MessageLog, Reads, Protocol):
    """The store methods that placement needs."""


@dataclass(frozen=True)
class OpenEpisode:
    """The episode of the previous message, which new messages may extend."""

    episode: Episode
    messages: tuple[Message, ...]
    lines: tuple[MessageVector, ...]


async def place_messages(
    bank: BankId, stream: Sequence[Message], vectors: MessageVectors, store: EpisodeStore, before: Message | None
) -> list[Episode]:
    """Return the episodes of one conversation's new messages; an extended episode keeps its id."""
    earlier = await _open(bank, store, before)
    fresh = [MessageVector(message.timestamp, vectors[message.id]) for message in stream]
    if earlier is not None and has_capacity(earlier, len(stream)) and is_repetition(fresh, earlier.lines):
        return [extend_episode(earlier, stream, vectors)]
    known = earlier.lines if earlier is not None else ()
    groups = segment([*known, *fresh])
    return _episodes(groups, earlier, stream, vectors)


async def _open(bank: BankId, store: EpisodeStore, before: Message | None) -> OpenEpisode | None:
    episode = first_of(await store.episodes(bank, EpisodeSelect(message=before.id))) if before is not None else None
    if episode is None:
        return None
    messages_by_id = {
        message.id: message for message in await store.messages(bank, MessageSelect(ids=episode.messages))
    }
    lines: list[MessageVector] = []
    messages: list[Message] = []
    for fact in await store.facts(bank, FactSelect(episode=episode.id, with_embeddings=True)):
        message = messages_by_id.get(fact.messages[0]) if fact.messages else None
        if message is not None and fact.embedding is not None and message not in messages:
            messages.append(message)
            lines.append(MessageVector(message.timestamp, np.array(fact.embedding, np.float32)))
    return OpenEpisode(episode, tuple(messages), tuple(lines))


def has_capacity(earlier: OpenEpisode, more: int) -> bool:
    """Return True if an episode can take `more` messages."""
    return len(earlier.episode.messages) + more <= MAX_MESSAGES


def _episodes(
    groups: Sequence[Sequence[int]], earlier: OpenEpisode | None, stream: Sequence[Message], vectors: MessageVectors
) -> list[Episode]:
    known = len(earlier.lines) if earlier is not None else 0
    continued: list[Message] = []
    fresh: list[list[Message]] = []
    for group in groups:
        joined = [stream[i - known] for i in group if i >= known]
        if earlier is not None and group[0] < known and has_capacity(earlier, len(continued) + len(joined)):
            continued += joined
        elif joined:
            fresh.append(joined)
    grown = [extend_episode(earlier, _in_time(continued), vectors)] if earlier is not None and continued else []
    return [*grown, *(new_episode(messages, vectors) for messages in fresh)]


def _in_time(messages: Sequence[Message]) -> list[Message]:
    return sorted(messages, key=lambda message: message.timestamp)


def new_episode(messages: Sequence[Message], vectors: MessageVectors) -> Episode:
    """Return a new episode of the messages."""
    stacked = np.stack([vectors[message.id] for message in messages])
    return _summarised(EpisodeId(new_id()), messages, stacked)


def extend_episode(earlier: OpenEpisode, messages: Sequence[Message], vectors: MessageVectors) -> Episode:
    """Return the episode extended by further messages."""
    everything = [*earlier.messages, *messages]
    old = [line.vector for line in earlier.lines]
    stacked = np.stack([*old, *(vectors[message.id] for message in messages)])
    episode = _summarised(earlier.episode.id, everything, stacked)
    kept = {"previous": earlier.episode.previous, "recorded_at": earlier.episode.recorded_at}
    return episode.model_copy(update={**kept, "messages": (*earlier.episode.messages, *(m.id for m in messages))})


def _summarised(id: EpisodeId, messages: Sequence[Message], vectors: NDArray[np.float32]) -> Episode:
    return Episode(
        id=id,
        title=title(messages, vectors),
        narrative=narrative(messages, vectors),
        started_at=messages[0].timestamp,
        ended_at=messages[-1].timestamp,
        messages=tuple(message.id for message in messages),
        recorded_at=max(message.recorded_at for message in messages),
    )


def link_to_previous(episodes: Sequence[Episode], last: Episode | None) -> list[Episode]:
    """Return the episodes with `previous` set on new ones."""
    previous = last.id if last is not None else None
    linked: list[Episode] = []
    for episode in episodes:
        fresh = episode.previous is None and episode.id != previous
        linked.append(episode.model_copy(update={"previous": previous}) if fresh else episode)
        previous = episode.id
    return linked
