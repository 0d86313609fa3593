"""Episodes: segmentation of messages by time and topic, and placement of new messages in new or open episodes."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from threading import Lock
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vmemo.models import BankId, BankRevision, Episode, EpisodeId, Fact, FactId, Message, MessageId, new_id
from vmemo.models.changes import Changes
from vmemo.models.search import Vector, Vectors
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.models.settings import Settings
from vmemo.ports import Store
from vmemo.retain.llm_answers import EpisodeTopic

# Segmentation by time gaps and topics; the constants were chosen on conversations of our own.
CONTRAST = 0.15
"""Least difference of mean cosine within topics and between them to separate a run of messages."""
INTERLEAVED = 0.4
"""Least such difference to separate topics that alternate."""
RUN_MESSAGES = 3
"""Least messages of a run that is separated, and of the rest."""
TOPIC_MESSAGES = 2
"""Least messages of a topic that alternates with another, and on each side of a run within a topic."""
ADJACENCY = 0.05
REPEAT_COSINE = 0.95
"""Cosine from which a message counts as a repetition."""
WINDOW = 75
"""Messages that are clustered together."""
Similarity: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class MessageVector:
    """A message's time and embedding."""

    at: datetime
    vector: NDArray[np.float32]


def segment(lines: Sequence[MessageVector], settings: Settings) -> list[list[int]]:
    """Return the indexes of each episode's messages, ordered by first message. Lines must be in order of time."""
    groups = [
        group
        for block in runs_without_gap(
            [line.at for line in lines], timedelta(minutes=settings.episode_gap_minutes), most=WINDOW
        )
        for group in _topics(lines, block)
    ]
    size = settings.episode_messages
    sized = [group[i : i + size] for group in groups for i in range(0, len(group), size)]
    return _merged(lines, sorted(sized, key=lambda group: group[0]), size)


def _merged(lines: Sequence[MessageVector], groups: Sequence[list[int]], size: int) -> list[list[int]]:
    """Merge each group that repeats the previous one, if the result is not too large."""
    kept: list[list[int]] = []
    for group in groups:
        fits = bool(kept) and len(kept[-1]) + len(group) <= size
        if fits and is_repetition([lines[i] for i in group], [lines[i] for i in kept[-1]]):
            kept[-1] = [*kept[-1], *group]
        else:
            kept.append(group)
    return kept


def runs_without_gap(times: Sequence[datetime], gap: timedelta, *, most: int | None = None) -> Iterator[range]:
    """Yield the places of runs of times without a longer gap, each of at most so many times."""
    start = 0
    for end in range(1, len(times) + 1):
        if end == len(times) or times[end] - times[end - 1] > gap or end - start == most:
            yield range(start, end)
            start = end


