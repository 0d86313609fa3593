"""Observations: neutral profiles of entities, made anew in the background when their facts change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Entity, EntityId, Fact, FactId, Mention, new_id, utc_now
from vmemo.models.changes import Changes, FactClosure, Lease, NewFact
from vmemo.ports import Context, encodings
from vmemo.reflect.llm_schemas import ProfileOf, Profiles, Statement
from vmemo.text.fact_text import embedded_text

PROMPTS = Path(__file__).parent / "prompts"
ENOUGH = 3
"""Facts from which an entity is described."""
MOST = 40
"""Facts of an entity that its profile is made from, newest first."""
GROWTH = 0.2
"""Share of what is known of an entity that must be new for it to be described again."""
TOGETHER = 8
"""Entities that are described in one call."""


@dataclass(frozen=True)
class Asked:
    """The job of describing an entity; `anew` whether or not much has changed."""

    lease: Lease
    anew: bool = False


async def describe(bank: BankId, work: Mapping[EntityId, Asked], context: Context, desk: StructuredLLM) -> int:
    """Describe entities anew, one call for all of them; the number of new statements. Each one's job ends with it.

    One that is described well enough is left as it is.
    """
    entities = {entity.id: entity for entity in await context.store.entities(bank, list(work))}
    known = {id: await context.store.facts_about(bank, id, limit=MOST) for id in entities}
    held = await context.store.believed(bank, "observation")
    behind = {fact.id: fact for fact in await context.store.facts(bank, [id for each in held for id in each.basis])}
    due = [
        entity
        for id, entity in entities.items()
        if work[id].anew or _outdated(entity, known[id], [each for each in held if _about(each, id)], behind)
    ]
    rich = [entity for entity in due if len(known[entity.id]) >= ENOUGH]
    profiles = await _profiles(rich, known, desk) if rich else {}
    written = 0
    for id, asked in work.items():
        if entities.get(id) in due:
            written += await _replace(bank, entities[id], profiles.get(id, []), known[id], asked.lease, context, desk)
        else:
            await context.store.commit(Changes(bank=bank, finished=[asked.lease]))
    return written


def _outdated(entity: Entity, known: Sequence[Fact], held: Sequence[Fact], behind: Mapping[FactId, Fact]) -> bool:
    """Whether a fact behind a profile no longer holds, or what came since is a good part of all that is known."""
    if not held or any(not _holds(behind.get(id)) for each in held for id in each.basis):
        return True
    newest = {str(each.metadata.get("newest")) for each in held}
    fresh = next((place for place, fact in enumerate(known) if fact.id in newest), len(known))
    return fresh >= max(1.0, GROWTH * entity.mentions)


def _holds(fact: Fact | None) -> bool:
    return fact is not None and fact.expired_at is None and fact.invalid_at is None


async def _profiles(
    entities: Sequence[Entity], known: Mapping[EntityId, Sequence[Fact]], desk: StructuredLLM
) -> dict[EntityId, list[tuple[str, list[FactId]]]]:
    """Statements about each entity with the facts behind them."""
    numbers: dict[str, FactId] = {}
    shown: list[str] = []
    for n, entity in enumerate(entities, start=1):
        shown.append(f"E{n} | {entity.name} ({entity.type})")
        for fact in known[entity.id]:
            numbers[f"F{len(numbers) + 1}"] = fact.id
            shown.append(f"F{len(numbers)} | {fact.mentioned_at:%d %B %Y} | {fact.text}")
    ask = load_prompt(PROMPTS, "observe").request(Profiles, entities=quote(shown))
    answer = await desk.ask(ask, Profiles, lambda given: _complaint(given, len(entities), numbers))
    named = {f"E{n}": entity.id for n, entity in enumerate(entities, start=1)}
    return {named[each.entity]: [_statement(s, numbers) for s in each.statements] for each in answer.profiles}


def _statement(statement: Statement, numbers: Mapping[str, FactId]) -> tuple[str, list[FactId]]:
    return statement.text.strip(), list(dict.fromkeys(numbers[id] for id in statement.facts))


def _complaint(answer: Profiles, entities: int, numbers: Mapping[str, FactId]) -> str | None:
    asked = {f"E{n}" for n in range(1, entities + 1)}
    if {each.entity for each in answer.profiles} != asked or len(answer.profiles) != len(asked):
        return f"exactly these are to be described, once each: {', '.join(sorted(asked))}"
    if any(not each.statements for each in answer.profiles):
        return "every profile needs statements"
    return next((trouble for each in answer.profiles if (trouble := _groundless(each, numbers))), None)


def _groundless(profile: ProfileOf, numbers: Mapping[str, FactId]) -> str | None:
    for statement in profile.statements:
        if not statement.facts or not numbers.keys() >= set(statement.facts):
            return f"a statement about {profile.entity} names no fact, or one that was not shown"
    return None


async def _replace(
    bank: BankId,
    entity: Entity,
    statements: Sequence[tuple[str, list[FactId]]],
    known: Sequence[Fact],
    lease: Lease,
    context: Context,
    desk: StructuredLLM,
) -> int:
    """Close what was said of an entity and is no longer, and write what is new; the same words stay as they are."""
    by_id = {fact.id: fact for fact in known}
    while True:
        revision = await context.store.revision(bank)
        held = [fact for fact in await context.store.believed(bank, "observation") if _about(fact, entity.id)]
        old, said, now = {fact.text for fact in held}, {text for text, _ in statements}, utc_now()
        fresh = [
            _observation(bank, entity, text, [by_id[id] for id in basis if id in by_id], context, desk)
            for text, basis in statements
            if text not in old
        ]
        if known:
            fresh = [fact.model_copy(update={"metadata": {"newest": known[0].id}}) for fact in fresh]
        batch = Changes(
            bank=bank,
            facts=await _embedded(fresh, context),
            closures=[FactClosure(fact=f.id, invalid_at=now, expired_at=now) for f in held if f.text not in said],
            spending=desk.spending,
            finished=[lease],
            revision=revision,
            embedder=context.embedder.name,
        )
        if await context.store.commit(batch):
            desk.take_usage()
            return len(fresh)
        if not await context.store.renew([lease], lease.seconds):
            return 0


async def _embedded(facts: Sequence[Fact], context: Context) -> list[NewFact]:
    texts = [embedded_text(fact.text, fact.mentioned_at) for fact in facts]
    found = await encodings(context.embedder, texts, "document")
    return [NewFact(fact=f, embedding=e.vector, tokens=e.tokens) for f, e in zip(facts, found, strict=True)]


def _about(fact: Fact, entity: EntityId) -> bool:
    return any(mention.id == entity for mention in fact.entities)


def _observation(
    bank: BankId, entity: Entity, text: str, basis: Sequence[Fact], context: Context, desk: StructuredLLM
) -> Fact:
    latest = max(fact.mentioned_at for fact in basis)
    return Fact(
        id=FactId(new_id()),
        bank=bank,
        network="observation",
        text=text,
        tokens=context.counter(text),
        mentioned_at=latest,
        valid_at=latest,
        entities=(Mention(id=entity.id, name=entity.name, type=entity.type),),
        basis=tuple(fact.id for fact in basis),
        engine=f"{desk.name}/{load_prompt(PROMPTS, 'observe').label}",
    )
