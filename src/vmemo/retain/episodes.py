"""Placing newly read messages into episodes: new ones, or the one their conversation was in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vmemo.models import BankId, Episode, EpisodeId, Message, MessageId, new_id
from vmemo.ports import Library, MessageLog
from vmemo.retain.segment import LARGEST, Line, repeats, segment
from vmemo.retain.summarise import narrative, title

MessageVectors = Mapping[MessageId, NDArray[np.float32]]


class Reader(MessageLog, Library, Protocol):
    """What placing needs to read."""


@dataclass(frozen=True)
class Open:
    """The episode that a conversation was in, with its lines."""

    episode: Episode
    messages: tuple[Message, ...]
    lines: tuple[Line, ...]


async def place(
    bank: BankId, stream: Sequence[Message], vectors: MessageVectors, store: Reader, before: Message | None
) -> list[Episode]:
    """Episodes of one conversation's new messages, in order; an extended one keeps its id."""
    earlier = await _open(bank, store, before)
    fresh = [Line(message.timestamp, vectors[message.id]) for message in stream]
    if earlier is not None and fits(earlier, len(stream)) and repeats(fresh, earlier.lines):
        return [extended(earlier, stream, vectors)]
    known = earlier.lines if earlier is not None else ()
    groups = segment([*known, *fresh])
    return _episodes(groups, earlier, stream, vectors)


async def _open(bank: BankId, store: Reader, before: Message | None) -> Open | None:
    episode = await store.episode_of(bank, before.id) if before is not None else None
    if episode is None:
        return None
    said = {message.id: message for message in await store.messages(bank, episode.messages)}
    lines: list[Line] = []
    messages: list[Message] = []
    for fact in await store.facts_of(bank, episode.id):
        message = said.get(fact.messages[0]) if fact.messages else None
        if message is not None and fact.embedding is not None and message not in messages:
            messages.append(message)
            lines.append(Line(message.timestamp, np.array(fact.embedding, np.float32)))
    return Open(episode, tuple(messages), tuple(lines))


def fits(earlier: Open, more: int) -> bool:
    """Whether an episode has room for so many more messages."""
    return len(earlier.episode.messages) + more <= LARGEST


def _episodes(
    groups: Sequence[Sequence[int]], earlier: Open | None, stream: Sequence[Message], vectors: MessageVectors
) -> list[Episode]:
    known = len(earlier.lines) if earlier is not None else 0
    continued: list[Message] = []
    fresh: list[list[Message]] = []
    for group in groups:
        joined = [stream[i - known] for i in group if i >= known]
        if earlier is not None and group[0] < known and fits(earlier, len(continued) + len(joined)):
            continued += joined
        elif joined:
            fresh.append(joined)
    grown = [extended(earlier, _in_time(continued), vectors)] if earlier is not None and continued else []
    return [*grown, *(new_episode(messages, vectors) for messages in fresh)]


def _in_time(messages: Sequence[Message]) -> list[Message]:
    return sorted(messages, key=lambda message: message.timestamp)


def new_episode(messages: Sequence[Message], vectors: MessageVectors) -> Episode:
    """An episode of its own."""
    stacked = np.stack([vectors[message.id] for message in messages])
    return _told(EpisodeId(new_id()), messages, stacked)


def extended(earlier: Open, messages: Sequence[Message], vectors: MessageVectors) -> Episode:
    """The episode with further messages."""
    everything = [*earlier.messages, *messages]
    old = [line.vector for line in earlier.lines]
    stacked = np.stack([*old, *(vectors[message.id] for message in messages)])
    told = _told(earlier.episode.id, everything, stacked)
    kept = {"previous": earlier.episode.previous, "recorded_at": earlier.episode.recorded_at}
    return told.model_copy(update={**kept, "messages": (*earlier.episode.messages, *(m.id for m in messages))})


def _told(id: EpisodeId, messages: Sequence[Message], vectors: NDArray[np.float32]) -> Episode:
    return Episode(
        id=id,
        title=title(messages, vectors),
        narrative=narrative(messages, vectors),
        started_at=messages[0].timestamp,
        ended_at=messages[-1].timestamp,
        messages=tuple(message.id for message in messages),
        recorded_at=max(message.recorded_at for message in messages),
    )


def chained(episodes: Sequence[Episode], last: Episode | None) -> list[Episode]:
    """New episodes, each pointing to the one before it."""
    previous = last.id if last is not None else None
    linked: list[Episode] = []
    for episode in episodes:
        fresh = episode.previous is None and episode.id != previous
        linked.append(episode.model_copy(update={"previous": previous}) if fresh else episode)
        previous = episode.id
    return linked
