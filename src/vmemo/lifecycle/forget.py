"""Forgetting: deletes messages with everything that rests on them, in one commit.

Work grows with what is deleted. Two searches may read more: the messages that name a forgotten entity are looked for
in all messages whose words no fact repeats, and a name is looked for in the facts about its entity until one uses it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

from vmemo.errors import NotFound, StoreBusy
from vmemo.lifecycle import forget_rules as rules
from vmemo.lifecycle.entity_merges import observation_job
from vmemo.lifecycle.forget_names import NameRecords, RemainingNames, owned_names
from vmemo.models import BankId, Entity, EntityId, Fact, FactId, Message, MessageId, MessageState, new_id
from vmemo.models.auth import CompletedRequest, no_request
from vmemo.models.changes import Changes, Deletions, ForgetTarget, Lease, MergeRecord, NewJob
from vmemo.models.results import Forgotten
from vmemo.models.search import ExpandRequest, RevisionEdge, RevisionQuery, Scope
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import Scrubber, Store
from vmemo.ports.paging import paged
from vmemo.ports.renewal import renewed

PAGE = 1000
"""Facts or messages that are read together when names are looked for."""
LEASE_SECONDS = 5.0
"""Seconds until the hold of a process that died ends; a living one renews it while it reads records."""
WAIT_SECONDS = 60.0
"""Seconds that another process's hold is waited for."""
HOLD_PAUSE = 0.02
"""Seconds between two attempts to hold a bank."""
UNREPEATED: tuple[MessageState, ...] = ("pending", "grouped", "extracted", "raw")
"""States of messages whose words no fact repeats."""


async def forget(
    store: Store,
    bank: BankId,
    target: ForgetTarget,
    *,
    completed: Callable[[Forgotten], CompletedRequest | None] = no_request,
) -> Forgotten:
    """Delete a target with everything that rests on it, and return the counts."""

    def completing(counts: Forgotten) -> CompletedRequest | None:
        # If this response is returned, nobody knows how far the scrub came.
        return completed(counts.model_copy(update={"scrub_pending": isinstance(store, Scrubber)}))

    if target.bank:
        return await _forget_bank(store, bank, completing)

    async def plan() -> ForgetPlan:
        made = await plan_forget(store, bank, target)
        return replace(made, changes=replace(made.changes, completes=completing(made.counts)))

    return await _commit_held(store, bank, plan)


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


