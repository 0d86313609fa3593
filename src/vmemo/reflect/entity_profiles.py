"""The profile of an entity as it stands: its statements, those that lost their support, and the facts not seen yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from vmemo.models import BankId, Entity, EntityId, Fact, FactId, utc_now
from vmemo.models.records import is_supported, is_true, least_facts
from vmemo.models.select import EntitySelect, FactSelect
from vmemo.ports import Store

PAGE = 200
"""New facts of an entity that are read at a time."""
LEAST_NEW_FACTS = 16
"""New facts about an entity below which the model is not called for it; half of it if a statement lost support."""
NEW_FACTS = 30
"""New facts from which a profile is updated; a young one already when the facts about its entity have doubled."""
MAX_OUTDATED = 5
"""Statements without support that are shown to the model: the latest."""


@dataclass(frozen=True, kw_only=True)
class EntityProfile:
    """An entity with its profile, and the current facts that the profile does not cover yet, oldest first."""

    entity: Entity
    statements: Sequence[Fact]
    outdated: Sequence[Fact]
    """The latest statements that lost their support since the last update."""
    unsupported: Sequence[Fact]
    """All statements that lost their support and are still stored as current."""
    support: Mapping[FactId, Sequence[FactId]]
    """The facts behind each of these that are still true."""
    seen: int
    """Facts that the profile covers."""
    facts: Sequence[Fact]
    cursor: FactId | None
    """The last of these facts in the order they were stored."""
    more: bool = False
    """There may be further new facts."""
    rebuilt: bool = False
    """The profile is made again: `facts` are all that no statement cites, the most important first."""

    def is_due(self, *, early: bool = False) -> bool:
        """Return True if the entity matters and enough about it is new to call the model.

        With `early` a call is made anyway: then half as much is enough, as for a profile with outdated statements, and
        for a first profile the least number of facts.
        """
        least = least_facts(self.entity.type)
        if least is None or not (self.facts or self.outdated):
            return False
        if self.rebuilt:
            return bool(self.statements) or len(self.facts) >= least
        needed = min(NEW_FACTS, max(LEAST_NEW_FACTS, self.seen))
        if self.outdated or (early and self.seen):
            needed = max(1, needed // 2)
        return len(self.facts) >= (needed if self.seen else least if early else max(least, needed))


async def load_profiles(bank: BankId, jobs: Mapping[EntityId, bool], store: Store) -> list[EntityProfile]:
    """Return the profiles of the entities that exist; True stands for a profile that is rebuilt."""
    observations = await store.facts(bank, FactSelect(entities=list(jobs), networks=("observation",)))
    loader = _Loader(bank, store, await facts_behind(bank, observations, store), utc_now())
    return [
        await loader.load(entity, [each for each in observations if _is_about(each, entity.id)], force=jobs[entity.id])
        for entity in await store.entities(bank, EntitySelect(ids=list(jobs)))
    ]


async def facts_behind(bank: BankId, observations: Sequence[Fact], store: Store) -> dict[FactId, Fact]:
    """Return the stored facts that observations rest on."""
    ids = dict.fromkeys(id for each in observations for id in each.basis)
    return {fact.id: fact for fact in await store.facts(bank, FactSelect(ids=list(ids)))}


@dataclass(frozen=True)
class _Loader:
    bank: BankId
    store: Store
    basis: Mapping[FactId, Fact]
    now: datetime

    async def load(self, entity: Entity, observations: Sequence[Fact], *, force: bool) -> EntityProfile:
        """Return the profile of an entity with the given observations, current and closed."""
        last = max(observations, key=lambda each: each.recorded_at, default=None)
        supported = {each.id for each in observations if is_supported(each, self.basis, self.now)}
        statements = [each for each in observations if each.id in supported and is_true(each, self.now)]
        # A statement that an update closed ended at the time of that update, which recorded others.
        outdated = [
            each
            for each in observations
            if each.id not in supported and (each.expired_at is None or (last and each.expired_at > last.recorded_at))
        ]
        newest = None if last is None else await self._cursor(last)
        rebuilt = force or (last is not None and newest is None)
        cited = {id for each in statements for id in each.basis} if rebuilt else set[FactId]()
        facts = await self._facts(entity.id, None if rebuilt else newest, limit=None if rebuilt else PAGE)
        new = [fact for fact in facts if fact.id not in cited]
        return EntityProfile(
            entity=entity,
            statements=statements,
            outdated=outdated[-MAX_OUTDATED:],
            unsupported=[each for each in outdated if each.expired_at is None],
            support={
                each.id: [id for id in each.basis if is_true(self.basis.get(id), self.now)]
                for each in (*statements, *outdated)
            },
            seen=len(facts) - len(new) if rebuilt or last is None else _seen(last),
            facts=sorted(new, key=lambda fact: -fact.importance) if rebuilt else new,
            cursor=facts[-1].id if facts else newest,
            more=not rebuilt and len(facts) == PAGE,
            rebuilt=rebuilt,
        )

    async def _cursor(self, last: Fact) -> FactId | None:
        """Return the last fact that the profile covers; None if it was forgotten."""
        found = await self.store.facts(self.bank, FactSelect(ids=[FactId(str(last.metadata.get("newest")))]))
        return found[0].id if found else None

    async def _facts(self, entity: EntityId, after: FactId | None, *, limit: int | None) -> list[Fact]:
        networks = ("world", "experience")
        select = FactSelect(entities=[entity], networks=networks, current=True, after=after, limit=limit)
        return list(await self.store.facts(self.bank, select))


def _is_about(fact: Fact, entity: EntityId) -> bool:
    return any(mention.id == entity for mention in fact.entities)


def _seen(last: Fact) -> int:
    """Return the number of facts that a profile covers, which release 0.1.0 did not record."""
    seen = last.metadata.get("seen")
    return seen if isinstance(seen, int) else len(last.basis)
