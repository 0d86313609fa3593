"""Placement of messages in episodes: new ones, or the episode that their conversation continues."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from vmemo.models import BankId, Episode, EpisodeId, Message, MessageId, new_id
from vmemo.models.search import Vector, Vectors
from vmemo.models.select import EpisodeSelect, MessageSelect, first_of
from vmemo.models.settings import Settings
from vmemo.ports import Store
from vmemo.retain.open_episodes import OpenEpisode
from vmemo.retain.segment import MessageVector, is_repetition, segment
from vmemo.retain.topics_from_llm import EpisodeTopic

MessageVectors = Mapping[MessageId, Vector]
MAX_TITLE = 80
"""Characters of an extractive title."""
NARRATIVE_MESSAGES = 3
"""Messages that an extractive narrative quotes."""
QUOTED_CHARACTERS = 300
"""Characters of a quoted message."""
MAX_NARRATIVE = 2000
"""Characters of a narrative that grows with its episode."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")


def by_document(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Group messages by document, in order of each document's first message."""
    first: dict[str | None, int] = {}
    for i, message in enumerate(messages):
        first.setdefault(message.document, i)
    ordered = sorted(messages, key=lambda message: first[message.document])
    return [tuple(group) for _, group in groupby(ordered, key=lambda message: message.document)]


async def message_before(bank: BankId, message: Message, store: Store) -> Message | None:
    """Return the previous message of the same document."""
    return first_of(await store.messages(bank, MessageSelect(preceding=message, limit=1)))


async def last_episode(bank: BankId, store: Store) -> Episode | None:
    """Return the bank's latest episode."""
    return first_of(await store.episodes(bank, EpisodeSelect(last_first=True, limit=1)))


async def place_messages(
    stream: Sequence[Message], vectors: MessageVectors, earlier: OpenEpisode | None, settings: Settings
) -> list[Episode]:
    """Return the episodes of one conversation's new messages; an extended episode keeps its id."""
    fresh = [MessageVector(message.timestamp, vectors[message.id]) for message in stream]
    spare = 0 if earlier is None else capacity(earlier, settings)
    if earlier is not None and len(stream) <= spare and is_repetition(fresh, earlier.lines):
        return [extend_episode(earlier, stream, vectors)]
    known = earlier.lines if earlier is not None else ()
    groups = await asyncio.to_thread(segment, [*known, *fresh], settings)
    return _episodes(groups, earlier, stream, vectors, spare=spare)


def capacity(earlier: OpenEpisode, settings: Settings) -> int:
    """Return the number of messages that an episode can still take."""
    return settings.episode_messages - len(earlier.episode.messages)


def _episodes(
    groups: Sequence[Sequence[int]],
    earlier: OpenEpisode | None,
    stream: Sequence[Message],
    vectors: MessageVectors,
    *,
    spare: int,
) -> list[Episode]:
    known = len(earlier.lines) if earlier is not None else 0
    continued: list[Message] = []
    fresh: list[list[Message]] = []
    for group in groups:
        joined = [stream[i - known] for i in group if i >= known]
        if earlier is not None and group[0] < known and len(continued) + len(joined) <= spare:
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
    kept = {name: getattr(earlier.episode, name) for name in ("previous", "started_at", "recorded_at")}
    return episode.model_copy(update={**kept, "messages": (*earlier.episode.messages, *(m.id for m in messages))})


def _summarised(id: EpisodeId, messages: Sequence[Message], vectors: Vectors) -> Episode:
    central = _by_centrality(messages, vectors)
    return Episode(
        id=id,
        title=_title(messages[central[0]]),
        narrative=_narrative(messages, sorted(central[:NARRATIVE_MESSAGES])),
        started_at=messages[0].timestamp,
        ended_at=messages[-1].timestamp,
        messages=tuple(message.id for message in messages),
        recorded_at=max(message.recorded_at for message in messages),
    )


def describe_episode(episode: Episode, messages: Sequence[Message]) -> Episode:
    """Return the episode with a title and a narrative from these messages, the longest of which come first."""
    longest = sorted(range(len(messages)), key=lambda at: -len(messages[at].content))
    narrative = _narrative(messages, sorted(longest[:NARRATIVE_MESSAGES]))
    return episode.model_copy(update={"title": _title(messages[longest[0]]), "narrative": narrative})


def _by_centrality(messages: Sequence[Message], vectors: Vectors) -> list[int]:
    """Return the indexes of messages, the most central first, with short messages weighted down."""
    weight = np.array([min(len(message.content), 120) / 120 for message in messages])
    scores = (vectors @ vectors.mean(axis=0)) * weight
    return np.argsort(-scores, kind="stable").tolist()


def _title(message: Message) -> str:
    """Return the message's first sentence."""
    match = _SENTENCE.search(message.content)
    return _shortened((match.group() if match else message.content).strip(), MAX_TITLE)


def _narrative(messages: Sequence[Message], quoted: Sequence[int]) -> str:
    """Return the date, the speakers and some of the messages."""
    voices = list(dict.fromkeys(message.voice for message in messages))
    speakers = voices[0] if len(voices) == 1 else f"{', '.join(voices[:-1])} and {voices[-1]}"
    first = messages[0].timestamp
    lines = [
        f"{messages[i].voice}: {_shortened(' '.join(messages[i].content.split()), QUOTED_CHARACTERS)}" for i in quoted
    ]
    return "\n".join([f"On {first.day} {first:%B %Y} {speakers} talked.", *lines])


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + "…"


def link_to_previous(episodes: Sequence[Episode], last: Episode | None) -> list[Episode]:
    """Return the episodes with `previous` set on new ones."""
    previous = last.id if last is not None else None
    linked: list[Episode] = []
    for episode in episodes:
        fresh = episode.previous is None and episode.id != previous
        linked.append(episode.model_copy(update={"previous": previous}) if fresh else episode)
        previous = episode.id
    return linked


def split_by_topics(episode: Episode, extracted: Sequence[Message], topics: Sequence[EpisodeTopic]) -> list[Episode]:
    """Split an extracted episode by its topics. The first keeps the episode's id and earlier messages."""
    if not topics:
        return [episode]
    fresh = {message.id: message for message in extracted}
    before = [id for id in episode.messages if id not in fresh]
    first = topics[0]
    # Messages that consist only of recalled memories are in no topic.
    rest = [id for id in fresh if not any(id in topic.messages for topic in topics[1:])]
    described = {"title": first.title or episode.title, "narrative": first.narrative or episode.narrative}
    continued = {"narrative": f"{episode.narrative}\n{first.narrative}".strip()[-MAX_NARRATIVE:]}
    kept = episode.model_copy(
        update={
            **(continued if before else described),
            "messages": (*before, *rest),
            "started_at": episode.started_at if before else fresh[rest[0]].timestamp,
            "ended_at": fresh[rest[-1]].timestamp,
        }
    )
    episodes = [kept]
    for topic in topics[1:]:
        own = [fresh[id] for id in topic.messages]
        episodes.append(
            Episode(
                id=EpisodeId(new_id()),
                title=topic.title,
                narrative=topic.narrative,
                started_at=own[0].timestamp,
                ended_at=own[-1].timestamp,
                previous=episodes[-1].id,
                messages=topic.messages,
                recorded_at=max(message.recorded_at for message in own),
            )
        )
    return episodes
