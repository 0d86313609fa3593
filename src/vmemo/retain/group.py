"""Grouping of pending messages into episodes for extraction with a language model.

A run that fits into an episode is extracted as a whole, and the extraction divides it into topics. Longer runs are
divided by topic first, with one LLM call for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Episode, Message
from vmemo.models.changes import Changes, NewJob
from vmemo.models.select import EpisodeSelect, MessageSelect, first_of
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import (
    MessageVectors,
    OpenEpisode,
    by_document,
    extend_episode,
    has_capacity,
    last_episode,
    link_to_previous,
    message_before,
    new_episode,
)
from vmemo.retain.llm_schemas import LineGroups
from vmemo.retain.segment import MAX_GAP, MAX_MESSAGES, MessageVector, is_repetition, segment
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
    vectors = await embed_messages(messages, context)
    runs = [run for stream in by_document(messages) for run in _runs(stream)]
    groups = await _groups(runs, llm)
    episodes: list[Episode] = []
    jobs: list[NewJob] = []
    for run, parts in zip(runs, groups, strict=True):
        earlier = await _open_episode(bank, run[0], context)
        for part in parts:
            episode = _placed(part, earlier, vectors)
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


def _runs(stream: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Yield the runs of a document's messages without a gap over MAX_GAP."""
    run: list[Message] = []
    for message in stream:
        if run and message.timestamp - run[-1].timestamp > MAX_GAP:
            yield tuple(run)
            run = []
        run.append(message)
    if run:
        yield tuple(run)


async def _groups(runs: Sequence[tuple[Message, ...]], llm: StructuredLLM) -> list[list[_TopicGroup]]:
    """Return the groups of each run."""
    large = [run for run in runs if len(run) > MAX_MESSAGES]
    grouped = iter(await _group_with_llm(large, llm) if large else [])
    return [next(grouped) if len(run) > MAX_MESSAGES else [_TopicGroup(run)] for run in runs]


async def _group_with_llm(runs: Sequence[tuple[Message, ...]], llm: StructuredLLM) -> list[list[_TopicGroup]]:
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
        groups.append(_run_groups(run, topic[start : start + len(run)], answer))
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


def _run_groups(run: Sequence[Message], topics: Sequence[int], answer: LineGroups) -> list[_TopicGroup]:
    """Return a run's groups in order of their first lines, split at MAX_MESSAGES."""
    groups: list[_TopicGroup] = []
    for topic in dict.fromkeys(topics):
        lines = [message for message, own in zip(run, topics, strict=True) if own == topic]
        words = answer.groups[topic].topic if topic < len(answer.groups) else ""
        groups += [_TopicGroup(tuple(lines[i : i + MAX_MESSAGES]), words) for i in range(0, len(lines), MAX_MESSAGES)]
    return sorted(groups, key=lambda each: run.index(each.messages[0]))


async def _open_episode(bank: BankId, first: Message, context: RetainContext) -> OpenEpisode | None:
    """Return the episode that a run may continue."""
    before = await message_before(bank, first, context.store)
    if before is None or first.timestamp - before.timestamp > MAX_GAP:
        return None
    episode = first_of(await context.store.episodes(bank, EpisodeSelect(messages=[before.id])))
    if episode is None:
        return None
    messages = tuple(await context.store.messages(bank, MessageSelect(ids=episode.messages)))
    vectors = await embed_messages(messages, context)
    return OpenEpisode(
        episode, messages, tuple(MessageVector(message.timestamp, vectors[message.id]) for message in messages)
    )


def _placed(part: _TopicGroup, earlier: OpenEpisode | None, vectors: MessageVectors) -> Episode:
    if earlier is not None and has_capacity(earlier, len(part.messages)) and _continues(part, earlier, vectors):
        return extend_episode(earlier, part.messages, vectors)
    fresh = new_episode(part.messages, vectors)
    return fresh.model_copy(update={"title": part.topic}) if part.topic else fresh


def _continues(part: _TopicGroup, earlier: OpenEpisode, vectors: MessageVectors) -> bool:
    """Return True if a group repeats the episode or, by its vectors, continues its topic."""
    lines = [MessageVector(message.timestamp, vectors[message.id]) for message in part.messages]
    if is_repetition(lines, earlier.lines):
        return True
    known = len(earlier.lines)
    parts = segment([*earlier.lines, *lines])
    return any(min(each) < known <= max(each) for each in parts)
