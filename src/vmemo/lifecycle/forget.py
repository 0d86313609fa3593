"""Forgetting: deletes messages, or one fact, with everything that rests on them, in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Protocol, runtime_checkable

from vmemo.errors import NotFound, StoreBusy
from vmemo.lifecycle import forget_rules as rules
from vmemo.lifecycle.entity_merges import observation_job
from vmemo.lifecycle.forget_reader import ForgetReader
from vmemo.models import (
    BankId,
    Message,
    MessageId,
    new_id,
)
from vmemo.models.changes import Changes, Deletions, ForgetTarget, Lease, NewJob
from vmemo.models.results import Forgotten
from vmemo.models.select import EpisodeSelect, MessageSelect
from vmemo.ports import Embedder, Scrubber, Store
from vmemo.ports.store import renewed

LEASE_SECONDS = 5.0
"""Seconds until the hold of a process that died ends; a living one renews it while it reads records."""
WAIT_SECONDS = 60.0
"""Seconds that another process's hold is waited for."""
HOLD_PAUSE = 0.02
"""Seconds between two attempts to hold a bank."""


async def forget(store: Store, bank: BankId, target: ForgetTarget) -> Forgotten:
    """Delete a target with everything that rests on it, and return the counts."""
    if target.bank:
        return await _forget_bank(store, bank)
    return await _commit_held(store, bank, lambda: plan_forget(store, bank, target))


@runtime_checkable
class _Cache(Protocol):
    def clear(self) -> None: ...


def clear_cache(embedder: Embedder) -> None:
    """Remove forgotten texts from the embedder's cache, if it has one."""
    if isinstance(embedder, _Cache):
        embedder.clear()


async def replace_messages(
    store: Store, bank: BankId, removed: Sequence[MessageId], added: Sequence[Message]
) -> Forgotten:
    """Forget messages, those that still exist, and append others, all in one commit."""

    async def plan() -> ForgetPlan:
        left = [message.id for message in await store.messages(bank, MessageSelect(ids=list(removed)))]
        made = ForgetPlan(changes=Changes(bank=bank), counts=Forgotten())
        if left:
            made = await plan_forget(store, bank, ForgetTarget(messages=left))
        waiting = any(message.state == "pending" for message in added)
        jobs = [*made.changes.jobs, *([NewJob(kind="process")] if waiting else ())]
        return replace(made, changes=replace(made.changes, messages=added, jobs=jobs))

    return await _commit_held(store, bank, plan)


async def _commit_held(store: Store, bank: BankId, make_plan: Callable[[], Awaitable[ForgetPlan]]) -> Forgotten:
    """Commit a plan and return its counts.

    The bank is held meanwhile, so that no other change makes the plan outdated again and again.
    """
    while True:
        lease = await _hold(store, bank)
        committed = False
        try:
            # A lease that is lost all the same makes the commit fail if another one came first.
            async with renewed(partial(store.renew, [lease], LEASE_SECONDS), LEASE_SECONDS / 3):
                plan = await make_plan()
            committed = await store.commit(replace(plan.changes, finished=[lease]))
        finally:
            if not committed:
                await _release(store, bank, lease)
        if committed:
            return await _scrubbed(store, plan.counts)


async def _forget_bank(store: Store, bank: BankId) -> Forgotten:
    status = await store.status(bank)
    counts = Forgotten.of({name: getattr(status, name) for name in ("messages", "facts", "episodes", "entities")})
    if not await store.drop_bank(bank):
        raise NotFound(f"There is no bank {bank!r} here.")
    return await _scrubbed(store, counts)


async def _scrubbed(store: Store, forgotten: Forgotten) -> Forgotten:
    pending = isinstance(store, Scrubber) and not await store.scrub()
    return forgotten.model_copy(update={"scrub_pending": pending})


async def _hold(store: Store, bank: BankId) -> Lease:
    owner, deadline = f"forget {new_id()}", monotonic() + WAIT_SECONDS
    while True:
        taking = asyncio.ensure_future(store.hold(bank, owner, LEASE_SECONDS))
        try:
            lease = await asyncio.shield(taking)
        except asyncio.CancelledError:
            if (taken := await taking) is not None:
                await _release(store, bank, taken)
            raise
        if lease is not None:
            return lease
        if monotonic() > deadline:
            raise StoreBusy(f"Another process holds the bank {bank!r}. Nothing was forgotten; try again.")
        await asyncio.sleep(HOLD_PAUSE)


