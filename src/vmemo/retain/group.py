"""Grouping of pending messages into episodes for extraction with a language model.

A run that fits into an episode is extracted as a whole, and the extraction divides it into topics. Longer runs are
divided by topic first, with one LLM call for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Episode, Message
from vmemo.models.changes import Changes, NewJob
from vmemo.models.select import EpisodeSelect, MessageSelect, first_of
from vmemo.models.settings import Settings
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import (
    MessageVectors,
    by_document,
    capacity,
    extend_episode,
    last_episode,
    link_to_previous,
    message_before,
    new_episode,
)
from vmemo.retain.llm_schemas import LineGroups
from vmemo.retain.open_episodes import OpenEpisode
from vmemo.retain.segment import MessageVector, is_repetition, segment
from vmemo.retain.write_plan import embed_messages

PROMPTS = Path(__file__).parent / "prompts"
GROUPING_BATCH = 100
"""Messages per grouping commit."""
_PREVIEW_CHARACTERS = 300
"""Characters of each message that the topic prompt shows."""


@dataclass(frozen=True)
class _TopicGroup:
    messages: tuple[Message, ...]
    topic: str = ""


async def group_messages(
    bank: BankId, messages: Sequence[Message], context: RetainContext, llm: StructuredLLM
) -> Changes:
    """Return the changes that place pending messages in episodes and queue their extraction.

    A run that continues the previous episode extends it.
    """
    vectors, settings = await embed_messages(messages, context), context.settings
    runs = [run for stream in by_document(messages) for run in _runs(stream, settings.episode_gap)]
    groups = await _groups(runs, llm, settings.episode_messages)
    episodes: list[Episode] = []
    jobs: list[NewJob] = []
    for run, parts in zip(runs, groups, strict=True):
        earlier = await _open_episode(bank, run[0], context)
        for part in parts:
            episode = _placed(part, earlier, vectors, settings)
            earlier = None
            episodes.append(episode)
            jobs.append(extraction_job(episode, part.messages))
    linked = link_to_previous(episodes, await last_episode(bank, context.store))
    return Changes(
        bank=bank,
        embedder=context.embedder.name,
        pending=[message.id for message in messages],
        # An episode that grew twice is written in its last state.
        episodes=list({episode.id: episode for episode in linked}.values()),
        jobs=jobs,
        becomes="grouped",
    )


def extraction_job(episode: Episode, messages: Sequence[Message]) -> NewJob:
    """Return the job that extracts some messages of an episode."""
    return NewJob(
        kind="extract", key=messages[0].id, detail={"episode": episode.id, "messages": [m.id for m in messages]}
    )


def _runs(stream: Sequence[Message], gap: timedelta) -> Iterator[tuple[Message, ...]]:
    """Yield the runs of a document's messages without a longer gap."""
    run: list[Message] = []
    for message in stream:
        if run and message.timestamp - run[-1].timestamp > gap:
            yield tuple(run)
            run = []
        run.append(message)
    if run:
        yield tuple(run)


async def _groups(runs: Sequence[tuple[Message, ...]], llm: StructuredLLM, most: int) -> list[list[_TopicGroup]]:
    """Return the groups of each run, of at most `most` messages."""
    large = [run for run in runs if len(run) > most]
    grouped = iter(await _group_with_llm(large, llm, most) if large else [])
    return [next(grouped) if len(run) > most else [_TopicGroup(run)] for run in runs]


async def _group_with_llm(
    runs: Sequence[tuple[Message, ...]], llm: StructuredLLM, most: int
) -> list[list[_TopicGroup]]:
    """Group long runs with one LLM call; a line that the model leaves out joins the line before it."""
    everything = [message for run in runs for message in run]
    numbers = count(1)
    lines: list[str] = []
    for part, run in enumerate(runs, start=1):
        lines.append(f"Part {part}, {run[0].timestamp:%A %d %B %Y}")
        lines += [f"{next(numbers)} | {message.voice} | {message.content[:_PREVIEW_CHARACTERS]}" for message in run]

    def problems(answer: LineGroups) -> str | None:
        used = Counter(number for each in answer.groups for number in each.lines)
        missing = sorted(set(range(1, len(everything) + 1)) - used.keys())
        strange = sorted(n for n, times in used.items() if times > 1 or not 1 <= n <= len(everything))
        found = [("are in no group", missing), ("are in two groups or do not exist", strange)]
        return "; ".join(f"lines {lines[:10]} {problem}" for problem, lines in found if lines) or None

    request = load_prompt(PROMPTS, "segment").request(LineGroups, lines=quote(lines))
    answer = await llm.ask(request, LineGroups, problems, lenient=True)
    topic = _assign(answer, len(everything))
    groups: list[list[_TopicGroup]] = []
    start = 0
    for run in runs:
        groups.append(_run_groups(run, topic[start : start + len(run)], answer, most))
        start += len(run)
    return groups


def _assign(answer: LineGroups, lines: int) -> list[int]:
    """Return each line's group index; an unassigned line joins the line before it."""
    chosen: dict[int, int] = {}
    for place, each in enumerate(answer.groups):
        for number in each.lines:
            chosen.setdefault(number, place)
    assigned: list[int] = []
    for number in range(1, lines + 1):
        assigned.append(chosen.get(number, assigned[-1] if assigned else 0))
    return assigned


def _run_groups(run: Sequence[Message], topics: Sequence[int], answer: LineGroups, most: int) -> list[_TopicGroup]:
    """Return a run's groups in order of their first lines, each of at most `most` messages."""
    groups: list[_TopicGroup] = []
    for topic in dict.fromkeys(topics):
        lines = [message for message, own in zip(run, topics, strict=True) if own == topic]
        words = answer.groups[topic].topic if topic < len(answer.groups) else ""
        groups += [_TopicGroup(tuple(lines[i : i + most]), words) for i in range(0, len(lines), most)]
    return sorted(groups, key=lambda each: run.index(each.messages[0]))


async def _open_episode(bank: BankId, first: Message, context: RetainContext) -> OpenEpisode | None:
    """Return the episode that a run may continue."""
    before = await message_before(bank, first, context.store)
    if before is None or first.timestamp - before.timestamp > context.settings.episode_gap:
        return None
    episode = first_of(await context.store.episodes(bank, EpisodeSelect(messages=[before.id])))
    if episode is None:
        return None
    messages = tuple(await context.store.messages(bank, MessageSelect(ids=episode.messages)))
    vectors = await embed_messages(messages, context)
    return OpenEpisode(
        episode, messages, tuple(MessageVector(message.timestamp, vectors[message.id]) for message in messages)
    )


def _placed(part: _TopicGroup, earlier: OpenEpisode | None, vectors: MessageVectors, settings: Settings) -> Episode:
    fits = earlier is not None and len(part.messages) <= capacity(earlier, settings)
    if earlier is not None and fits and _continues(part, earlier, vectors, settings):
        return extend_episode(earlier, part.messages, vectors)
    fresh = new_episode(part.messages, vectors)
    return fresh.model_copy(update={"title": part.topic}) if part.topic else fresh


def _continues(part: _TopicGroup, earlier: OpenEpisode, vectors: MessageVectors, settings: Settings) -> bool:
    """Return True if a group repeats the episode or, by its vectors, continues its topic."""
    lines = [MessageVector(message.timestamp, vectors[message.id]) for message in part.messages]
    if is_repetition(lines, earlier.lines):
        return True
    known = len(earlier.lines)
    parts = segment([*earlier.lines, *lines], settings)
    return any(min(each) < known <= max(each) for each in parts)