def _topics(lines: Sequence[MessageVector], block: Sequence[int]) -> list[list[int]]:
    vectors = np.stack([lines[i].vector for i in block]).astype(np.float64)
    # What all messages have in common hides their topics.
    vectors -= vectors.mean(axis=0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    groups = _split(vectors @ vectors.T, np.arange(len(block)))
    return [[block[place] for place in group.tolist()] for group in groups]


def _split(similarity: Similarity, places: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Split messages recursively: a run of messages from the rest, or else interleaved topics from each other."""
    if len(places) < 2 * TOPIC_MESSAGES:
        return [places]
    own = similarity[np.ix_(places, places)]
    side = _best_run(own)
    if side is None:
        side = _interleaved(own)
    return [places] if side is None else [*_split(similarity, places[side]), *_split(similarity, places[~side])]


def _best_run(similarity: Similarity) -> NDArray[np.bool_] | None:
    """Return the run of adjacent messages with the greatest contrast to the rest; None if none stands out clearly."""
    count, least = len(similarity), RUN_MESSAGES
    if count < 2 * least:
        return None
    start, end = np.triu_indices(count + 1, k=least)
    sums = np.pad(similarity.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    rows, own = (np.append(0.0, each.cumsum()) for each in (similarity.sum(axis=1), np.diag(similarity)))
    block = sums[end, end] - sums[start, end] - sums[end, start] + sums[start, start]
    inside, across = block - (own[end] - own[start]), rows[end] - rows[start] - block
    rest = similarity.sum() - np.trace(similarity) - inside - 2 * across
    size, others = end - start, count - (end - start)
    pairs = size * (size - 1) + others * (others - 1)
    contrast = (inside + rest) / np.maximum(1, pairs) - across / np.maximum(1, size * others)
    before, after = start, count - end
    contrast[(others < least) | ((before > 0) & (after > 0) & (np.minimum(before, after) < TOPIC_MESSAGES))] = -np.inf
    best = int(contrast.argmax())
    if contrast[best] < CONTRAST:
        return None
    place = np.arange(count)
    return (place >= start[best]) & (place < end[best])


def _interleaved(similarity: Similarity) -> NDArray[np.bool_] | None:
    """Return the messages of one of two interleaved topics, or None if there are none that differ clearly."""
    place = np.arange(len(similarity))
    side = _two_sides(similarity + ADJACENCY * (np.abs(place[:, None] - place[None, :]) == 1))
    if min(side.sum(), (~side).sum()) < TOPIC_MESSAGES:
        return None
    within = min(_inside(similarity, side), _inside(similarity, ~side))
    return side if within - similarity[side][:, ~side].mean() >= INTERLEAVED else None


def _two_sides(similarity: Similarity) -> NDArray[np.bool_]:
    """Return which lines are in the first line's cluster of an average-link clustering into two."""
    members = [[i] for i in range(len(similarity))]
    sums = similarity.copy()
    while len(members) > 2:
        sizes = np.array([len(group) for group in members], np.float64)
        means = sums / np.outer(sizes, sizes)
        np.fill_diagonal(means, -np.inf)
        a, b = divmod(int(means.argmax()), len(members))
        a, b = min(a, b), max(a, b)
        members[a] += members.pop(b)
        sums[a] += sums[b]
        sums[:, a] += sums[:, b]
        sums = np.delete(np.delete(sums, b, 0), b, 1)
    side = np.zeros(len(similarity), np.bool_)
    side[members[0]] = True
    return side


def _inside(similarity: Similarity, side: NDArray[np.bool_]) -> float:
    part = similarity[side][:, side]
    count = len(part)
    return float((part.sum() - np.trace(part)) / (count * (count - 1)))


def is_repetition(new: Sequence[MessageVector], old: Sequence[MessageVector]) -> bool:
    """Return True if nearly every new line repeats an old one."""
    if not new or not old:
        return False
    best = (np.stack([line.vector for line in new]) @ np.stack([line.vector for line in old]).T).max(axis=1)
    return float((best >= REPEAT_COSINE).mean()) >= 0.8


# Open episodes, which new messages may extend.
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

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._cached: OrderedDict[tuple[BankId, str | None], _Cached] = OrderedDict()

    async def of(self, bank: BankId, revision: BankRevision, message: Message) -> OpenEpisode | None:
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


# Placement of messages in episodes.
MessageVectors = Mapping[MessageId, Vector]
MAX_TITLE = 80
NARRATIVE_MESSAGES = 3
QUOTED_CHARACTERS = 300
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
    return first_of(await store.messages(bank, MessageSelect(preceding=message, limit=1)))


async def last_episode(bank: BankId, store: Store) -> Episode | None:
    return first_of(await store.episodes(bank, EpisodeSelect(last_first=True, limit=1)))


async def place_messages(
    stream: Sequence[Message], vectors: MessageVectors, earlier: OpenEpisode | None, settings: Settings
) -> list[Episode]:
    """Return the episodes of one conversation's new messages; an extended episode keeps its id."""
    fresh = [MessageVector(message.timestamp, vectors[message.id]) for message in stream]
    spare = 0 if earlier is None else capacity(earlier, settings)
    if earlier is not None and len(stream) <= spare and is_repetition(fresh, earlier.lines):
        return [extend_episode(earlier, stream, vectors)]
    lines = earlier.lines if earlier is not None else ()
    known, continued, separate = len(lines), list[Message](), list[list[Message]]()
    for group in await asyncio.to_thread(segment, [*lines, *fresh], settings):
        joined = [stream[i - known] for i in group if i >= known]
        if earlier is not None and group[0] < known and len(continued) + len(joined) <= spare:
            continued += joined
        elif joined:
            separate.append(joined)
    continued.sort(key=lambda message: message.timestamp)
    grown = [extend_episode(earlier, continued, vectors)] if earlier is not None and continued else []
    return [*grown, *(new_episode(messages, vectors) for messages in separate)]


def capacity(earlier: OpenEpisode, settings: Settings) -> int:
    """Return the number of messages that an episode can still take."""
    return settings.episode_messages - len(earlier.episode.messages)


def new_episode(messages: Sequence[Message], vectors: MessageVectors) -> Episode:
    stacked = np.stack([vectors[message.id] for message in messages])
    return _summarised(EpisodeId(new_id()), messages, stacked)


def extend_episode(earlier: OpenEpisode, messages: Sequence[Message], vectors: MessageVectors) -> Episode:
    everything = [*earlier.messages, *messages]
    old = [line.vector for line in earlier.lines]
    stacked = np.stack([*old, *(vectors[message.id] for message in messages)])
    episode = _summarised(earlier.episode.id, everything, stacked)
    kept = {name: getattr(earlier.episode, name) for name in ("previous", "started_at", "recorded_at")}
    return episode.model_copy(update={**kept, "messages": (*earlier.episode.messages, *(m.id for m in messages))})


def _summarised(id: EpisodeId, messages: Sequence[Message], vectors: Vectors) -> Episode:
    # The most central messages come first; short ones count less.
    weight = np.array([min(len(message.content), 120) / 120 for message in messages])
    central: list[int] = np.argsort(-(vectors @ vectors.mean(axis=0)) * weight, kind="stable").tolist()
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


def _title(message: Message) -> str:
    """Return the message's first sentence."""
    match = _SENTENCE.search(message.content)
    return shortened((match.group() if match else message.content).strip(), MAX_TITLE)


def _narrative(messages: Sequence[Message], quoted: Sequence[int]) -> str:
    """Return the date, the speakers and some of the messages."""
    voices = list(dict.fromkeys(message.voice for message in messages))
    speakers = voices[0] if len(voices) == 1 else f"{', '.join(voices[:-1])} and {voices[-1]}"
    first = messages[0].timestamp
    lines = [
        f"{messages[i].voice}: {shortened(' '.join(messages[i].content.split()), QUOTED_CHARACTERS)}" for i in quoted
    ]
    return "\n".join([f"On {first.day} {first:%B %Y} {speakers} talked.", *lines])


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters, cut between words."""
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
