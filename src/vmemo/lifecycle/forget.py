"""Forgetting: deletes messages, an entity or one fact, with everything that rests on them, in one commit.

The episodes of deleted messages are dissolved, and their other messages are processed again, so that no title, summary
or fact quotes deleted text. Work grows with what is deleted, except that forgetting an entity reads all messages and
episodes once to find those that name it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Protocol, runtime_checkable

import numpy as np
from pydantic import JsonValue

from vmemo.errors import NotFound, StoreBusy
from vmemo.lifecycle.entity_merges import observation_job
from vmemo.lifecycle.forget_names import EntityNames, NameRecords, RemainingNames, owned_names
from vmemo.lifecycle.reprocess import is_formed
from vmemo.models import BankId, Claim, Entity, EntityId, Episode, EpisodeId, Fact, FactId, Message, MessageId, new_id
from vmemo.models.changes import Changes, Deletions, ForgetTarget, Lease, NewFact, NewJob
from vmemo.models.records import with_feedback
from vmemo.models.results import Forgotten, Job
from vmemo.models.search import FactRevision, Scope
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import Embedder, Scrubber, Store, fact_revisions, fact_tokens, paged, renewed
from vmemo.retain.episodes import describe_episode
from vmemo.text.temporal.annotation import EDITED_BY_HAND, OWN_WORDS_ENGINES

LEASE_SECONDS = 5.0
"""Seconds until the hold of a process that died ends; a living one renews it while it reads records."""
WAIT_SECONDS = 60.0
"""Seconds that another process's hold is waited for."""
HOLD_PAUSE = 0.02
FIRST_PAGE = 10
"""Facts that are read first to look for a name of their entity: nearly always one of them uses it."""
PAGE = 1000


async def forget(store: Store, bank: BankId, target: ForgetTarget) -> Forgotten:
    """Delete a target with everything that rests on it, and return the counts."""
    if not target.bank:
        return await _commit_held(store, bank, lambda: plan_forget(store, bank, target))
    status = await store.status(bank)
    counts = Forgotten.of({name: getattr(status, name) for name in ("messages", "facts", "episodes", "entities")})
    if not await store.drop_bank(bank):
        raise NotFound(f"There is no bank {bank!r} here.")
    return await _scrubbed(store, counts)


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

    async def plan() -> Changes:
        left = [message.id for message in await store.messages(bank, MessageSelect(ids=list(removed)))]
        made = await plan_forget(store, bank, ForgetTarget(messages=left)) if left else Changes(bank=bank)
        waiting = any(message.state == "pending" for message in added)
        return replace(made, messages=added, jobs=[*made.jobs, *([NewJob(kind="process")] if waiting else ())])

    return await _commit_held(store, bank, plan)


async def _commit_held(store: Store, bank: BankId, make_plan: Callable[[], Awaitable[Changes]]) -> Forgotten:
    """Commit planned changes; the bank is held meanwhile, so that no other change makes them outdated again."""
    while True:
        lease = await _hold(store, bank)
        committed = False
        try:
            # A lease that is lost all the same makes the commit fail if another one came first.
            async with renewed(partial(store.renew, [lease], LEASE_SECONDS), LEASE_SECONDS / 3):
                plan = await make_plan()
            committed = await store.commit(replace(plan, finished=[lease]))
        finally:
            if not committed:
                await _release(store, bank, lease)
        if committed:
            return await _scrubbed(store, forgotten_by(plan))


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
    """Take messages that wait in an episode out of it, with the jobs that extract from it; return their number."""
    while True:
        revision = await store.revision(bank)
        grouped = {message.id for message in await store.messages(bank, MessageSelect(state="grouped"))}
        if not grouped:
            return 0
        held = await store.episodes(bank, EpisodeSelect(messages=sorted(grouped)))
        left = [id for episode in held for id in episode.messages if id not in grouped]
        remaining = {message.id: message for message in await store.messages(bank, MessageSelect(ids=left))}
        shrunk = [shrink(episode, remaining) for episode in held]
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


