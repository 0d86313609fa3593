"""Grouping unread messages into episodes for a reading model.

A run that fits into an episode is read whole, and its reader tells the topics apart; longer runs are sorted by topic
first, in one call for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Episode, EpisodeId, Message, new_id
from vmemo.models.changes import NewJob
from vmemo.retain.context import RetainContext
from vmemo.retain.derive import streams
from vmemo.retain.episodes import MessageVectors, Open, chained, extended, fits, new_episode
from vmemo.retain.llm_extraction import Topic
from vmemo.retain.llm_schemas import Groups
from vmemo.retain.segment import GAP, LARGEST, Line, repeats, segment
from vmemo.retain.write_plan import message_vectors

PROMPTS = Path(__file__).parent / "prompts"
BATCH = 100
"""Messages that are grouped together."""
LONGEST_NARRATIVE = 2000
"""Characters of an episode's narrative that are kept as it grows."""
SHOWN = 300
"""Characters of a message from which its topic can be told."""


@dataclass(frozen=True)
class Grouped:
    """Episodes to write, and the reading that each of them asks for."""

    episodes: list[Episode]
    jobs: list[NewJob]


@dataclass(frozen=True)
class _Group:
    messages: tuple[Message, ...]
    topic: str = ""


async def group(bank: BankId, messages: Sequence[Message], context: RetainContext, desk: StructuredLLM) -> Grouped:
    """Episodes of unread messages. A run that goes on with the episode before it becomes part of that."""
    vectors = await message_vectors(messages, context)
    runs = [run for stream in streams(messages) for run in _runs(stream)]
    groups = await _groups(runs, desk)
    episodes: list[Episode] = []
    jobs: list[NewJob] = []
    for run, parts in zip(runs, groups, strict=True):
        earlier = await _open(bank, run[0], context)
        for part in parts:
            episode = _placed(part, earlier, vectors)
            earlier = None
            episodes.append(episode)
            jobs.append(reading_job(episode, part.messages))
    return Grouped(_once(chained(episodes, await context.store.last_episode(bank))), jobs)


def reading_job(episode: Episode, messages: Sequence[Message]) -> NewJob:
    """The work of reading some messages of an episode."""
    return NewJob(
        kind="extract", key=messages[0].id, detail={"episode": episode.id, "messages": [m.id for m in messages]}
    )


