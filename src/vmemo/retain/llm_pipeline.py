"""LLM jobs: group pending messages into episodes, and extract the facts of an episode."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count, islice, pairwise
from typing import cast

import numpy as np
from pydantic import JsonValue

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Entity, EntityId, Episode, EpisodeId, Fact, Message, MessageId
from vmemo.models.changes import Changes, ExtractionResult, Lease, NewJob
from vmemo.models.records import least_facts
from vmemo.models.results import Retained, Usage
from vmemo.models.search import Vectors
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.models.settings import Settings
from vmemo.ports import encodings, gives_tokens
from vmemo.retain import write_plan
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import (
    MessageVector,
    MessageVectors,
    OpenEpisode,
    by_document,
    capacity,
    extend_episode,
    is_repetition,
    last_episode,
    link_to_previous,
    message_before,
    new_episode,
    runs_without_gap,
    segment,
    split_by_topics,
)
from vmemo.retain.llm_answers import LineGroups, group_by_line
from vmemo.retain.llm_extraction import (
    PRECEDING_MESSAGES,
    EpisodeExtraction,
    ExtractionInput,
    ExtractionLine,
    extraction_lines,
)
from vmemo.retain.local_extraction import agent_users
from vmemo.retain.pipeline import retained_by
from vmemo.retain.reader import is_noise_line
from vmemo.retain.revise import is_current
from vmemo.retain.revise_by_model import is_past_event
from vmemo.text.split import split_statements
from vmemo.text.temporal.annotation import with_date
from vmemo.text.tokens import terms


class LeaseLost(Exception):
    """Another worker has taken over the job; nothing is committed here."""


@dataclass(frozen=True, kw_only=True)
class ExtractionJob:
    """The messages of an episode to extract."""

    episode: EpisodeId
    messages: tuple[MessageId, ...]

    @staticmethod
    def of(detail: Mapping[str, JsonValue]) -> ExtractionJob:
        messages = cast("list[str]", detail["messages"])
        return ExtractionJob(episode=EpisodeId(str(detail["episode"])), messages=tuple(map(MessageId, messages)))


async def group_pending(bank: BankId, context: RetainContext, llm: StructuredLLM, lease: Lease) -> Retained:
    """Place all pending messages of a bank in episodes, in batches, and queue their extraction."""
    usage = Usage()
    while messages := await context.store.messages(bank, MessageSelect.oldest_pending(GROUPING_BATCH)):
        grouped = await group_messages(bank, messages, context, llm)
        async with context.bank_lock(bank):
            # Facts committed meanwhile do not affect the grouping.
            revision = await context.store.revision(bank)
            written = await context.store.commit(replace(grouped, revision=revision, spending=llm.spending))
        if written:
            usage += llm.take_usage()
        else:
            await require_lease(lease, context)
    return Retained(usage=usage)


async def require_lease(lease: Lease, context: RetainContext) -> None:
    """Renew the lease; raise LeaseLost if another worker has it."""
    if not await context.store.renew([lease], lease.seconds):
        raise LeaseLost


async def extract_episode(
    bank: BankId, job: ExtractionJob, context: RetainContext, llm: StructuredLLM, lease: Lease, *, observe_at: datetime
) -> tuple[Retained, Mapping[EntityId, EntityId]]:
    """Extract the job's messages that are still pending, and commit their facts.

    With the result, return the known entities that the model says are another one, with that one.
    """
    messages = await context.store.messages(bank, MessageSelect(ids=job.messages))
    pending = [message for message in messages if message.state in ("pending", "grouped")]
    episode = await _episode(bank, job, context)
    if not pending or episode is None:
        await context.store.commit(Changes(bank=bank, finished=[lease]))
        return Retained(), {}
    extraction = await _extract(bank, pending, episode, context, llm)
    while True:
        async with context.bank_lock(bank):
            revision = await context.store.revision(bank)
            # The episode may have been extended or deleted while the model worked.
            episode = await _episode(bank, job, context)
            if episode is None:
                raise LeaseLost
            encoded = await write_plan.encode_drafts(bank, revision, extraction.result, context, llm)
            episodes = split_by_topics(episode, pending, extraction.topics)
            changes = await write_plan.plan_writes(bank, revision, encoded, episodes, context, llm)
            jobs = await _follow_up(changes, context, observe_at)
            changes = await write_plan.inherit_expiry(
                await write_plan.close_outdated_observations(changes, context.store), context.store
            )
            processed = replace(changes, pending=[message.id for message in pending], becomes="extracted")
            committed = await context.store.commit(
                replace(processed, jobs=jobs, spending=llm.spending, finished=[lease])
            )
        if committed:
            context.entity_cache.committed(bank, revision, changes)
            return retained_by(changes, llm.take_usage(), extraction.result.skipped), encoded.same_entities
        await require_lease(lease, context)


async def _episode(bank: BankId, job: ExtractionJob, context: RetainContext) -> Episode | None:
    return first_of(await context.store.episodes(bank, EpisodeSelect(ids=[job.episode])))


async def _extract(
    bank: BankId, pending: Sequence[Message], episode: Episode, context: RetainContext, llm: StructuredLLM
) -> EpisodeExtraction:
    southern = context.settings.southern_seasons
    lines = await asyncio.to_thread(extraction_lines, pending, southern=southern)
    if not lines:
        return EpisodeExtraction(result=ExtractionResult(drafts=(), engine=llm.name))
    lines = await _with_noise(lines, context)
    stored = await context.store.bank(bank)
    known = await known_facts(bank, pending, context)
    fresh = {message.id for message in pending}
    earlier = [id for id in episode.messages if id not in fresh][-PRECEDING_MESSAGES:]
    # What is known of the subject without quoting a line. The title of a continued episode describes earlier messages.
    speakers = ", ".join(dict.fromkeys(message.voice for message in pending))
    subjects = ", ".join([*([episode.title] if earlier else []), *known.names])
    source = ExtractionInput(
        lines=lines,
        before=tuple(await context.store.messages(bank, MessageSelect(ids=earlier))) if earlier else (),
        known=known.facts,
        instructions=known.instructions,
        entities=known.entities,
        title=f"{speakers} about {subjects}" if subjects else speakers,
        repeats=known.repeats,
        agent=stored.profile.name if stored is not None else "assistant",
    )
    return await context.llm_extractor.extract(source, llm)


async def _with_noise(lines: Sequence[ExtractionLine], context: RetainContext) -> tuple[ExtractionLine, ...]:
    """Return lines with the mark of those that the packaged reader takes for noise."""
    texts = [with_date(f"{line.message.voice}: {line.text}", line.message.timestamp) for line in lines]
    users, model, name = agent_users([line.message for line in lines]), context.embedder, context.embedder.name
    read = await encodings(model, texts, "document") if gives_tokens(model) else [None] * len(lines)
    return tuple(
        replace(line, noise=is_noise_line(line.message, line.text, each, name, to_agent=line.message.id in users))
        for line, each in zip(lines, read, strict=True)
    )


async def _follow_up(changes: Changes, context: RetainContext, observe_at: datetime) -> list[NewJob]:
    """Return the jobs that new facts cause: opinion updates and observations of their entities."""
    new = [item.fact for item in changes.facts]
    closed = await context.store.facts(changes.bank, FactSelect(ids=[closing.fact for closing in changes.closures]))
    touched = {mention.id: mention for fact in (*new, *closed) for mention in fact.entities}
    described = [mention.id for mention in touched.values() if least_facts(mention.type) is not None]
    jobs = [NewJob(kind="observe", key=id, due=observe_at) for id in described]
    evidence: list[JsonValue] = [fact.id for fact in new if fact.network in ("world", "experience")]
    if evidence and await context.store.facts(changes.bank, FactSelect.believed("opinion")):
        jobs.append(NewJob(kind="opinions", key=str(evidence[0]), detail={"facts": evidence}))
    return jobs


# Known facts that new messages touch. The numbers were chosen on annotated conversations of which none is a benchmark.
INSTRUCTIONS = 30
"""Standing instructions that are shown, the newest ones."""
NEAREST, MIN_COSINE = 16, 0.05
"""Facts near each message that are considered, and their least cosine."""
NAMED_ENTITIES, FACTS_PER_ENTITY = 24, 16
"""Entities named in the messages, and facts of each, that are considered as well."""
_WORD = re.compile(r"\w[\w'’-]+")
SHARED, DATED, LONG = 0.9, 0.1, 0.06
"""Weight of the share of a fact's words that a statement has, beside how much nearer they are to each other than to
others; what a dated plan gains, and an event that was over when mentioned, or a deed of the agent, loses; and weight of
a fact's length, because a long one takes the room of others."""
TOUCHED, FEW_FACTS, KNOWN_FACTS = 0.01, 8, 28
"""Score from which a fact is shown, and the numbers of facts that are shown at least and at most."""
ENDED_DAYS = 14.0
"""Days in which a fact that has ended is shown with its end, as an end that was announced is spoken of then."""
REPEATED_COSINE = 0.8
"""Cosine from which a message probably repeats a known fact."""