def forgotten_by(changes: Changes) -> Forgotten:
    """Return the numbers of records that changes delete or process again."""
    gone = changes.deleted
    return Forgotten(
        messages=len(gone.messages),
        facts=len(gone.facts),
        episodes=len(gone.episodes),
        entities=len(gone.entities),
        requeued=len(changes.requeued),
    )


async def plan_forget(store: Store, bank: BankId, target: ForgetTarget) -> Changes:
    """Return what forgetting a target changes, without changing anything."""
    revision = await store.revision(bank)
    reader = _ForgetReader(store, bank)
    found = await reader.targeted(target)
    reach = await reader.reach(found)
    curated = sources_of(found.versions) - found.messages
    names = await reader.remaining_names(reach, found.entity)
    requeued = await store.messages(bank, MessageSelect(ids=sorted(reach.requeued)))
    waiting = any(message.state != "raw" for message in requeued)
    observed = await reader.observed_entities(reach, names.kept.keys())
    # A deleted observation is not formed again at once.
    observed -= {mention.id for fact in found.versions if fact.network == "observation" for mention in fact.entities}
    shrunk = await reader.episodes_without(curated, reach)
    replaced = await reader.replaced(reach)
    reopened, rewired = reopen(reach.facts, await reader.successors(reach), await reader.revisions(replaced))
    jobs = await store.jobs(bank, ["extract", "observe"])
    return Changes(
        bank=bank,
        revision=revision,
        requeued=[message.id for message in requeued],
        curated=sorted(curated),
        without_context=await reader.without_context(reach),
        episodes=[episode for episode in shrunk.values() if episode is not None],
        entities=list(names.changed.values()),
        merges=list(names.changed_merges.values()),
        mentions=[replace(mention, name_in_text="") for mention in names.unused_mentions],
        reopened=reopened,
        rewired=rewired,
        claims=await reader.remaining_claims(replaced, reach),
        metadata=await reader.remaining_feedback(found.names, reach),
        deleted=Deletions(
            messages=sorted(found.messages),
            episodes=sorted({*reach.episodes, *(id for id, episode in shrunk.items() if episode is None)}),
            facts=sorted(reach.facts),
            entities=sorted(names.deleted),
            mentions=names.unused_mentions,
            merges=names.deleted_merges,
            jobs=obsolete_jobs(jobs, reach.episodes.keys(), names.deleted),
        ),
        erase=True,
        jobs=[*([NewJob(kind="process")] if waiting else ()), *map(observation_job, sorted(observed))],
    )


@dataclass(frozen=True, kw_only=True)
class _Targeted:
    """The records that a target itself selects."""

    messages: AbstractSet[MessageId]
    entity: Entity | None = None
    names: EntityNames | None = None
    facts: Sequence[Fact] = ()
    episodes: Sequence[Episode] = ()
    """Episodes whose title or narrative names the entity."""
    versions: Sequence[Fact] = ()
    """The fact to delete, with the earlier versions that the user replaced by it."""


@dataclass
class Reach:
    """The records that forgetting some messages reaches: facts and episodes to delete, messages to process again."""

    deleted: AbstractSet[MessageId]
    kept: set[MessageId] = field(default_factory=set[MessageId])
    """Messages that are not processed again, because the user edited, deleted, pinned or judged one of their facts."""
    requeued: set[MessageId] = field(default_factory=set[MessageId])
    episodes: dict[EpisodeId, Episode] = field(default_factory=dict[EpisodeId, Episode])
    facts: dict[FactId, Fact] = field(default_factory=dict[FactId, Fact])

    def follow(self, episodes: Iterable[Episode], facts: Iterable[Fact]) -> set[MessageId]:
        """Add episodes and facts; return the messages that are reached through them for the first time."""
        found = {episode.id: episode for episode in episodes}, {fact.id: fact for fact in facts}
        self.episodes |= found[0]
        self.facts |= found[1]
        members = {message for episode in found[0].values() for message in episode.messages}
        reached = (members | sources_of(found[1].values())) - self.deleted - self.kept - self.requeued
        self.requeued |= reached
        return reached


