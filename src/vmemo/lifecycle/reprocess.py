"""Reprocessing: a bank is derived again in a staging bank, which then takes its place in one commit.

The staging bank is hidden and holds copies of all messages. What messages do not state is kept: opinions that
reflection formed, with their confidence history, decisions of the user on single facts, and what is known about the
names of entities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet
from hashlib import sha256

from vmemo.errors import NotFound
from vmemo.lifecycle.reprocess_rules import (
    ReprocessRecords,
    is_formed,
    kept_change,
    kept_entities,
    kept_fact,
    pending_copy,
    seed_entities,
    seed_merges,
)
from vmemo.lifecycle.user_decisions import UserDecisions, drop_outdated, user_decisions
from vmemo.models import (
    Bank,
    BankId,
    Fact,
    FactId,
    MessageId,
)
from vmemo.models.changes import Changes, Deletions, NewFact, Rename
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import HIDDEN, Embedder, HiddenBank, Store, encodings
from vmemo.ports.store import paged
from vmemo.text.fact_text import embedded_text

PAGE = 1000
"""Records that are read, or messages that are copied, together."""


async def staging_bank(store: Store, bank: BankId, engine: str, *, embedder: str, dimension: int) -> BankId:
    """Return the staging bank with pending copies of all messages: the one begun before, or a new one.

    One that was begun with another engine or embedder is dropped.
    """
    found = await _find(store, bank)
    if found is not None and (found.note, found.bank.embedder, found.bank.dimension) != (engine, embedder, dimension):
        await store.drop_bank(BankId(found.bank.id))
        found = None
    if found is None:
        staging = await _create(store, bank, engine, embedder=embedder, dimension=dimension)
    else:
        staging = BankId(found.bank.id)
    await _copy_messages(store, bank, staging)
    return staging


def staging_name(bank: BankId) -> BankId:
    """Return the name of a bank's staging bank."""
    return BankId(f"{HIDDEN}reprocess {sha256(bank.encode()).hexdigest()}")


async def _find(store: Store, bank: BankId) -> HiddenBank | None:
    return next((hidden for hidden in await store.hidden_banks() if hidden.replaces == bank), None)


async def _create(store: Store, bank: BankId, engine: str, *, embedder: str, dimension: int) -> BankId:
    stored = await store.bank(bank)
    if stored is None:
        raise NotFound(f"There is no bank {bank!r} here.")
    staging = staging_name(bank)
    new = Bank(id=staging, profile=stored.profile, embedder=embedder, dimension=dimension)
    await store.create_bank(new, replaces=bank, note=engine)
    return staging


async def _copy_messages(store: Store, bank: BankId, staging: BankId) -> None:
    """Append the messages that the staging bank lacks, after the entities it must know in advance."""
    if not await store.messages(staging, MessageSelect(limit=1)):
        entities = [
            entity async for entity in paged(lambda after: store.entities(bank, EntitySelect(after=after, limit=PAGE)))
        ]
        merges = await store.merges(bank)
        seeds = seed_entities(entities, merges)
        await store.commit(Changes(bank=staging, entities=seeds, merges=seed_merges(merges)))
    after: MessageId | None = None
    while page := await store.messages(bank, MessageSelect(after=after, limit=PAGE)):
        known = {
            message.id for message in await store.messages(staging, MessageSelect(ids=[message.id for message in page]))
        }
        await store.append(staging, [pending_copy(message) for message in page if message.id not in known])
        after = page[-1].id


async def swap_in(store: Store, bank: BankId, embedder: Embedder) -> bool:
    """Put the staging bank in the bank's place; return False, with nothing changed, if it is not complete.

    It is complete once it holds all messages and has processed them.
    """
    staging = await _find(store, bank)
    if staging is None:
        return False
    name = BankId(staging.bank.id)
    await drop_outdated(store, bank, name)
    revision, replaced = await store.revision(name), await store.revision(bank)
    if (await store.status(name)).pending or await store.jobs(name, ["process", "extract"]):
        return False
    decisions = await user_decisions(store, bank, name)
    records = await _load(store, bank, name, decisions)
    facts = [kept_fact(fact, records) for fact in records.kept]
    entities, unused = kept_entities(records, facts)
    unused_merges = [merge.id for merge in await store.merges(name) if merge.entity in unused]
    changes = Changes(
        bank=name,
        revision=revision,
        entities=entities,
        curated=sorted(decisions.curated),
        facts=await _embedded(facts, embedder),
        links=decisions.links(),
        closures=decisions.closures(),
        pinned=decisions.pins(),
        confidence_history=[kept_change(change, records) for change in records.history],
        deleted=Deletions(entities=unused, merges=unused_merges),
        rename=Rename(to=bank, revision=replaced),
    )
    return await store.commit(changes)


async def _embedded(facts: Sequence[Fact], embedder: Embedder) -> list[NewFact]:
    texts = [embedded_text(fact.text, fact.mentioned_at, fact.engine) for fact in facts]
    found = await encodings(embedder, texts, "document")
    return [NewFact(fact=f, embedding=e.vector, tokens=e.tokens) for f, e in zip(facts, found, strict=True)]


async def _load(store: Store, bank: BankId, staging: BankId, decisions: UserDecisions) -> ReprocessRecords:
    opinions = [
        fact
        async for fact in paged(lambda after: store.facts(bank, FactSelect(after=after, limit=PAGE)))
        if is_formed(fact)
    ]
    formed = {opinion.id for opinion in opinions}
    history = [change for change in await store.confidence_changes(bank) if change.opinion in formed] if formed else []
    kept = [*opinions, *decisions.kept]
    grounds = {id for fact in kept for id in fact.basis} | {id for change in history for id in change.evidence}
    behind = await _behind(store, bank, grounds)
    new_facts, beside = await _new_facts(store, staging, behind.values()) if grounds else ({}, {})
    return ReprocessRecords(
        kept=kept,
        counterparts=decisions.counterparts,
        history=history,
        behind=behind,
        entities=[
            entity async for entity in paged(lambda after: store.entities(bank, EntitySelect(after=after, limit=PAGE)))
        ],
        new_entities=[
            entity
            async for entity in paged(lambda after: store.entities(staging, EntitySelect(after=after, limit=PAGE)))
        ],
        new_facts=new_facts,
        beside=beside,
    )


async def _behind(store: Store, bank: BankId, grounds: AbstractSet[FactId]) -> dict[FactId, Fact]:
    """Return facts with those they rest on, directly or not."""
    found: dict[FactId, Fact] = {}
    edge = set(grounds)
    while edge:
        found |= {fact.id: fact for fact in await store.facts(bank, FactSelect(ids=sorted(edge)))}
        edge = {id for fact in found.values() for id in fact.basis} - found.keys() - edge
    return found


async def _new_facts(
    store: Store, staging: BankId, behind: Iterable[Fact]
) -> tuple[dict[MessageId, list[FactId]], dict[MessageId, list[FactId]]]:
    """Return the facts of the staging bank by message, and by a message without facts those of its episode."""
    stated: dict[MessageId, list[FactId]] = {}
    async for fact in paged(lambda after: store.facts(staging, FactSelect(after=after, limit=PAGE))):
        for message in fact.messages:
            stated.setdefault(message, []).append(fact.id)
    beside: dict[MessageId, list[FactId]] = {}
    for message in {message for fact in behind for message in fact.messages} - stated.keys():
        episode = first_of(await store.episodes(staging, EpisodeSelect(messages=[message])))
        others = () if episode is None else episode.messages
        beside[message] = [fact for other in others for fact in stated.get(other, ())]
    return stated, beside