def _runs(stream: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Messages of one document without a silence of more than half an hour."""
    run: list[Message] = []
    for message in stream:
        if run and message.timestamp - run[-1].timestamp > GAP:
            yield tuple(run)
            run = []
        run.append(message)
    if run:
        yield tuple(run)


async def _groups(runs: Sequence[tuple[Message, ...]], desk: StructuredLLM) -> list[list[_Group]]:
    """For each run its groups."""
    large = [run for run in runs if len(run) > LARGEST]
    read = iter(await _by_model(large, desk) if large else [])
    return [next(read) if len(run) > LARGEST else [_Group(run)] for run in runs]


async def _by_model(runs: Sequence[tuple[Message, ...]], desk: StructuredLLM) -> list[list[_Group]]:
    """One call for all runs; what the model leaves out goes with the line before it."""
    everything = [message for run in runs for message in run]
    numbers = count(1)
    shown: list[str] = []
    for part, run in enumerate(runs, start=1):
        shown.append(f"Part {part}, {run[0].timestamp:%A %d %B %Y}")
        shown += [f"{next(numbers)} | {message.voice} | {message.content[:SHOWN]}" for message in run]

    def complaint(answer: Groups) -> str | None:
        used = Counter(number for each in answer.groups for number in each.lines)
        missing = sorted(set(range(1, len(everything) + 1)) - used.keys())
        strange = sorted(n for n, times in used.items() if times > 1 or not 1 <= n <= len(everything))
        found = [("are in no group", missing), ("are there twice, or don't exist", strange)]
        return "; ".join(f"lines {lines[:10]} {trouble}" for trouble, lines in found if lines) or None

    ask = load_prompt(PROMPTS, "segment").request(Groups, lines=quote(shown))
    answer = await desk.ask(ask, Groups, complaint, lenient=True)
    topic = _assigned(answer, len(everything))
    groups: list[list[_Group]] = []
    start = 0
    for run in runs:
        groups.append(_of_run(run, topic[start : start + len(run)], answer))
        start += len(run)
    return groups


def _assigned(answer: Groups, lines: int) -> list[int]:
    """For each line the place of its group; a line that none names goes with the one before it."""
    chosen: dict[int, int] = {}
    for place, each in enumerate(answer.groups):
        for number in each.lines:
            chosen.setdefault(number, place)
    assigned: list[int] = []
    for number in range(1, lines + 1):
        assigned.append(chosen.get(number, assigned[-1] if assigned else 0))
    return assigned


def _of_run(run: Sequence[Message], topics: Sequence[int], answer: Groups) -> list[_Group]:
    """A run's groups in the order of their first lines, none larger than an episode may be."""
    groups: list[_Group] = []
    for topic in dict.fromkeys(topics):
        lines = [message for message, own in zip(run, topics, strict=True) if own == topic]
        words = answer.groups[topic].topic if topic < len(answer.groups) else ""
        groups += [_Group(tuple(lines[i : i + LARGEST]), words) for i in range(0, len(lines), LARGEST)]
    return sorted(groups, key=lambda each: run.index(each.messages[0]))


async def _open(bank: BankId, first: Message, context: RetainContext) -> Open | None:
    """The episode that a run may go on with."""
    before = await context.store.before(bank, first)
    if before is None or first.timestamp - before.timestamp > GAP:
        return None
    episode = await context.store.episode_of(bank, before.id)
    if episode is None:
        return None
    messages = tuple(await context.store.messages(bank, episode.messages))
    vectors = await message_vectors(messages, context)
    return Open(episode, messages, tuple(Line(message.timestamp, vectors[message.id]) for message in messages))


def _placed(part: _Group, earlier: Open | None, vectors: MessageVectors) -> Episode:
    if earlier is not None and fits(earlier, len(part.messages)) and _goes_on(part, earlier, vectors):
        return extended(earlier, part.messages, vectors)
    fresh = new_episode(part.messages, vectors)
    return fresh.model_copy(update={"title": part.topic}) if part.topic else fresh


def _goes_on(part: _Group, earlier: Open, vectors: MessageVectors) -> bool:
    """Whether a group says again what the episode said, or is of its topic as far as vectors tell."""
    lines = [Line(message.timestamp, vectors[message.id]) for message in part.messages]
    if repeats(lines, earlier.lines):
        return True
    known = len(earlier.lines)
    parts = segment([*earlier.lines, *lines])
    return any(min(each) < known <= max(each) for each in parts)


def _once(episodes: Sequence[Episode]) -> list[Episode]:
    """Each episode in its last state."""
    return list({episode.id: episode for episode in episodes}.values())


def told_apart(episode: Episode, read: Sequence[Message], topics: Sequence[Topic]) -> list[Episode]:
    """The episode as it was read: one for each topic. The first stays what it is, with what it had told before."""
    if not topics:
        return [episode]
    fresh = {message.id: message for message in read}
    before = [id for id in episode.messages if id not in fresh]
    first = topics[0]
    # Messages that only repeat what memory had recalled are in no topic.
    rest = [id for id in fresh if not any(id in topic.messages for topic in topics[1:])]
    told = {"title": first.title or episode.title, "narrative": first.narrative or episode.narrative}
    told_on = {"narrative": f"{episode.narrative}\n{first.narrative}".strip()[-LONGEST_NARRATIVE:]}
    kept = episode.model_copy(
        update={
            **(told_on if before else told),
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