def sources_of(facts: Iterable[Fact]) -> set[MessageId]:
    """Return the messages that facts were extracted from; the evidence of a formed opinion does not state it."""
    return {message for fact in facts if not is_formed(fact) for message in fact.messages}


def reopen(
    deleted: Mapping[FactId, Fact], successors: Iterable[Fact], revisions: Iterable[FactRevision] = ()
) -> tuple[list[FactId], dict[FactId, FactId | None]]:
    """Return the facts that are current again, and what remaining facts replace now in place of a deleted one.

    `successors` are the remaining facts that replaced a deleted fact, or a fact that a deleted one replaced.
    `revisions` are all links to facts that a deleted one replaced.
    """
    left = {fact.id: fact.supersedes for fact in successors if fact.id not in deleted and fact.supersedes is not None}
    rewired = {id: _first_kept(old, deleted) for id, old in left.items() if old in deleted}
    replaced = {fact.supersedes for fact in deleted.values() if fact.supersedes is not None}
    replaced_by = [(edge.older, edge.newer) for edge in revisions if edge.kind == "replaces"]
    replaced |= {older for older, newer in replaced_by if newer in deleted}
    still_replaced = {
        *left.values(),
        *rewired.values(),
        *(older for older, newer in replaced_by if newer not in deleted),
    }
    return sorted(replaced - deleted.keys() - still_replaced), rewired


def _first_kept(id: FactId | None, deleted: Mapping[FactId, Fact]) -> FactId | None:
    """Follow a fact and those that it replaced to the first that is not deleted."""
    passed: set[FactId] = set()
    while id is not None and id in deleted:
        if id in passed:
            return None
        passed.add(id)
        id = deleted[id].supersedes
    return id


def described_by(facts: Iterable[Fact], entities: AbstractSet[EntityId]) -> set[EntityId]:
    """Return those of some entities that an observation is about."""
    observations = [fact for fact in facts if fact.network == "observation"]
    return {mention.id for fact in observations for mention in fact.entities} & entities


def obsolete_jobs(jobs: Iterable[Job], episodes: AbstractSet[EpisodeId], entities: AbstractSet[EntityId]) -> list[int]:
    return [
        job.id
        for job in jobs
        if (job.kind == "extract" and job.detail.get("episode") in episodes)
        or (job.kind == "observe" and job.key in entities)
    ]


def shrink(episode: Episode, remaining: Mapping[MessageId, Message]) -> Episode | None:
    """Return an episode with those of its messages that remain in it, or None if there are none."""
    left = [remaining[id] for id in episode.messages if id in remaining]
    if not left:
        return None
    times = [message.timestamp for message in left]
    ids = tuple(message.id for message in left)
    return episode.model_copy(update={"messages": ids, "started_at": min(times), "ended_at": max(times)})