@dataclass(frozen=True, kw_only=True)
class KnownFacts:
    """Known facts in the order of their times, standing instructions, and the known entities that messages name.

    `names` has those of entities that are no speakers. `repeats` is set if most messages probably repeat known facts.
    """

    facts: tuple[Fact, ...] = ()
    instructions: tuple[Fact, ...] = ()
    entities: tuple[Entity, ...] = ()
    names: tuple[str, ...] = ()
    repeats: bool = False


async def known_facts(bank: BankId, messages: Sequence[Message], context: RetainContext) -> KnownFacts:
    """Return the current facts near the messages or with rare words of them, and all standing instructions."""
    speakers = {message.voice for message in messages}
    entities = await _named(bank, messages, context)
    names = tuple(entity.name for entity in entities if entity.name not in speakers)
    newest = FactSelect(instructions=True, current=True, newest_first=True, limit=INSTRUCTIONS)
    own = {message.id for message in messages}
    standing = [fact for fact in await context.store.facts(bank, newest) if own.isdisjoint(fact.messages)]
    said = _statements(messages)
    vectors = np.stack(list(await context.embedder.embed(said, "document")))
    facts = await _candidates(bank, vectors, entities, messages, context)
    found = KnownFacts(instructions=tuple(reversed(standing)), entities=tuple(entities), names=names)
    if not facts:
        return found
    cosines = vectors @ np.stack([np.array(fact.embedding, np.float32) for fact in facts]).T
    scores = cosines - cosines.mean(axis=1, keepdims=True)
    # With one statement a fact is as near to it as to all of them.
    scores -= (1 - 1 / len(said)) * scores.mean(axis=0)
    scores += SHARED * await asyncio.to_thread(_shared_words, said, [fact.text for fact in facts])
    past = [is_past_event(fact) or fact.network == "experience" for fact in facts]
    dated = [-1 if over else fact.occurred_end is not None for fact, over in zip(facts, past, strict=True)]
    lengths = np.log1p([fact.tokens for fact in facts])
    scores = scores.max(axis=0) + DATED * np.array(dated) - LONG * lengths
    number = min(max(int((scores > TOUCHED).sum()), FEW_FACTS), KNOWN_FACTS)
    best: list[int] = np.argsort(-scores, kind="stable")[:number].tolist()
    shown = sorted((facts[at] for at in best), key=lambda fact: fact.mentioned_at)
    return replace(
        found,
        facts=tuple(fact.model_copy(update={"embedding": None}) for fact in shown),
        repeats=float((cosines.max(axis=1) >= REPEATED_COSINE).mean()) >= 0.5,
    )


