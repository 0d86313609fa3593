"""The work of reading one episode with a language model, from its messages to what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from pydantic import JsonValue

from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, EntityType, Episode, EpisodeId, Fact, FactId, Message, MessageId
from vmemo.models.changes import Changes, Lease, NewJob
from vmemo.models.drafts import ExtractionResult
from vmemo.models.results import Retained, Usage
from vmemo.models.search import Scope, SearchRequest
from vmemo.retain.context import RetainContext
from vmemo.retain.extraction_input import OVERHEARD, Scene, lines_of
from vmemo.retain.group import BATCH, Grouped, group, told_apart
from vmemo.retain.llm_extraction import Told
from vmemo.retain.pipeline import report
from vmemo.retain.write_plan import encode, land, message_vectors, stacked

NEAREST, FLOOR, NAMED, SHOWN = 6, 0.4, 4, 24
"""Known facts: how many each message or name brings, how near they must be, how many names count, and how many facts
are shown in all."""

DESCRIBED: frozenset[EntityType] = frozenset(("PERSON", "ORGANIZATION", "LOCATION", "PRODUCT"))
"""Types of entities that are worth a description."""


class LeaseLost(Exception):
    """Another worker has taken this work over; what was done here is not written."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Messages of an episode that are to be read."""

    episode: EpisodeId
    messages: tuple[MessageId, ...]

    @staticmethod
    def of(detail: Mapping[str, JsonValue]) -> Assignment:
        """What a job's detail asks for."""
        messages = cast("list[str]", detail["messages"])
        return Assignment(episode=EpisodeId(str(detail["episode"])), messages=tuple(map(MessageId, messages)))


async def group_all(bank: BankId, context: RetainContext, desk: StructuredLLM, lease: Lease) -> Retained:
    """Place all unread messages of a bank in episodes, batch by batch, and queue their reading."""
    usage = Usage()
    while messages := await context.store.pending(bank, BATCH):
        grouped = await group(bank, messages, context, desk)
        async with context.bank_locks(bank):
            # Facts that landed while the messages were grouped change nothing about their episodes.
            revision = await context.store.revision(bank)
            written = await context.store.commit(_grouping(bank, revision, messages, grouped, context, desk))
        if written:
            usage += desk.take_usage()
        else:
            await demand(lease, context)
    return Retained(usage=usage)


def _grouping(
    bank: BankId,
    revision: int,
    messages: Sequence[Message],
    grouped: Grouped,
    context: RetainContext,
    desk: StructuredLLM,
) -> Changes:
    return Changes(
        bank=bank,
        revision=revision,
        embedder=context.embedder.name,
        pending=[message.id for message in messages],
        episodes=grouped.episodes,
        jobs=grouped.jobs,
        spending=desk.spending,
        becomes="grouped",
    )


async def demand(lease: Lease, context: RetainContext) -> None:
    """Go on only while the work is still ours."""
    if not await context.store.renew([lease], lease.seconds):
        raise LeaseLost


async def extract(
    bank: BankId,
    assignment: Assignment,
    context: RetainContext,
    desk: StructuredLLM,
    lease: Lease,
    *,
    observe_at: datetime,
) -> Retained:
    """Read the messages of an assignment that are still unread, and write what they tell."""
    messages = await context.store.messages(bank, assignment.messages)
    unread = [message for message in messages if message.state in ("pending", "grouped")]
    episode = await _episode(bank, assignment, context)
    if not unread or episode is None:
        await context.store.commit(Changes(bank=bank, finished=[lease]))
        return Retained()
    told = await _read(bank, unread, episode, context, desk)
    while True:
        async with context.bank_locks(bank):
            revision = await context.store.revision(bank)
            batch = await _batch(bank, revision, assignment, unread, told, context, desk)
            jobs = await _follow_up(batch, context, observe_at)
            claims = [message.id for message in unread]
            landed = await context.store.commit(
                replace(batch, pending=claims, becomes="extracted", jobs=jobs, spending=desk.spending, finished=[lease])
            )
        if landed:
            context.entity_cache.landed(bank, revision, batch.entities)
            return report(batch, desk.take_usage(), told.reading.skipped)
        await demand(lease, context)


