"""The verbs that look into a bank without searching it."""

from __future__ import annotations

from functools import partial
from typing import Literal

from vmemo.memory import reads
from vmemo.memory.connection import Opened
from vmemo.models import (
    ConfidenceChange,
    Entity,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    Merge,
    Message,
    MessageId,
    Profile,
    Provenance,
)
from vmemo.models.changes import Changes, ProfileChange
from vmemo.models.results import Job, Status
from vmemo.sync import twin


class Listings(Opened):
    """Looking into a bank: what it holds, where it comes from, and what waits to be done."""

    async def why(self, fact: FactId | str) -> Provenance:
        """Where a fact comes from: episodes, messages, the facts behind it, how it moved, and what replaced it."""
        await self.open()
        return await reads.why(self._name, FactId(fact), self._store, self._shared.context.counter)

    async def status(self) -> Status:
        """What the bank holds, what is unread, and which errors keep it so."""
        await self.open()
        found = await self._store.status(self._name)
        return found.model_copy(update={"engine": self._shared.context.engine})

    async def banks(self) -> list[str]:
        """Names of all banks of this store, in order; none is created."""
        await self._store.open()
        return [bank.id for bank in await self._store.banks()]

    async def profile(self, new: Profile | None = None) -> Profile:
        """The bank's profile; with an argument it becomes that."""
        changed = reads.checked_profile(new)
        await self.open()
        if changed is not None:
            await self._store.commit(Changes(bank=self._name, profile=ProfileChange(profile=changed)))
        return await reads.profile(self._name, self._store)

    async def messages(
        self, *, document: str | None = None, after: MessageId | None = None, limit: int = 100
    ) -> list[Message]:
        """A page of the archive in the order it was stored."""
        size, name = reads.page(limit), reads.document(document)
        await self.open()
        start = await reads.cursor(after, partial(self._store.messages, self._name))
        return await self._store.messages(self._name, document=name, after=start, limit=size)

    async def episodes(self, *, after: EpisodeId | None = None, limit: int = 100) -> list[Episode]:
        """A page of episodes in the order they were stored."""
        await self.open()
        start = await reads.cursor(after, partial(self._store.episodes, self._name))
        return await self._store.episodes(self._name, after=start, limit=reads.page(limit))

    async def facts(
        self, *, after: FactId | None = None, limit: int = 100, with_embeddings: bool = False
    ) -> list[Fact]:
        """A page of facts, closed ones too, in the order they were stored."""
        size = reads.page(limit)
        await self.open()
        start = await reads.cursor(after, partial(self._store.facts, self._name))
        return await self._store.facts(self._name, after=start, limit=size, with_embeddings=with_embeddings)

    async def entities(self, *, after: EntityId | None = None, limit: int = 100) -> list[Entity]:
        """A page of entities in the order they were first seen."""
        await self.open()
        start = await reads.cursor(after, partial(self._store.entities, self._name))
        return await self._store.entities(self._name, after=start, limit=reads.page(limit))

    async def opinions(self) -> list[Fact]:
        """The opinions that are held now, in the order they were formed; `trajectory` tells how one got there."""
        return await self._believed("opinion")

    async def observations(self, entity: EntityId | str | None = None) -> list[Fact]:
        """What is observed of an entity, given by id or name, or of all."""
        found = await self._believed("observation")
        if entity is None:
            return found
        wanted = await reads.entity_id(self._name, entity, self._store)
        return [fact for fact in found if any(mention.id == wanted for mention in fact.entities)]

    async def _believed(self, network: Literal["opinion", "observation"]) -> list[Fact]:
        await self.open()
        found = await self._store.believed(self._name, network)
        return [fact.model_copy(update={"embedding": None}) for fact in found]

    async def trajectory(self, opinion: FactId | str) -> list[ConfidenceChange]:
        """Every step of an opinion's confidence with its evidence, oldest first, and of those it took the place of."""
        wanted = FactId(reads.text_of("opinion", opinion))
        await self.open()
        return await reads.trajectory(self._name, wanted, self._store)

    async def merges(self) -> list[Merge]:
        """Which names were found to be one entity, in the order it was decided; `undo_merge` parts them again."""
        await self.open()
        return [merge.public() for merge in await self._store.merges(self._name)]

    async def jobs(self) -> list[Job]:
        """Queued work, oldest first, with errors and when it is tried again."""
        await self.open()
        return await self._store.jobs(self._name)

    why_sync = twin(why)
    status_sync = twin(status)
    banks_sync = twin(banks)
    profile_sync = twin(profile)
    messages_sync = twin(messages)
    episodes_sync = twin(episodes)
    facts_sync = twin(facts)
    entities_sync = twin(entities)
    opinions_sync = twin(opinions)
    observations_sync = twin(observations)
    trajectory_sync = twin(trajectory)
    merges_sync = twin(merges)
    jobs_sync = twin(jobs)
