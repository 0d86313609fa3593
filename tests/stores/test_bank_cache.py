"""Caches of banks are not used any more once the bank has changed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from vmemo.models import Claim, ConfidenceChange, FactId, Link
from vmemo.models.changes import AddedSource, Changes, Deletions, EntityMention, FactClosure, NewEmbeddings
from vmemo.models.search import Encoding, FactRevision
from vmemo.models.select import FactSelect
from vmemo.ports import fact_revisions
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    EdgesOf,
    FoundEdge,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    day,
    find_edges,
    load,
    mention_of,
    some_tokens,
    store_entities,
    store_story,
    token_vectors,
    with_vector,
)

Seen = tuple[list[FoundEdge], list[FactRevision], list[str]]


async def seen_of(store: SqliteStore, fact: FactId) -> Seen:
    """Everything that a recall reads of a fact beside its rankings."""
    edges = EdgesOf(scope=EVERYTHING, space=EMBEDDER.name, vector=EMBEDDER.vector("tulips"), facts=[fact])
    loaded, _ = await load(store, BANK, [fact])
    names = [entity.name for each in loaded for entity in each.entities]
    revisions = await store.read(BANK, lambda reader: fact_revisions(reader, EVERYTHING, [fact]))
    return await find_edges(store, edges), revisions, names


def test_links_entities_and_revisions_are_current_after_a_write_of_another_process(tmp_path: Path) -> None:
    async def run() -> None:
        one, other = SqliteStore(tmp_path / "memory.db"), SqliteStore(tmp_path / "memory.db")
        await one.open()
        await other.open()
        await one.create_bank(a_bank())
        mira = an_entity("Mira")
        await store_entities(one, mira)
        tulips = a_fact("Mira likes tulips.", entities=[mention_of(mira)])
        assert await one.commit(await a_batch(one, [tulips]))
        assert (await seen_of(one, tulips.id))[:2] == ([], [])
        roses, elms = a_fact("Mira likes roses.", entities=[mention_of(mira)]), a_fact("The elms fell.")
        batch = await a_batch(other, [roses, elms])
        links = [
            Link(source=elms.id, target=tulips.id, kind="causes", weight=0.5),
            Link(source=roses.id, target=tulips.id, kind="outdates", weight=0.9),
        ]
        renamed = mira.model_copy(update={"name": "Mira Lund"})
        assert await other.commit(replace(batch, links=links, entities=[renamed]))
        edges, revisions, names = await seen_of(one, tulips.id)
        assert [(edge.target, edge.kind, edge.via) for edge in edges] == [
            (elms.id, "caused_by", ""),
            (roses.id, "entity", "Mira Lund"),
        ]
        assert [(edge.newer, edge.older) for edge in revisions] == [(roses.id, tulips.id)]
        assert names == ["Mira Lund"]
        assert await seen_of(one, tulips.id) == await seen_of(other, tulips.id)
        await one.close()
        await other.close()

    asyncio.run(run())


def test_token_vectors_are_current_after_another_process_has_replaced_them(tmp_path: Path) -> None:
    async def run() -> None:
        one, other = SqliteStore(tmp_path / "memory.db"), SqliteStore(tmp_path / "memory.db")
        await one.open()
        await other.open()
        await one.create_bank(a_bank())
        fact = a_fact("Mira likes tulips.")
        assert await one.commit(await a_batch(one, [with_vector(fact, tokens=some_tokens(3))]))
        assert await _token_counts(one, fact.id) == await _token_counts(one, fact.id) == [3]
        vectors = {fact.id: Encoding(EMBEDDER.vector(fact.text), some_tokens(5))}
        new = NewEmbeddings(embedder=EMBEDDER.name, dimension=EMBEDDER.dimension, vectors=vectors)
        assert await other.commit(Changes(bank=BANK, embeddings=new))
        assert await _token_counts(one, fact.id) == [5]
        await one.close()
        await other.close()

    asyncio.run(run())


def test_loaded_facts_are_current_after_every_change_of_another_process(tmp_path: Path) -> None:
    async def run() -> None:
        one, other = SqliteStore(tmp_path / "memory.db"), SqliteStore(tmp_path / "memory.db")
        await one.open()
        await other.open()
        await one.create_bank(a_bank())
        story = await store_story(one)
        opinion = a_fact("Oslo is fine.", network="opinion", confidence=0.5, basis=[story.facts[0].id])
        assert await one.commit(await a_batch(one, [opinion]))
        fact, later, *_ = story.facts
        claim = Claim(text="x", start=0, end=1, outdated=0.5, replaced_by=later.id)
        reinforced = ConfidenceChange(opinion=opinion.id, stance="reinforce", before=0.5, after=0.6, at=day(5))
        episode, [said, *_] = story.episodes[1], story.messages[2:]
        parts: list[dict[str, Any]] = [
            {"claims": {fact.id: (claim,)}},
            {"pinned": {fact.id: True}},
            {"expiries": {fact.id: day(300)}},
            {"successors": {later.id: fact.id}},
            {"closures": [FactClosure(fact=fact.id, invalid_at=day(9), expired_at=day(9))]},
            {"reopened": [fact.id]},
            {"sources": [AddedSource(fact=fact.id, messages=(said.id,), episodes=(episode.id,))]},
            {"confidence": [reinforced]},
            {"entities": [story.entities[0].model_copy(update={"name": "Caroline Berg"})]},
            {"entities": [story.entities[0].model_copy(update={"name": "Caroline Berg", "type": "EVENT"})]},
            {"episodes": [episode.model_copy(update={"title": "another title"})]},
            {"deleted": Deletions(mentions=[EntityMention(fact=fact.id, entity=story.entities[1].id)])},
            {"mentions": [EntityMention(fact=fact.id, entity=story.entities[1].id)]},
        ]
        ids = [*(each.id for each in story.facts), opinion.id]
        seen = await load(one, BANK, ids)
        for part in parts:
            assert await other.commit(replace(await a_batch(other), **part)), part
            loaded = await load(one, BANK, ids)
            assert loaded != seen, part
            assert loaded[0] == await one.facts(BANK, FactSelect(ids=ids)), part
            seen = loaded
        await one.close()
        await other.close()

    asyncio.run(run())


async def _token_counts(store: SqliteStore, fact: FactId) -> list[int]:
    return [len(tokens) for tokens in await token_vectors(store, BANK, [fact]) if tokens is not None]