async def _forget_bank(
    store: Store, bank: BankId, completed: Callable[[Forgotten], CompletedRequest | None]
) -> Forgotten:
    status = await store.status(bank)
    counts = Forgotten.of({name: getattr(status, name) for name in ("messages", "facts", "episodes", "entities")})
    if not await store.drop_bank(bank, completes=completed(counts)):
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
    reader = _Reader(store, bank)
    entity, about = await reader.entity(target), await reader.about(target)
    gone = await reader.targeted(target, entity, about)
    reach = await reader.reach(gone, about)
    names = await reader.names(reach, entity)
    requeued = await store.messages(bank, MessageSelect(ids=sorted(reach.requeued)))
    waiting = any(message.state != "raw" for message in requeued)
    described = await reader.described(reach, names.kept.keys())
    successors = await reader.successors(reach)
    reopened, rewired = rules.reopen(reach.facts, successors, await reader.revisions(reach))
    jobs = await store.jobs(bank, ["extract", "observe"])
    changes = Changes(
        bank=bank,
        revision=revision,
        requeued=[message.id for message in requeued],
        entities=list(names.changed.values()),
        merges=list(names.changed_merges.values()),
        mentions=[replace(mention, name_in_text="") for mention in names.unsaid],
        reopened=reopened,
        rewired=rewired,
        deleted=Deletions(
            messages=sorted(gone),
            episodes=sorted(reach.episodes),
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


@dataclass(frozen=True)
class _Reader:
    """Reads of the records of one bank."""

    store: Store
    bank: BankId

    async def entity(self, target: ForgetTarget) -> Entity | None:
        if target.entity is None:
            return None
        found = first_of(await self.store.entities(self.bank, EntitySelect(ids=[target.entity])))
        if found is None:
            raise NotFound(f"There is no entity {target.entity!r} in this bank. Nothing was forgotten.")
        return found

    async def about(self, target: ForgetTarget) -> list[Fact]:
        """Return the facts that mention a forgotten entity."""
        if target.entity is None:
            return []
        return await self.store.facts(self.bank, FactSelect(entities=[target.entity]))

    async def targeted(self, target: ForgetTarget, entity: Entity | None, about: Sequence[Fact]) -> set[MessageId]:
        """Return the messages to delete."""
        if entity is not None:
            return rules.sources_of(about) | await self._naming((entity.name, *entity.aliases))
        if target.document is not None:
            held = await self.store.messages(self.bank, MessageSelect(document=target.document))
            if not held:
                raise NotFound(f"There is no document {target.document!r} in this bank. Nothing was forgotten.")
            return {message.id for message in held}
        found = {message.id for message in await self.store.messages(self.bank, MessageSelect(ids=target.messages))}
        missing = [id for id in target.messages if id not in found]
        if missing:
            raise NotFound(f"There is no message {missing[0]!r} in this bank. Nothing was forgotten.")
        return found

    async def _naming(self, names: Iterable[str]) -> set[MessageId]:
        """Return the messages that hold one of an entity's names and whose words no fact repeats."""
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)", re.IGNORECASE)
        return {
            message.id
            for state in UNREPEATED
            async for message in self._messages(state)
            if pattern.search(message.content)
        }

    def _messages(self, state: MessageState | None = None) -> AsyncIterator[Message]:
        return paged(
            lambda after: self.store.messages(self.bank, MessageSelect(after=after, state=state, limit=5 * PAGE))
        )

    async def reach(self, gone: AbstractSet[MessageId], about: Sequence[Fact]) -> rules.Reach:
        """Follow forgotten messages and facts to everything that rests on them."""
        reach = rules.Reach(gone)
        quoting = await self.store.facts(self.bank, FactSelect(context=sorted(gone)))
        edge = gone | reach.follow((), await self._with_dependents([*about, *quoting], reach.facts))
        while edge:
            episodes = await self.store.episodes(self.bank, EpisodeSelect(messages=sorted(edge)))
            stated = await self.store.facts(self.bank, FactSelect(messages=sorted(edge)))
            edge = reach.follow(episodes, await self._with_dependents(stated, reach.facts))
        return reach

    async def _with_dependents(self, facts: Iterable[Fact], known: Mapping[FactId, Fact]) -> list[Fact]:
        """Return the facts that are not known, with those that rest on them, directly or not."""
        found: dict[FactId, Fact] = {}
        edge = [fact for fact in facts if fact.id not in known]
        while edge:
            found |= {fact.id: fact for fact in edge}
            resting = await self.store.facts(self.bank, FactSelect(basis=[fact.id for fact in edge]))
            edge = [fact for fact in resting if fact.id not in found and fact.id not in known]
        return list(found.values())

    async def successors(self, reach: rules.Reach) -> list[Fact]:
        """Return the remaining facts that replaced a lost one, or one that a lost one replaced."""
        replaced = {fact.supersedes for fact in reach.facts.values() if fact.supersedes is not None}
        return await self.store.facts(self.bank, FactSelect(supersedes=sorted(reach.facts.keys() | replaced)))

    async def revisions(self, reach: rules.Reach) -> Sequence[RevisionEdge]:
        """Return the links to the facts that lost ones replaced."""
        replaced = {edge.older for edge in await self._revisions(reach.facts) if edge.newer in reach.facts}
        return await self._revisions(replaced - reach.facts.keys())

    async def _revisions(self, facts: Iterable[FactId]) -> Sequence[RevisionEdge]:
        query = RevisionQuery(scope=Scope(bank=self.bank, include_expired=True), facts=sorted(facts))
        if not query.facts:
            return ()
        return (await self.store.expand(ExpandRequest(bank=self.bank, revisions=query))).revisions

    async def described(self, reach: rules.Reach, kept: AbstractSet[EntityId]) -> set[EntityId]:
        """Return the remaining entities with an observation that is deleted, or outdated."""
        if not kept:
            return set()
        current = await self.store.facts(
            self.bank, FactSelect(entities=sorted(kept), networks=("observation",), current=True)
        )
        return rules.describes([*reach.facts.values(), *current], kept)

    async def names(self, reach: rules.Reach, forgotten: Entity | None) -> RemainingNames:
        """Return what is left of the entities that lost facts, and of names that nobody goes by any more."""
        ids = sorted({mention.id for fact in reach.facts.values() for mention in fact.entities})
        merges = await self.store.merges(self.bank)
        records = NameRecords(
            lost=reach.facts,
            touched=await self.store.entities(self.bank, EntitySelect(ids=ids)),
            forgotten=None if forgotten is None else forgotten.id,
            mentions=await self.store.mentions(self.bank, ids, named=True),
            merges=merges,
            living=await self._living(merges),
        )
        wanted = records.wanted_names()
        left = records.remaining({id: await self._used(id, names, reach.facts) for id, names in wanted.items()})
        separated = left.current(await self.store.entities(self.bank, EntitySelect(with_not_aliases=True)))
        names = left.not_aliases(separated)
        if not names:
            return left
        owners = await self.store.entities(self.bank, EntitySelect(names=sorted(names)))
        names -= owned_names(names, left.current(owners))
        return left.without_not_aliases(separated, names - await self._held(names, reach.gone))

    async def _living(self, merges: Sequence[MergeRecord]) -> set[EntityId]:
        """Return the entities of merges that exist."""
        ids = {id for merge in merges for id in (merge.entity, merge.absorbed, merge.parted) if id is not None}
        return {entity.id for entity in await self.store.entities(self.bank, EntitySelect(ids=sorted(ids)))}

    async def _used(self, entity: EntityId, names: Iterable[str], lost: Mapping[FactId, Fact]) -> set[str]:
        """Return the names that the remaining facts about an entity use, case-folded."""
        missing = {name.casefold() for name in names}
        found: set[str] = set()
        facts = paged(lambda after: self.store.facts(self.bank, FactSelect(entities=[entity], after=after, limit=PAGE)))
        async for fact in facts:
            if fact.id not in lost:
                text = fact.text.casefold()
                found |= {name for name in missing if name in text}
                missing -= found
            if not missing:
                break
        return found

    async def _held(self, names: AbstractSet[str], gone: AbstractSet[MessageId]) -> set[str]:
        """Return the names that a remaining message holds, or that its speaker goes by."""
        found: set[str] = set()
        if not names:
            return found
        async for message in self._messages():
            if message.id not in gone:
                line = f"{message.speaker or ''}\n{message.content}".casefold()
                found |= {name for name in names - found if name.casefold() in line}
            if len(found) == len(names):
                break
        return found