async def _batch(
    bank: BankId,
    revision: int,
    assignment: Assignment,
    unread: Sequence[Message],
    told: Told,
    context: RetainContext,
    desk: StructuredLLM,
) -> Changes:
    """What was told, beside the bank as it is now."""
    episode = await _episode(bank, assignment, context)
    if episode is None:
        raise LeaseLost
    episodes = told_apart(episode, unread, told.topics)
    encoded = await encode(bank, revision, told.reading, context, desk)
    return (await land(bank, encoded, episodes, context, desk)).batch(bank, revision, context)


async def _episode(bank: BankId, assignment: Assignment, context: RetainContext) -> Episode | None:
    found = await context.store.episodes(bank, [assignment.episode])
    return found[0] if found else None


async def _read(
    bank: BankId, unread: Sequence[Message], episode: Episode, context: RetainContext, desk: StructuredLLM
) -> Told:
    lines = lines_of(unread)
    if not lines:
        return Told(reading=ExtractionResult(drafts=(), engine=desk.name))
    stored = await context.store.bank(bank)
    scene = Scene(
        lines=lines,
        before=await _before(bank, unread, episode, context),
        known=await _known(bank, unread, context),
        topic=episode.title,
        agent=stored.profile.name if stored is not None else "assistant",
    )
    return await context.llm_extractor.read(scene, desk)


async def _before(
    bank: BankId, unread: Sequence[Message], episode: Episode, context: RetainContext
) -> tuple[Message, ...]:
    """The end of what the episode had told before, or the one message before it."""
    fresh = {message.id for message in unread}
    earlier = [id for id in episode.messages if id not in fresh][-OVERHEARD:]
    if earlier:
        return tuple(await context.store.messages(bank, earlier))
    before = await context.store.before(bank, unread[0])
    return () if before is None else (before,)


async def _known(bank: BankId, unread: Sequence[Message], context: RetainContext) -> tuple[Fact, ...]:
    """The current facts nearest to the messages, nearest first, and then the newest about whom they name."""
    vectors = list((await message_vectors(unread, context)).values())
    found = await context.store.nearest(bank, stacked(vectors, context.embedder.dimension), limit=NEAREST, floor=FLOOR)
    best: dict[FactId, float] = {}
    for hit in (hit for hits in found for hit in hits):
        best[hit.id] = max(hit.score, best.get(hit.id, 0.0))
    nearest = await context.store.facts(bank, sorted(best, key=lambda id: -best[id])[: 2 * SHOWN])
    text = " ".join(f"{message.voice}: {message.content}" for message in unread)
    named = await context.store.search(SearchRequest(scope=Scope(bank=bank), names_in=text, limit=NAMED))
    about = [
        fact for who in named.entities[:NAMED] for fact in await context.store.facts_about(bank, who.id, limit=NEAREST)
    ]
    known = {fact.id: fact for fact in (*nearest[: SHOWN - NEAREST], *about, *nearest)}
    return tuple(fact for fact in known.values() if fact.network in ("world", "experience"))[:SHOWN]


async def _follow_up(batch: Changes, context: RetainContext, observe_at: datetime) -> list[NewJob]:
    """Work that follows from new facts: opinions they may move, and entities that must be described anew."""
    new = [item.fact for item in batch.facts]
    closed = await context.store.facts(batch.bank, [closing.fact for closing in batch.closures])
    touched = [mention for fact in (*new, *closed) for mention in fact.entities]
    described = dict.fromkeys(mention.id for mention in touched if mention.type in DESCRIBED)
    jobs = [NewJob(kind="observe", key=id, due=observe_at) for id in described]
    evidence: list[JsonValue] = [fact.id for fact in new if fact.network in ("world", "experience")]
    if evidence and await context.store.believed(batch.bank, "opinion"):
        jobs.append(NewJob(kind="opinions", key=str(evidence[0]), detail={"facts": evidence}))
    return jobs