def _statements(messages: Sequence[Message]) -> list[str]:
    """Return the statements of messages with their speakers, and each message with the one before it."""
    texts = [f"{message.voice}: {message.content[: write_plan.MESSAGE_CHARACTERS]}" for message in messages]
    parts = [
        f"{message.voice}: {part.text}"
        for message in messages
        for part in split_statements(message.content[: write_plan.MESSAGE_CHARACTERS])
    ]
    return [*parts, *map("\n".join, pairwise(texts))] or texts


def _shared_words(said: Sequence[str], facts: Sequence[str]) -> Vectors:
    """Return the share of each fact's words that each statement has; a word counts more the fewer facts have it."""
    known = [frozenset(terms(text)) for text in facts]
    number = Counter(term for words in known for term in words)

    def weight(words: AbstractSet[str]) -> float:
        return math.fsum(math.log((1 + len(facts)) / (0.5 + number[term])) for term in words)

    # The speaker is no word of a statement.
    spoken = [frozenset(terms(text.partition(": ")[2])) for text in said]
    shared = [[weight(words & own) for words in known] for own in spoken]
    return np.array(shared, np.float32) / np.array([weight(words) or 1 for words in known], np.float32)


async def _named(bank: BankId, messages: Sequence[Message], context: RetainContext) -> list[Entity]:
    """Return the known entities that the messages may name by a word of their names, and the speakers."""
    speakers = [word for message in messages for word in (message.voice, *message.voice.split())]
    said = [word for message in messages for word in _WORD.findall(message.content)]
    revision = await context.store.revision(bank)
    ids = await context.entity_cache.named(bank, revision, dict.fromkeys([*speakers, *said]))
    return list(await context.store.entities(bank, EntitySelect(ids=ids[:NAMED_ENTITIES]))) if ids else []


