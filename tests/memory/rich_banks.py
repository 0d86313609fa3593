"""Banks with something of everything that a store can hold, written through the port, for tests that copy them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builders import counted_fact

from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.lifecycle.reprocess import staging_bank, swap_in
from vmemo.models import BankId, ConfidenceChange, Fact, Link, Profile
from vmemo.models.changes import Changes, FactClosure, MessageFailure, NewJob, ProfileChange
from vmemo.models.results import Spending
from vmemo.models.select import FactSelect
from vmemo.ports import Store
from vmemo.stores.sqlite.store import SqliteStore
from vmemo.transfer.files import lines
from vmemo_conformance.reprocess import process_staging
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    a_bank,
    a_batch,
    a_message,
    an_entity,
    an_episode,
    day,
    mention_of,
    some_tokens,
    store_messages,
    store_story,
    with_vector,
)

EMPTY, TOKYO = BankId("empty"), BankId("東京 🗼")
BANKS = [BANK, EMPTY, TOKYO]


async def fill(folder: Path) -> Path:
    """A file with three banks: one with something of everything, an empty one, and one with unread messages only."""
    path = folder / "source.db"
    store = SqliteStore(path)
    await store.open()
    for bank in BANKS:
        await store.create_bank(a_bank(bank))
    await _enrich(store)
    await store_messages(store, "まだ読んでいない。", "Ещё одно.", bank=TOKYO, speaker="山田", tags=["día"])
    await store.close()
    return path


async def exports(store: Store, *banks: BankId) -> dict[BankId, list[str]]:
    """The lines of banks' exports."""
    return {bank: [line async for line in lines(store, bank)] for bank in banks or BANKS}


async def _enrich(store: Store) -> None:
    story = await store_story(store)
    await _derive_anew(store, story.facts[0])
    await _merge(store)
    await _revise(store)
    await _group(store)
    await store.commit(
        Changes(
            bank=BANK, profile=ProfileChange(profile=Profile(name="Ada", background="I like order."), reason="Told. 🙂")
        )
    )
    await store.commit(
        Changes(
            bank=BANK,
            profile=ProfileChange(profile=Profile(name="Ada", background="I like chaos."), reason="Told again."),
        )
    )
    facts = await store.facts(BANK, FactSelect())
    await store.commit(Changes(bank=BANK, accesses={facts[1].id: 3}))
    await store.commit(
        Changes(bank=BANK, jobs=[NewJob(kind="observe", key="caroline"), NewJob(kind="observe", key="oslo")])
    )


async def _derive_anew(store: Store, basis_fact: Fact) -> None:
    """Opinions that were formed before all was derived anew: they are stored before the facts that they rest on."""
    first = counted_fact("She moves a lot.", network="opinion", confidence=0.5, basis=[basis_fact.id])
    assert await store.commit(await a_batch(store, [first]))
    second = counted_fact("She is restless.", network="opinion", confidence=0.4, basis=[basis_fact.id, first.id])
    assert await store.commit(await a_batch(store, [second]))
    shadow = await staging_bank(store, BANK, "new", embedder=EMBEDDER.name, dimension=EMBEDDER.dimension)
    await process_staging(store, shadow, [an_entity("Caroline", type="PERSON")])
    assert await swap_in(store, BANK, EMBEDDER)
    last = (await store.facts(BANK, FactSelect()))[-1]
    link = Link(source=last.id, target=first.id, kind="semantic", weight=0.25)
    step = ConfidenceChange(
        opinion=first.id, stance="weaken", before=0.5, after=0.45, evidence=(last.id,), reason="¿?", at=day(3)
    )
    other = Link(source=last.id, target=basis_fact.id, kind="causes", weight=1 / 3)
    assert await store.commit(replace(await a_batch(store), links=[link, other], confidence=[step]))


async def _merge(store: Store) -> None:
    """A chain of merges, one that was undone, and strangers."""
    people = [
        an_entity(name, not_aliases=["Hannah"] if name == "Ann" else []) for name in ("Ann", "Anna", "Anne", "Än")
    ]
    told = [counted_fact(f"{person.name} came.", entities=[mention_of(person)]) for person in people]
    opinion = counted_fact("Ann is kind.", network="opinion", confidence=0.7, basis=[told[0].id], tags=["x"])
    both = replace(await a_batch(store, [*told, opinion]), entities=people)
    assert await store.commit(both)
    ann, anna, anne, other = (person.id for person in people)
    await merge_entities(store, BANK, anna, other, "a nickname")
    await merge_entities(store, BANK, ann, anna, "alike")
    parted = await merge_entities(store, BANK, ann, anne, "alike too")
    await undo_merge(store, BANK, parted.id)


async def _revise(store: Store) -> None:
    """Closed facts and what replaced them, token vectors, metadata, context, costs and messages of other states."""
    [context] = await store_messages(store, "Who is it?", document="tea", key="1", metadata={"n": 1})
    [said] = await store_messages(store, "Kein Tee für Øystein.", document="tea", key="2", metadata={"n": None})
    more = {"messages": [said.id], "context": context.content, "context_from": context.id}
    new = counted_fact("Øystein drinks no tea.", metadata={"deep": {"a": [None, True, 0.1]}}, tags=["día"], **more)
    old = counted_fact(
        "Øystein drinks tea.", occurred_start=day(1), occurred_end=day(2), valid_at=day(1), importance=0.9
    )
    items = [with_vector(old), with_vector(new, tokens=some_tokens(3))]
    spent = [Spending(step=step, model="Ä", calls=3, failures=1, input_tokens=70, cost=0.1) for step in ("b", "B", "a")]
    batch = replace(await a_batch(store, items), pending=[said.id], spending=spent, becomes="extracted")
    assert await store.commit(batch)
    closing = FactClosure(fact=old.id, invalid_at=day(2), expired_at=day(3))
    later = replace(await a_batch(store), closures=[closing], successors={new.id: old.id})
    assert await store.commit(later)
    await store.append(BANK, [a_message("Kept in its words.", state="raw", role="tool")])
    failed = await store_messages(store, "It can't be read.")
    await store.commit(Changes(bank=BANK, failures=[MessageFailure(messages=[failed[0].id], error="timed out: 🕛")]))


async def _group(store: Store) -> None:
    """An episode of a read and an unread message, one of an unread one alone, and one after it of a read one."""
    said = await store_messages(store, "Read one.", "Waits one.", "Waits two.", "Read two.", timestamp=day(4))
    mixed = an_episode("mixed", said[:2])
    alone = an_episode("alone", said[2:3], previous=mixed.id)
    after = an_episode("after", said[3:], previous=alone.id)
    batch = replace(await a_batch(store), episodes=[mixed, alone, after], becomes="grouped")
    assert await store.commit(replace(batch, pending=[line.id for line in said]))
    read = replace(await a_batch(store), pending=[said[0].id, said[3].id], becomes="extracted")
    assert await store.commit(read)