async def _release(store: Store, bank: BankId, lease: Lease) -> None:
    with suppress(NotFound):
        await store.commit(Changes(bank=bank, finished=[lease]))


async def ungroup(store: Store, bank: BankId) -> int:
    """Take messages that wait in an episode out of it, with the jobs to extract from it; return their number.

    An episode keeps its processed messages; one without any is deleted.
    """
    while True:
        revision = await store.revision(bank)
        grouped = {message.id for message in await store.messages(bank, MessageSelect(state="grouped"))}
        if not grouped:
            return 0
        held = await store.episodes(bank, EpisodeSelect(messages=sorted(grouped)))
        left = [id for episode in held for id in episode.messages if id not in grouped]
        remaining = {message.id: message for message in await store.messages(bank, MessageSelect(ids=left))}
        shrunk = [rules.shrink(episode, remaining) for episode in held]
        changes = Changes(
            bank=bank,
            revision=revision,
            requeued=sorted(grouped),
            episodes=[episode for episode in shrunk if episode is not None],
            deleted=Deletions(
                episodes=[was.id for was, episode in zip(held, shrunk, strict=True) if episode is None],
                # No message is grouped any more, so that no episode is left to extract from.
                jobs=[job.id for job in await store.jobs(bank, ["extract"])],
            ),
            jobs=[NewJob(kind="process")],
        )
        if await store.commit(changes):
            return len(grouped)


@dataclass(frozen=True, kw_only=True)
class ForgetPlan:
    """The changes that forget a target, and their counts."""

    changes: Changes
    counts: Forgotten


async def plan_forget(store: Store, bank: BankId, target: ForgetTarget) -> ForgetPlan:
    """Return what forgetting a target changes, without changing anything."""
    revision = await store.revision(bank)
    reader = ForgetReader(store, bank)
    entity, about = await reader.entity(target), await reader.about(target)
    versions = await reader.versions(target)
    gone = await reader.targeted(target, entity, about) if target.fact is None else await reader.sole_sources(versions)
    reach = await reader.reach(gone, about, versions)
    curated = rules.sources_of(versions) - gone
    names = await reader.names(reach, entity)
    requeued = await store.messages(bank, MessageSelect(ids=sorted(reach.requeued)))
    waiting = any(message.state != "raw" for message in requeued)
    described = await reader.described(reach, names.kept.keys())
    # A deleted observation is not formed again at once.
    described -= {mention.id for fact in versions if fact.network == "observation" for mention in fact.entities}
    shrunk = await reader.without(curated, reach)
    successors = await reader.successors(reach)
    reopened, rewired = rules.reopen(reach.facts, successors, await reader.revisions(reach))
    jobs = await store.jobs(bank, ["extract", "observe"])
    changes = Changes(
        bank=bank,
        revision=revision,
        requeued=[message.id for message in requeued],
        curated=sorted(curated),
        without_context=await reader.without_context(reach),
        episodes=[episode for episode in shrunk.values() if episode is not None],
        entities=list(names.changed.values()),
        merges=list(names.changed_merges.values()),
        mentions=[replace(mention, name_in_text="") for mention in names.unsaid],
        reopened=reopened,
        rewired=rewired,
        deleted=Deletions(
            messages=sorted(gone),
            episodes=sorted({*reach.episodes, *(id for id, episode in shrunk.items() if episode is None)}),
            facts=sorted(reach.facts),
            entities=sorted(names.deleted),
            mentions=names.unsaid,
            merges=names.deleted_merges,
            jobs=rules.obsolete_jobs(jobs, reach.episodes.keys(), names.deleted),
        ),
        erase=True,
        jobs=[*([NewJob(kind="process")] if waiting else ()), *map(observation_job, sorted(described))],
    )
    return ForgetPlan(changes=changes, counts=_counts(changes))


def _counts(changes: Changes) -> Forgotten:
    deleted = changes.deleted
    return Forgotten(
        messages=len(deleted.messages),
        facts=len(deleted.facts),
        episodes=len(deleted.episodes),
        entities=len(deleted.entities),
        requeued=len(changes.requeued),
    )
