"""Observations: neutral profiles of entities, rewritten in the background when the facts about them change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Entity, EntityId, Fact, FactId, Mention, new_fact_id, utc_now
from vmemo.models.changes import Changes, FactClosure, Lease
from vmemo.models.select import EntitySelect, FactSelect
from vmemo.ports import Context
from vmemo.reflect.llm_schemas import EntityProfiles, ProfileStatement
from vmemo.reflect.new_facts import embed_facts

PROMPTS = Path(__file__).parent / "prompts"
MIN_FACTS = 3
"""Facts from which an entity gets a profile."""
MAX_FACTS = 40
"""Facts that a profile is written from, newest first."""
MIN_NEW_SHARE = 0.2
"""Share of an entity's facts that must be new before its profile is rewritten."""
MAX_ENTITIES_PER_CALL = 8


@dataclass(frozen=True)
class ObservationJob:
    """A leased job to profile one entity; `force` rewrites the profile even if little has changed."""

    lease: Lease
    force: bool = False


@dataclass(frozen=True)
class _Statement:
    text: str
    basis: tuple[FactId, ...]


async def update_observations(
    bank: BankId, jobs: Mapping[EntityId, ObservationJob], context: Context, llm: StructuredLLM
) -> int:
    """Write the profiles that are outdated, in one LLM call, and return the number of new statements.

    The job of each entity is completed, whether or not its profile was rewritten.
    """
    entities = {entity.id: entity for entity in await context.store.entities(bank, EntitySelect(ids=list(jobs)))}
    facts = {id: await context.store.facts(bank, FactSelect.about(id, limit=MAX_FACTS)) for id in entities}
    held = await context.store.facts(bank, FactSelect.believed("observation"))
    basis = {
        fact.id: fact
        for fact in await context.store.facts(bank, FactSelect(ids=[id for each in held for id in each.basis]))
    }
    outdated = {
        id: entity
        for id, entity in entities.items()
        if jobs[id].force or _is_outdated(entity, facts[id], [each for each in held if _is_about(each, id)], basis)
    }
    described = [entity for id, entity in outdated.items() if len(facts[id]) >= MIN_FACTS]
    profiles = await _profiles(described, facts, llm) if described else {}
    written = 0
    for id, job in jobs.items():
        if id in outdated:
            writer = _ProfileWriter(bank, outdated[id], facts[id], context, llm)
            written += await writer.replace(profiles.get(id, []), job.lease)
        else:
            await context.store.commit(Changes(bank=bank, finished=[job.lease]))
    return written


def _is_outdated(entity: Entity, facts: Sequence[Fact], held: Sequence[Fact], basis: Mapping[FactId, Fact]) -> bool:
    """Return True if a fact behind the profile is no longer valid, or a large share of the facts is new."""
    if not held or any(not _is_valid(basis.get(id)) for each in held for id in each.basis):
        return True
    newest = {str(each.metadata.get("newest")) for each in held}
    new = next((place for place, fact in enumerate(facts) if fact.id in newest), len(facts))
    return new >= max(1.0, MIN_NEW_SHARE * entity.mentions)


def _is_valid(fact: Fact | None) -> bool:
    return fact is not None and fact.expired_at is None and fact.invalid_at is None


def _is_about(fact: Fact, entity: EntityId) -> bool:
    return any(mention.id == entity for mention in fact.entities)


async def _profiles(
    entities: Sequence[Entity], facts: Mapping[EntityId, Sequence[Fact]], llm: StructuredLLM
) -> dict[EntityId, list[_Statement]]:
    """Ask the LLM for the profiles of the entities."""
    fact_ids: dict[str, FactId] = {}
    lines: list[str] = []
    for n, entity in enumerate(entities, start=1):
        lines.append(f"E{n} | {entity.name} ({entity.type})")
        for fact in facts[entity.id]:
            fact_ids[f"F{len(fact_ids) + 1}"] = fact.id
            lines.append(f"F{len(fact_ids)} | {fact.mentioned_at:%d %B %Y} | {fact.text}")
    ask = load_prompt(PROMPTS, "observe").request(EntityProfiles, entities=quote(lines))
    answer = await llm.ask(ask, EntityProfiles, lambda given: _feedback(given, len(entities), fact_ids))
    by_number = {f"E{n}": entity.id for n, entity in enumerate(entities, start=1)}
    return {by_number[each.entity]: [_statement(s, fact_ids) for s in each.statements] for each in answer.profiles}


def _statement(statement: ProfileStatement, fact_ids: Mapping[str, FactId]) -> _Statement:
    return _Statement(statement.text.strip(), tuple(dict.fromkeys(fact_ids[number] for number in statement.facts)))


def _feedback(answer: EntityProfiles, entities: int, fact_ids: Mapping[str, FactId]) -> str | None:
    """Return what the LLM must correct, or None."""
    expected = {f"E{n}" for n in range(1, entities + 1)}
    if {each.entity for each in answer.profiles} != expected or len(answer.profiles) != len(expected):
        return f"describe exactly these entities, once each: {', '.join(sorted(expected))}"
    if any(not each.statements for each in answer.profiles):
        return "every profile needs statements"
    for profile in answer.profiles:
        if any(not each.facts or not fact_ids.keys() >= set(each.facts) for each in profile.statements):
            return f"a statement about {profile.entity} names no fact, or a fact that was not shown"
    return None


@dataclass(frozen=True)
class _ProfileWriter:
    """Writes the profile of one entity, made from its facts, newest first."""

    bank: BankId
    entity: Entity
    facts: Sequence[Fact]
    context: Context
    llm: StructuredLLM

    async def replace(self, statements: Sequence[_Statement], lease: Lease) -> int:
        """Close the statements that are not repeated, write the new ones and complete the job."""
        store = self.context.store
        while True:
            revision = await store.revision(self.bank)
            believed = await store.facts(self.bank, FactSelect.believed("observation"))
            held = [fact for fact in believed if _is_about(fact, self.entity.id)]
            old, kept, now = {fact.text for fact in held}, {each.text for each in statements}, utc_now()
            new = [self._observation(each) for each in statements if each.text not in old]
            changes = Changes(
                bank=self.bank,
                facts=await embed_facts(new, self.context.embedder),
                closures=[FactClosure(fact=f.id, invalid_at=now, expired_at=now) for f in held if f.text not in kept],
                spending=self.llm.spending,
                finished=[lease],
                revision=revision,
                embedder=self.context.embedder.name,
            )
            if await store.commit(changes):
                self.llm.take_usage()
                return len(new)
            if not await store.renew([lease], lease.seconds):
                return 0

    def _observation(self, statement: _Statement) -> Fact:
        by_id = {fact.id: fact for fact in self.facts}
        basis = [by_id[id] for id in statement.basis if id in by_id]
        latest = max(fact.mentioned_at for fact in basis)
        return Fact(
            id=FactId(new_fact_id()),
            bank=self.bank,
            network="observation",
            text=statement.text,
            tokens=self.context.counter(statement.text),
            mentioned_at=latest,
            valid_at=latest,
            entities=(Mention(id=self.entity.id, name=self.entity.name, type=self.entity.type),),
            basis=tuple(fact.id for fact in basis),
            metadata={"newest": self.facts[0].id},
            engine=f"{self.llm.name}/{load_prompt(PROMPTS, 'observe').label}",
        )