@dataclass(frozen=True)
class _ForgetReader:
    """Reads of the records of one bank that a forget concerns."""

    store: Store
    bank: BankId

    async def targeted(self, target: ForgetTarget) -> _Targeted:
        """Return the records that a target selects; raise NotFound if one does not exist."""
        if target.entity is not None:
            return await self._about_entity(target.entity)
        if target.fact is not None:
            versions = await self._versions(target.fact)
            messages = sorted(sources_of(versions))
            stated = await self.store.facts(self.bank, FactSelect(messages=messages)) if messages else []
            # The messages that state nothing else.
            ids = {fact.id for fact in versions}
            sole = sources_of(versions) - sources_of(fact for fact in stated if fact.id not in ids)
            return _Targeted(messages=sole, versions=versions)
        if target.document is not None:
            held = await self.store.messages(self.bank, MessageSelect(document=target.document))
            if not held:
                raise NotFound(f"There is no document {target.document!r} in this bank. Nothing was forgotten.")
            return _Targeted(messages={message.id for message in held})
        found = {message.id for message in await self.store.messages(self.bank, MessageSelect(ids=target.messages))}
        missing = [id for id in target.messages if id not in found]
        if missing:
            raise NotFound(f"There is no message {missing[0]!r} in this bank. Nothing was forgotten.")
        return _Targeted(messages=found)

    async def _about_entity(self, id: EntityId) -> _Targeted:
        """Return an entity with the messages, facts and episodes that mention or name it, and the messages it said."""
        entity = first_of(await self.store.entities(self.bank, EntitySelect(ids=[id])))
        if entity is None:
            raise NotFound(f"There is no entity {id!r} in this bank. Nothing was forgotten.")
        others: dict[EntityId, Entity] = {}
        for name in (entity.name, *entity.aliases):
            near = await self.store.entities(self.bank, EntitySelect(containing=name, counted=False))
            others |= {each.id: each for each in near if each.id != id}
        names = EntityNames(entity, list(others.values()))
        facts = await self.store.facts(self.bank, FactSelect(entities=[id]))
        for name in names.unambiguous:
            holding = await self.store.facts(self.bank, FactSelect(containing=[name]))
            facts += [fact for fact in holding if names.are_in(fact.text)]
        episodes = paged(lambda after: self.store.episodes(self.bank, EpisodeSelect(after=after, limit=PAGE)))
        return _Targeted(
            entity=entity,
            names=names,
            facts=facts,
            messages=sources_of(facts) | await self._naming(names),
            episodes=[each async for each in episodes if names.are_in(f"{each.title}\n{each.narrative}")],
        )

    async def _naming(self, names: EntityNames) -> set[MessageId]:
        """Return the messages that name an entity or that it said, except those whose facts mention a namesake."""
        found: set[MessageId] = set()
        unclear: list[MessageId] = []
        async for message in self._messages():
            if names.are_in(message.content) or names.is_speaker(message):
                found.add(message.id)
            elif names.may_be_speaker(message):
                unclear.append(message.id)
        stated = await self.store.facts(self.bank, FactSelect(messages=unclear)) if unclear else []
        of_namesakes = [fact for fact in stated if names.namesakes & {mention.id for mention in fact.entities}]
        return found | (set(unclear) - sources_of(of_namesakes))

    def _messages(self) -> AsyncIterator[Message]:
        return paged(lambda after: self.store.messages(self.bank, MessageSelect(after=after, limit=5 * PAGE)))

    async def _versions(self, id: FactId) -> list[Fact]:
        """Return a fact with the earlier versions that the user replaced by it."""
        found = await self.store.facts(self.bank, FactSelect(ids=[id]))
        if not found:
            raise NotFound(f"There is no fact {id!r} in this bank. Nothing was deleted.")
        while found[-1].engine == EDITED_BY_HAND and found[-1].supersedes is not None:
            older = await self.store.facts(self.bank, FactSelect(ids=[found[-1].supersedes]))
            if not older:
                break
            found += older
        return found

    async def reach(self, found: _Targeted) -> Reach:
        """Follow the targeted records to everything that rests on them."""
        reach = Reach(found.messages)
        reach.kept |= sources_of(found.versions) - found.messages
        reach.facts |= {fact.id: fact for fact in await self._with_dependents(found.versions, {})}
        quoting = await self.store.facts(self.bank, FactSelect(context=sorted(found.messages)))
        await self._keep(reach, sources_of(quoting))
        facts = [*found.facts, *(fact for fact in quoting if not reach.kept.issuperset(fact.messages))]
        episodes, messages = list(found.episodes), found.messages
        while messages or facts or episodes:
            if messages:
                episodes += await self.store.episodes(self.bank, EpisodeSelect(messages=sorted(messages)))
                facts += await self.store.facts(self.bank, FactSelect(messages=sorted(messages)))
            facts += await self._quoting(reach, episodes)
            messages = reach.follow(episodes, await self._with_dependents(facts, reach.facts))
            episodes, facts = [], []
        return reach

    async def _keep(self, reach: Reach, messages: AbstractSet[MessageId]) -> set[MessageId]:
        """Add those of some messages that are not processed again, and return them."""
        near = sorted(messages - reach.deleted - reach.requeued)
        if not near:
            return set()
        stored = await self.store.messages(self.bank, MessageSelect(ids=near))
        marked = await self.store.facts(self.bank, FactSelect(messages=near, pinned=True))
        marked += await self.store.facts(self.bank, FactSelect(messages=near, feedback=True))
        stating = sources_of(fact for fact in marked if reach.deleted.isdisjoint(fact.messages)) & set(near)
        kept = {message.id for message in stored if message.state == "curated"} | stating
        reach.kept |= kept
        return kept

    async def _quoting(self, reach: Reach, episodes: Sequence[Episode]) -> list[Fact]:
        """Return the facts of kept messages of dissolved episodes that may quote deleted messages."""
        members = {message for episode in episodes for message in episode.messages}
        kept = await self._keep(reach, members)
        stated = await self.store.facts(self.bank, FactSelect(messages=sorted(kept))) if kept else []
        # A model may have used other messages of the episode than those that state a fact.
        own = (*OWN_WORDS_ENGINES, EDITED_BY_HAND)
        return [fact for fact in stated if fact.engine not in own and not (fact.pinned or fact.feedback)]

    async def without_context(self, reach: Reach) -> list[NewFact]:
        """Return the remaining facts that were extracted with a deleted message as context, with their vectors."""
        select = FactSelect(context=sorted(reach.deleted), with_embeddings=True)
        found = [fact for fact in await self.store.facts(self.bank, select) if fact.id not in reach.facts]
        if not found:
            return []
        ids = [fact.id for fact in found]
        tokens = await self.store.read(self.bank, lambda reader: fact_tokens(reader, ids))
        return [
            NewFact(fact=fact, embedding=np.array(fact.embedding or (), np.float32), tokens=vectors)
            for fact, vectors in zip(found, tokens, strict=True)
        ]

    async def episodes_without(self, curated: AbstractSet[MessageId], reach: Reach) -> dict[EpisodeId, Episode | None]:
        """Return the episodes that curated messages leave, described by their other messages; None without any."""
        held = await self.store.episodes(self.bank, EpisodeSelect(messages=sorted(curated))) if curated else []
        held = [episode for episode in held if episode.id not in reach.episodes]
        left = [id for episode in held for id in episode.messages if id not in curated]
        remaining = {message.id: message for message in await self.store.messages(self.bank, MessageSelect(ids=left))}
        shrunk = {episode.id: shrink(episode, remaining) for episode in held}
        return {
            id: each and describe_episode(each, [remaining[message] for message in each.messages])
            for id, each in shrunk.items()
        }

    async def _with_dependents(self, facts: Iterable[Fact], known: Mapping[FactId, Fact]) -> list[Fact]:
        """Return the facts that are not known, with those that rest on them, directly or not."""
        found: dict[FactId, Fact] = {}
        edge = [fact for fact in facts if fact.id not in known]
        while edge:
            found |= {fact.id: fact for fact in edge}
            resting = await self.store.facts(self.bank, FactSelect(basis=[fact.id for fact in edge]))
            edge = [fact for fact in resting if fact.id not in found and fact.id not in known]
        return list(found.values())

    async def successors(self, reach: Reach) -> list[Fact]:
        """Return the remaining facts that replaced a deleted one, or one that a deleted one replaced."""
        replaced = {fact.supersedes for fact in reach.facts.values() if fact.supersedes is not None}
        return await self.store.facts(self.bank, FactSelect(supersedes=sorted(reach.facts.keys() | replaced)))

    async def remaining_claims(self, replaced: AbstractSet[FactId], reach: Reach) -> dict[FactId, tuple[Claim, ...]]:
        """Return the claims of replaced facts without those that only a deleted fact ended."""
        facts = await self.store.facts(self.bank, FactSelect(ids=sorted(replaced))) if replaced else []
        left = {fact.id: tuple(c for c in fact.claims if c.replaced_by not in reach.facts) for fact in facts}
        return {fact.id: left[fact.id] for fact in facts if len(left[fact.id]) < len(fact.claims)}

    async def remaining_feedback(
        self, names: EntityNames | None, reach: Reach
    ) -> dict[FactId, Mapping[str, JsonValue]]:
        """Return the metadata of remaining facts without feedback that names the forgotten entity."""
        judged = [] if names is None else await self.store.facts(self.bank, FactSelect(feedback=True))
        return {
            fact.id: with_feedback(fact.metadata, left)
            for fact in judged
            if names is not None and fact.id not in reach.facts
            if (left := [each for each in fact.feedback if not names.are_in(f"{each.question}\n{each.reason}")])
            != [*fact.feedback]
        }

    async def replaced(self, reach: Reach) -> set[FactId]:
        """Return the remaining facts that deleted ones replaced, or may have outdated."""
        edges = await self.revisions(reach.facts)
        return {edge.older for edge in edges if edge.newer in reach.facts} - reach.facts.keys()

    async def revisions(self, facts: Iterable[FactId]) -> Sequence[FactRevision]:
        scope = Scope(bank=self.bank, include_expired=True, past_expiry=True)
        ids = sorted(facts)
        return await self.store.read(self.bank, lambda reader: fact_revisions(reader, scope, ids)) if ids else ()

    async def observed_entities(self, reach: Reach, kept: AbstractSet[EntityId]) -> set[EntityId]:
        """Return the remaining entities with an observation that is deleted, or may be outdated."""
        if not kept:
            return set()
        select = FactSelect(entities=sorted(kept), networks=("observation",), current=True)
        return described_by([*reach.facts.values(), *(await self.store.facts(self.bank, select))], kept)

    async def remaining_names(self, reach: Reach, forgotten: Entity | None) -> RemainingNames:
        """Return what is left of the names of entities, of merges, and of names that are not aliases."""
        ids = sorted({mention.id for fact in reach.facts.values() for mention in fact.entities})
        merges = await self.store.merges(self.bank)
        merged = {id for merge in merges for id in (merge.entity, merge.absorbed, merge.parted) if id is not None}
        existing = await self.store.entities(self.bank, EntitySelect(ids=sorted(merged), counted=False))
        records = NameRecords(
            deleted_facts=reach.facts,
            affected=await self.store.entities(self.bank, EntitySelect(ids=ids)),
            forgotten=None if forgotten is None else forgotten.id,
            mentions=await self.store.mentions(self.bank, ids, named=True),
            merges=merges,
            existing={entity.id for entity in existing},
        )
        candidates = records.names_to_check()
        left = records.remaining({id: await self._in_use(id, each, reach.facts) for id, each in candidates.items()})
        stored = await self.store.entities(self.bank, EntitySelect(with_not_aliases=True, counted=False))
        separated = left.current(stored)
        names = left.not_aliases(separated)
        if not names:
            return left
        owners = await self.store.entities(self.bank, EntitySelect(names=sorted(names), counted=False))
        names -= owned_names(names, left.current(owners))
        return left.without_not_aliases(separated, names - await self._in_messages(names, reach.deleted))

    async def _in_use(self, entity: EntityId, names: Iterable[str], deleted: Mapping[FactId, Fact]) -> set[str]:
        """Return the names that the remaining facts about an entity use, case-folded."""
        missing = {name.casefold() for name in names}
        found: set[str] = set()

        def about(after: FactId | None) -> Awaitable[list[Fact]]:
            limit = FIRST_PAGE if after is None else PAGE
            return self.store.facts(self.bank, FactSelect(entities=[entity], after=after, limit=limit))

        async for fact in paged(about):
            if fact.id not in deleted:
                text = fact.text.casefold()
                found |= {name for name in missing if name in text}
                missing -= found
            if not missing:
                break
        return found

    async def _in_messages(self, names: AbstractSet[str], deleted: AbstractSet[MessageId]) -> set[str]:
        """Return the names that a remaining message holds, or that its speaker goes by."""
        found: set[str] = set()
        if not names:
            return found
        async for message in self._messages():
            if message.id not in deleted:
                line = f"{message.speaker or ''}\n{message.content}".casefold()
                found |= {name for name in names - found if name.casefold() in line}
            if len(found) == len(names):
                break
        return found