async def _candidates(
    bank: BankId, vectors: Vectors, entities: Sequence[Entity], messages: Sequence[Message], context: RetainContext
) -> list[Fact]:
    """Return current facts near the messages and about the entities, with their embeddings."""
    near = await _nearest(bank, vectors, context)
    about = [
        fact
        for entity in entities
        for fact in await context.store.facts(
            # What has ended since the conversation took place was true in it.
            bank,
            replace(FactSelect.about(entity.id, limit=FACTS_PER_ENTITY), current=False, with_embeddings=True),
        )
    ]
    own = {message.id for message in messages}
    at = messages[0].timestamp - timedelta(days=ENDED_DAYS)
    known = {fact.id: fact for fact in (*near, *about)}
    return [
        fact
        for fact in known.values()
        if is_current(fact, at) and not fact.instruction and own.isdisjoint(fact.messages)
    ]


async def _nearest(bank: BankId, vectors: Vectors, context: RetainContext) -> list[Fact]:
    """Return the facts nearest to each vector. Opinions and profiles are among them and repeat what facts say."""
    found = await context.store.nearest(bank, vectors, limit=2 * NEAREST, floor=MIN_COSINE)
    ids = list(dict.fromkeys(hit.id for hits in found for hit in hits))
    loaded = await context.store.facts(bank, FactSelect(ids=ids, with_embeddings=True)) if ids else []
    facts = {fact.id: fact for fact in loaded if fact.network in ("world", "experience")}
    near = (hit.id for hits in found for hit in [hit for hit in hits if hit.id in facts][:NEAREST])
    return [facts[id] for id in dict.fromkeys(near)]


# Grouping. A run that fits into an episode is extracted as a whole, and the extraction divides it into topics. Longer
# runs are divided by topic first, with one LLM call for all of them.
GROUPING_BATCH = 100
_PREVIEW_CHARACTERS = 300


@dataclass(frozen=True)
class _TopicGroup:
    messages: tuple[Message, ...]
    topic: str = ""


async def group_messages(
    bank: BankId, messages: Sequence[Message], context: RetainContext, llm: StructuredLLM
) -> Changes:
    """Return the changes that place pending messages in new episodes or the open one, and queue their extraction."""
    vectors, settings = await write_plan.embed_messages(messages, context), context.settings
    gap = timedelta(minutes=settings.episode_gap_minutes)
    runs = [
        stream[place.start : place.stop]
        for stream in by_document(messages)
        for place in runs_without_gap([message.timestamp for message in stream], gap)
    ]
    large = [run for run in runs if len(run) > settings.episode_messages]
    grouped = iter(await _group_with_llm(large, llm, settings.episode_messages) if large else [])
    groups = [next(grouped) if len(run) > settings.episode_messages else [_TopicGroup(run)] for run in runs]
    episodes: list[Episode] = []
    jobs: list[NewJob] = []
    for run, parts in zip(runs, groups, strict=True):
        earlier = await _open_episode(bank, run[0], context)
        for part in parts:
            episode = _placed(part, earlier, vectors, settings)
            earlier = None
            episodes.append(episode)
            ids: list[JsonValue] = [message.id for message in part.messages]
            jobs.append(NewJob(kind="extract", key=str(ids[0]), detail={"episode": episode.id, "messages": ids}))
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

    request = load_prompt("retain", "segment").request(LineGroups, lines=quote(lines))
    answer = await llm.ask(request, LineGroups, problems, lenient=True)
    topics = iter(group_by_line([group.lines for group in answer.groups], len(everything)))
    return [_run_groups(run, list(islice(topics, len(run))), answer, most) for run in runs]


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
    if before is None or first.timestamp - before.timestamp > timedelta(minutes=context.settings.episode_gap_minutes):
        return None
    episode = first_of(await context.store.episodes(bank, EpisodeSelect(messages=[before.id])))
    if episode is None:
        return None
    messages = tuple(await context.store.messages(bank, MessageSelect(ids=episode.messages)))
    vectors = await write_plan.embed_messages(messages, context)
    lines = tuple(MessageVector(message.timestamp, vectors[message.id]) for message in messages)
    return OpenEpisode(episode, messages, lines)


def _placed(part: _TopicGroup, earlier: OpenEpisode | None, vectors: MessageVectors, settings: Settings) -> Episode:
    if (
        earlier is not None
        and len(part.messages) <= capacity(earlier, settings)
        and _continues(part, earlier, vectors, settings)
    ):
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
