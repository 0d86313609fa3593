"""The records that forgetting concerns, read from the store.

Work grows with what is deleted. Two searches may read more: the messages that name a forgotten entity are looked for
in all messages whose words no fact repeats, and a name is looked for in the facts about its entity until one uses it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from vmemo.errors import NotFound
from vmemo.lifecycle import forget_rules as rules
from vmemo.lifecycle.forget_names import NameRecords, RemainingNames, owned_names
from vmemo.models import (
    BankId,
    Entity,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    Message,
    MessageId,
    MessageState,
)
from vmemo.models.changes import ForgetTarget, MergeRecord, NewFact
from vmemo.models.search import ExpandRequest, RevisionEdge, RevisionQuery, Scope
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import Store
from vmemo.ports.store import paged
from vmemo.text.fact_text import EDITED_BY_HAND

FIRST_PAGE = 10
"""Facts that are read first to look for a name of their entity: nearly always one of them uses it."""
PAGE = 1000
"""Facts or messages that are read together when names are looked for further."""
UNREPEATED: tuple[MessageState, ...] = ("pending", "grouped", "extracted", "raw", "curated")
"""States of messages whose words no fact repeats."""


@dataclass(frozen=True)
class ForgetReader:
    """Reads of the records of one bank that a forget concerns."""

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

    async def versions(self, target: ForgetTarget) -> list[Fact]:
        """Return the fact to delete, with the earlier versions that the user replaced by it."""
        if target.fact is None:
            return []
        found = await self.store.facts(self.bank, FactSelect(ids=[target.fact]))
        if not found:
            raise NotFound(f"There is no fact {target.fact!r} in this bank. Nothing was deleted.")
        while found[-1].engine == EDITED_BY_HAND and found[-1].supersedes is not None:
            older = await self.store.facts(self.bank, FactSelect(ids=[found[-1].supersedes]))
            if not older:
                break
            found += older
        return found

    async def sole_sources(self, versions: Sequence[Fact]) -> set[MessageId]:
        """Return the messages that state nothing but these facts."""
        messages = sorted(rules.sources_of(versions))
        stated = await self.store.facts(self.bank, FactSelect(messages=messages)) if messages else []
        return rules.sole_sources(versions, stated)

    async def reach(
        self, gone: AbstractSet[MessageId], about: Sequence[Fact], versions: Sequence[Fact] = ()
    ) -> rules.Reach:
        """Follow forgotten messages and facts to everything that rests on them.

        The messages of deleted `versions` that stay are not processed again.
        """
        reach = rules.Reach(gone)
        reach.kept |= rules.sources_of(versions) - gone
        reach.facts |= {fact.id: fact for fact in await self._with_dependents(versions, {})}
        guarded = await self._any_kept()
        quoting = await self.store.facts(self.bank, FactSelect(context=sorted(gone)))
        if guarded:
            await self._keep(reach, rules.sources_of(quoting))
        quoting = [fact for fact in quoting if not reach.kept.issuperset(fact.messages)]
        edge = gone | reach.follow((), await self._with_dependents([*about, *quoting], reach.facts))
        while edge:
            episodes = await self.store.episodes(self.bank, EpisodeSelect(messages=sorted(edge)))
            stated = await self.store.facts(self.bank, FactSelect(messages=sorted(edge)))
            if guarded:
                stated += await self._quoting(reach, episodes)
            edge = reach.follow(episodes, await self._with_dependents(stated, reach.facts))
        return reach

    async def _any_kept(self) -> bool:
        """Return True if the user edited, deleted or pinned any fact."""
        curated = await self.store.messages(self.bank, MessageSelect(state="curated", limit=1))
        return bool(curated or await self.store.facts(self.bank, FactSelect(pinned=True, limit=1)))

    async def _keep(self, reach: rules.Reach, messages: AbstractSet[MessageId]) -> set[MessageId]:
        """Add those of some messages that are not processed again, and return them."""
        near = sorted(messages - reach.gone - reach.requeued)
        if not near:
            return set()
        stored = await self.store.messages(self.bank, MessageSelect(ids=near))
        pinned = await self.store.facts(self.bank, FactSelect(messages=near, pinned=True))
        held = rules.sources_of(fact for fact in pinned if reach.gone.isdisjoint(fact.messages)) & set(near)
        kept = {message.id for message in stored if message.state == "curated"} | held
        reach.kept |= kept
        return kept

    async def _quoting(self, reach: rules.Reach, episodes: Sequence[Episode]) -> list[Fact]:
        """Return the facts of kept messages of dissolved episodes that may quote forgotten messages."""
        members = {message for episode in episodes for message in episode.messages}
        kept = await self._keep(reach, members)
        stated = await self.store.facts(self.bank, FactSelect(messages=sorted(kept))) if kept else []
        return [fact for fact in stated if rules.may_quote(fact)]

    async def without_context(self, reach: rules.Reach) -> list[NewFact]:
        """Return the remaining facts that were extracted with a forgotten message as context, with their vectors."""
        select = FactSelect(context=sorted(reach.gone), with_embeddings=True)
        found = [fact for fact in await self.store.facts(self.bank, select) if fact.id not in reach.facts]
        if not found:
            return []
        tokens = await self.store.expand(ExpandRequest(bank=self.bank, token_vectors=[fact.id for fact in found]))
        return [
            NewFact(fact=fact, embedding=np.array(fact.embedding or (), np.float32), tokens=vectors)
            for fact, vectors in zip(found, tokens.token_vectors, strict=True)
        ]

    async def without(self, curated: AbstractSet[MessageId], reach: rules.Reach) -> dict[EpisodeId, Episode | None]:
        """Return the episodes that curated messages leave, None for one without other messages.

        Their titles and narratives may repeat a deleted fact, so that the other messages describe them from now on.
        """
        held = await self.store.episodes(self.bank, EpisodeSelect(messages=sorted(curated))) if curated else []
        held = [episode for episode in held if episode.id not in reach.episodes]
        left = [id for episode in held for id in episode.messages if id not in curated]
        remaining = {message.id: message for message in await self.store.messages(self.bank, MessageSelect(ids=left))}
        return {episode.id: rules.redescribe(episode, remaining) for episode in held}

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
        scope = Scope(bank=self.bank, include_expired=True, past_expiry=True)
        query = RevisionQuery(scope=scope, facts=sorted(facts))
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
        separated = left.current(
            await self.store.entities(self.bank, EntitySelect(with_not_aliases=True, counted=False))
        )
        names = left.not_aliases(separated)
        if not names:
            return left
        owners = await self.store.entities(self.bank, EntitySelect(names=sorted(names), counted=False))
        names -= owned_names(names, left.current(owners))
        return left.without_not_aliases(separated, names - await self._held(names, reach.gone))

    async def _living(self, merges: Sequence[MergeRecord]) -> set[EntityId]:
        """Return the entities of merges that exist."""
        ids = {id for merge in merges for id in (merge.entity, merge.absorbed, merge.parted) if id is not None}
        return {
            entity.id for entity in await self.store.entities(self.bank, EntitySelect(ids=sorted(ids), counted=False))
        }

    async def _used(self, entity: EntityId, names: Iterable[str], lost: Mapping[FactId, Fact]) -> set[str]:
        """Return the names that the remaining facts about an entity use, case-folded."""
        missing = {name.casefold() for name in names}
        found: set[str] = set()

        def about(after: FactId | None) -> Awaitable[list[Fact]]:
            limit = FIRST_PAGE if after is None else PAGE
            return self.store.facts(self.bank, FactSelect(entities=[entity], after=after, limit=limit))

        async for fact in paged(about):
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
