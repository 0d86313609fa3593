"""The client's verbs that look into a bank without searching it."""

from __future__ import annotations

from vmemo.client.base import Page, Remote
from vmemo.client.connection import Call, path_of
from vmemo.memory import reads
from vmemo.models import (
    ConfidenceChange,
    Entity,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    FormerProfile,
    Merge,
    Message,
    MessageId,
    Profile,
    Provenance,
)
from vmemo.models.results import Job, Status
from vmemo.sync import twin


class Looking(Remote):
    """Looking into a bank: what it holds, where it comes from, and what waits to be done."""

    async def why(self, fact: FactId | str) -> Provenance:
        """Where a fact comes from: episodes, messages, the facts behind it, how it moved, and what replaced it."""
        return await self._look(Provenance, "facts", fact, "why")

    async def status(self) -> Status:
        """What the bank holds, what is unread, and which errors keep it so."""
        return await self._look(Status)

    async def banks(self) -> list[str]:
        """Names of all banks that the key reaches, in order; none is created."""
        names: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            call = Call(method="GET", path=path_of("v1", "banks"), params={"limit": str(reads.LARGEST_PAGE), **cursor})
            page = self._read(Page[str], await self._connection.ask(call))
            names += page.items
            if page.next is None:
                return names
            cursor = {"cursor": page.next}

    async def profile(self, new: Profile | None = None) -> Profile:
        """The bank's profile; with an argument it becomes that."""
        changed = reads.checked_profile(new)
        if changed is None:
            return await self._look(Profile, "profile")
        return await self._change(Profile, "profile", body=changed.model_dump(), method="PUT")

    async def former_profiles(self) -> list[FormerProfile]:
        """The profiles that the bank had before, oldest first."""
        return list((await self._look(Page[FormerProfile], "profile", "history")).items)

    async def messages(
        self, *, document: str | None = None, after: MessageId | None = None, limit: int = 100
    ) -> list[Message]:
        """A page of the archive in the order it was stored."""
        size, name = reads.page(limit), reads.document(document)
        return list((await self._look(Page[Message], "messages", document=name, cursor=after, limit=size)).items)

    async def episodes(self, *, after: EpisodeId | None = None, limit: int = 100) -> list[Episode]:
        """A page of episodes in the order they were stored."""
        return list((await self._look(Page[Episode], "episodes", cursor=after, limit=reads.page(limit))).items)

    async def facts(
        self, *, after: FactId | None = None, limit: int = 100, with_embeddings: bool = False
    ) -> list[Fact]:
        """A page of facts, closed ones too, in the order they were stored."""
        size, vectors = reads.page(limit), with_embeddings or None
        return list((await self._look(Page[Fact], "facts", cursor=after, limit=size, with_embeddings=vectors)).items)

    async def entities(self, *, after: EntityId | None = None, limit: int = 100) -> list[Entity]:
        """A page of entities in the order they were first seen."""
        return list((await self._look(Page[Entity], "entities", cursor=after, limit=reads.page(limit))).items)

    async def opinions(self) -> list[Fact]:
        """The opinions that are held now, in the order they were formed; `trajectory` tells how one got there."""
        return list((await self._look(Page[Fact], "opinions")).items)

    async def observations(self, entity: EntityId | str | None = None) -> list[Fact]:
        """What is observed of an entity, given by id or name, or of all."""
        return list((await self._look(Page[Fact], "observations", entity=entity)).items)

    async def trajectory(self, opinion: FactId | str) -> list[ConfidenceChange]:
        """Every step of an opinion's confidence with its evidence, oldest first, and of those it took the place of."""
        return list((await self._look(Page[ConfidenceChange], "opinions", opinion, "trajectory")).items)

    async def merges(self) -> list[Merge]:
        """Which names were found to be one entity, in the order it was decided; `undo_merge` parts them again."""
        return list((await self._look(Page[Merge], "merges")).items)

    async def jobs(self) -> list[Job]:
        """Queued work, oldest first, with errors and when it is tried again."""
        return list((await self._look(Page[Job], "jobs")).items)

    why_sync = twin(why)
    status_sync = twin(status)
    banks_sync = twin(banks)
    profile_sync = twin(profile)
    former_profiles_sync = twin(former_profiles)
    messages_sync = twin(messages)
    episodes_sync = twin(episodes)
    facts_sync = twin(facts)
    entities_sync = twin(entities)
    opinions_sync = twin(opinions)
    observations_sync = twin(observations)
    trajectory_sync = twin(trajectory)
    merges_sync = twin(merges)
    jobs_sync = twin(jobs)
