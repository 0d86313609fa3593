"""LLM jobs: group pending messages into episodes, and extract the facts of an episode."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from pydantic import JsonValue

from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Episode, EpisodeId, Message, MessageId
from vmemo.models.changes import Changes, Lease, NewJob
from vmemo.models.drafts import ExtractionResult
from vmemo.models.records import least_facts
from vmemo.models.results import Retained, Usage
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import split_by_topics
from vmemo.retain.expiry import inherit_expiry
from vmemo.retain.extraction_input import PRECEDING_MESSAGES, ExtractionInput, extraction_lines
from vmemo.retain.group import GROUPING_BATCH, group_messages
from vmemo.retain.known_facts import known_facts
from vmemo.retain.llm_extraction import EpisodeExtraction
from vmemo.retain.outdated_observations import close_outdated_observations
from vmemo.retain.pipeline import retained_by
from vmemo.retain.write_plan import encode_drafts, plan_writes


class LeaseLost(Exception):
    """Another worker has taken over the job; nothing is committed here."""


@dataclass(frozen=True, kw_only=True)
class ExtractionJob:
    """The messages of an episode to extract."""

    episode: EpisodeId
    messages: tuple[MessageId, ...]

    @staticmethod
    def of(detail: Mapping[str, JsonValue]) -> ExtractionJob:
        """Parse a job's detail."""
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
    bank: BankId,
    job: ExtractionJob,
    context: RetainContext,
    llm: StructuredLLM,
    lease: Lease,
    *,
    observe_at: datetime,
) -> Retained:
    """Extract the job's messages that are still pending, and commit their facts."""
    messages = await context.store.messages(bank, MessageSelect(ids=job.messages))
    pending = [message for message in messages if message.state in ("pending", "grouped")]
    episode = await _episode(bank, job, context)
    if not pending or episode is None:
        await context.store.commit(Changes(bank=bank, finished=[lease]))
        return Retained()
    extraction = await _extract(bank, pending, episode, context, llm)
    while True:
        async with context.bank_lock(bank):
            revision = await context.store.revision(bank)
            # The episode may have been extended or deleted while the model worked.
            episode = await _episode(bank, job, context)
            if episode is None:
                raise LeaseLost
            encoded = await encode_drafts(bank, revision, extraction.result, context, llm)
            episodes = split_by_topics(episode, pending, extraction.topics)
            changes = await plan_writes(bank, revision, encoded, episodes, context, llm)
            jobs = await _follow_up(changes, context, observe_at)
            changes = await inherit_expiry(await close_outdated_observations(changes, context.store), context.store)
            processed = replace(changes, pending=[message.id for message in pending], becomes="extracted")
            committed = await context.store.commit(
                replace(processed, jobs=jobs, spending=llm.spending, finished=[lease])
            )
        if committed:
            context.entity_cache.committed(bank, revision, changes)
            return retained_by(changes, llm.take_usage(), extraction.result.skipped)
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
    stored = await context.store.bank(bank)
    known = await known_facts(bank, pending, context)
    before = await _before(bank, pending, episode, context)
    source = ExtractionInput(
        lines=lines,
        before=before,
        known=known.facts,
        title=_title(episode, pending, known.names, continues=bool(before)),
        repeats=known.repeats,
        agent=stored.profile.name if stored is not None else "assistant",
    )
    return await context.llm_extractor.extract(source, llm)


def _title(episode: Episode, pending: Sequence[Message], names: Sequence[str], *, continues: bool) -> str:
    """Return what the messages are about, as far as it is known without their words: who speaks, and known names.

    The title of a continued episode describes the messages before them.
    """
    speakers = ", ".join(dict.fromkeys(message.voice for message in pending))
    subjects = [*([episode.title] if continues else []), *names]
    return f"{speakers} about {', '.join(subjects)}" if subjects else speakers


async def _before(
    bank: BankId, pending: Sequence[Message], episode: Episode, context: RetainContext
) -> tuple[Message, ...]:
    """Return the last messages that are already in the episode."""
    fresh = {message.id for message in pending}
    earlier = [id for id in episode.messages if id not in fresh][-PRECEDING_MESSAGES:]
    return tuple(await context.store.messages(bank, MessageSelect(ids=earlier))) if earlier else ()


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
