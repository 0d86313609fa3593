"""Banks: creation, profiles, a change of embedder, and restoring an export."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from vmemo.errors import EmbedderMismatch, InvalidInput, NotFound, VmemoError
from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.models import Bank, BankId, ConfidenceChange, Disposition, FactId, Link, Profile, new_id
from vmemo.models.changes import Changes, NewFact, ProfileChange, RestoreRecord
from vmemo.models.results import Spending
from vmemo.models.search import Encoding, Scope, SearchRequest
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo.transfer.incoming import load_bank
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    OTHER,
    START,
    EdgesOf,
    Snapshot,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_entity,
    an_episode,
    at_cosine,
    day,
    find_edges,
    matches,
    mention_of,
    named_entities,
    near,
    quotes,
    re_embedded,
    search,
    snapshot,
    some_tokens,
    store_fact,
    store_messages,
    store_story,
    with_vector,
)
from vmemo_conformance.suite import StoreSuite, on_store, refused

COPY = BankId("copy")
LARGE = 100
"""Records of a kind in a large page."""
WIDER = HashEmbedder("wider", 96)


class BankConformance(StoreSuite):
    """`create_bank`, `commit` of profiles and embeddings, and loading banks."""

    @on_store
    async def test_a_bank_is_created_once(self, store: Store) -> None:
        first = Bank(id=OTHER, profile=Profile(name="first"), embedder="one", dimension=3, created_at=START)
        second = Bank(id=OTHER, profile=Profile(name="second"), embedder="two", dimension=4)
        assert await store.create_bank(first) == first
        assert await store.create_bank(second) == first
        assert await store.bank(OTHER) == first
        assert {bank.id for bank in await store.banks()} == {BANK, OTHER}

    @on_store
    async def test_a_profile_is_replaced(self, store: Store) -> None:
        disposition = Disposition(skepticism=1, literalism=5, empathy=2)
        profile = Profile(name="Гость", disposition=disposition, bias=0.25, background="I paint.")
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=profile)))
        stored = await store.bank(BANK)
        assert stored is not None
        assert stored == a_bank().model_copy(update={"profile": profile})

    @on_store
    async def test_all_embeddings_are_switched_in_one_step(self, store: Store) -> None:
        facts = [await store_fact(store, text) for text in ("tulips", "roses", "oaks")]
        vectors = {fact.id: Encoding(WIDER.vector(fact.text)) for fact in facts}
        assert await near(store, EMBEDDER.vector("roses"), limit=1) == [facts[1].id]
        assert await store.commit(re_embedded(BANK, "wider", vectors, dimension=96))
        stored = await store.bank(BANK)
        assert stored is not None
        assert (stored.embedder, stored.dimension) == ("wider", 96)
        query = SearchRequest(scope=EVERYTHING, space="wider", semantic=[WIDER.vector("roses")], limit=1)
        assert [hit.id for hit in (await search(store, query)).semantic[0]] == [facts[1].id]
        [first, *_] = await store.facts(BANK, FactSelect(with_embeddings=True))
        assert np.allclose(first.embedding or (), vectors[first.id].vector, atol=1e-3)
        assert await matches(store, "roses") == [facts[1].id]
        with refused(EmbedderMismatch):
            await near(store, EMBEDDER.vector("roses"))
        with refused(EmbedderMismatch):
            await store.commit(await a_batch(store, [a_fact("elms")]))

    @on_store
    async def test_embeddings_are_not_switched_while_one_is_missing(self, store: Store) -> None:
        facts = [await store_fact(store, text) for text in ("tulips", "roses", "oaks")]
        before = await snapshot(store)
        some = {fact.id: Encoding(WIDER.vector(fact.text)) for fact in facts[:2]}
        assert await store.commit(re_embedded(BANK, "wider", some, dimension=96)) is False
        assert await snapshot(store) == before
        assert await near(store, EMBEDDER.vector("roses"), limit=1) == [facts[1].id]

    @on_store
    async def test_embeddings_of_an_unexpected_dimension_are_refused(self, store: Store) -> None:
        fact = await store_fact(store, "tulips")
        before = await snapshot(store)
        short = {fact.id: Encoding(at_cosine(1.0, dimension=95))}
        with refused(VmemoError):
            await store.commit(re_embedded(BANK, "wider", short, dimension=96))
        assert await snapshot(store) == before

    @on_store
    async def test_an_empty_bank_is_switched_to_another_embedder(self, store: Store) -> None:
        extra = {FactId("forgotten meanwhile"): Encoding(WIDER.vector("x"))}
        assert await store.commit(re_embedded(BANK, "wider", extra, dimension=96))
        assert (await store.status(BANK)).dimension == 96

    @on_store
    async def test_a_restored_bank_equals_the_exported_one(self, store: Store) -> None:
        await store_story(store)
        await store_fact(store, "tulips closed", invalid_at=day(2), expired_at=day(3), access_count=4, tags=["t"])
        assert await store.commit(await a_batch(store, [with_vector(a_fact("tulips"), tokens=some_tokens(3))]))
        await store_messages(store, "tulips pending", tags=["x"], metadata={"n": [1]})
        await store_messages(store, "tulips raw", state="raw")
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=Profile(name="somebody"))))
        exported = await snapshot(store)
        assert exported.bank is not None
        await load_bank(store, exported.bank.model_copy(update={"id": COPY}), _records(exported))
        restored = await snapshot(store, COPY)
        assert _renamed(restored) == _renamed(exported)
        copy = Scope(bank=COPY)
        assert set(await matches(store, "tulips", copy)) == set(await matches(store, "tulips"))
        assert set(await quotes(store, "tulips", copy)) == set(await quotes(store, "tulips"))
        vector = EMBEDDER.vector("tulips")
        assert await near(store, vector, copy) == await near(store, vector)
        assert await named_entities(store, COPY, "Caroline in Oslo") == await named_entities(
            store, BANK, "Caroline in Oslo"
        )
        ids = [fact.id for fact in exported.facts]
        edges = await find_edges(store, EdgesOf(scope=EVERYTHING, space=EMBEDDER.name, vector=vector, facts=ids))
        assert edges
        assert sorted(
            await find_edges(store, EdgesOf(scope=copy, space=EMBEDDER.name, vector=vector, facts=ids))
        ) == sorted(edges)

    @on_store
    async def test_a_large_page_is_stored_as_several_small_ones_are(self, store: Store) -> None:
        records = list(_large_page())
        for bank, size in ((COPY, 1000), (OTHER, 30)):
            await load_bank(store, a_bank(bank), iter(records), size=size)
        large, small = await snapshot(store, COPY), await snapshot(store, OTHER)
        assert _renamed(large) == _renamed(small)
        assert (len(large.facts), len(large.links), len(large.messages)) == (LARGE, LARGE, LARGE)
        for found in (matches, quotes):
            first, second = [await found(store, "tulips number 7", Scope(bank=bank)) for bank in (COPY, OTHER)]
            assert first == second
        vector = EMBEDDER.vector("tulips number 7")
        assert await near(store, vector, Scope(bank=COPY)) == await near(store, vector, Scope(bank=OTHER))

    @on_store
    async def test_a_large_page_with_an_unknown_reference_is_not_stored(self, store: Store) -> None:
        unknown = with_vector(a_fact("tulips", messages=[new_id()]))
        with refused(InvalidInput):
            await load_bank(store, a_bank(COPY), chain(_large_page(), [unknown]))
        assert await store.bank(COPY) is None

    @on_store
    async def test_a_restored_bank_accepts_writes(self, store: Store) -> None:
        await store_story(store)
        [pending] = await store_messages(store, "tulips pending")
        exported = await snapshot(store)
        await load_bank(store, a_bank(COPY), _records(exported))
        assert [m.id for m in await store.messages(COPY, MessageSelect.oldest_pending(9))] == [pending.id]
        fact = await store_fact(store, "another tulip", bank=COPY)
        assert fact.id in await matches(store, "tulip", Scope(bank=COPY))

    @on_store
    async def test_confidence_changes_merges_and_costs_are_restored(self, store: Store) -> None:
        story = await store_story(store)
        opinion = a_fact("Oslo is cold.", network="opinion", confidence=0.5, basis=[story.facts[0].id])
        assert await store.commit(await a_batch(store, [opinion]))
        step = ConfidenceChange(
            opinion=opinion.id, stance="reinforce", before=0.5, after=0.6, evidence=(opinion.id,), at=day(2)
        )
        spent = [Spending(step="extract", model="m", calls=2, cost=0.5)]
        assert await store.commit(replace(await a_batch(store), confidence=[step], spending=spent))
        keep, absorb = (entity.id for entity in story.entities)
        made = await merge_entities(store, BANK, keep, absorb, "for a test")
        exported = await snapshot(store)
        more = [*exported.moves, *await store.merges(BANK), *exported.status.spending]
        await load_bank(store, a_bank(COPY), chain(_records(exported), more))
        assert await store.confidence_changes(COPY) == [step]
        assert await store.merges(COPY) == [made]
        assert (await store.status(COPY)).spending == tuple(spent)
        for bank in (BANK, COPY):
            assert await undo_merge(store, bank, made.id) == absorb
        assert await store.entities(COPY, EntitySelect()) == await store.entities(BANK, EntitySelect())
        restored = [fact.model_copy(update={"bank": BANK}) for fact in await store.facts(COPY, FactSelect())]
        assert restored == await store.facts(BANK, FactSelect())

    @on_store
    async def test_a_restore_queues_pending_messages(self, store: Store) -> None:
        await load_bank(store, a_bank(COPY), iter([a_message("tulips", state="raw")]))
        assert await store.jobs(COPY) == []
        await load_bank(store, a_bank(OTHER), iter([a_message("tulips")]))
        assert [job.kind for job in await store.jobs(OTHER)] == ["process"]

    @on_store
    async def test_message_errors_are_restored(self, store: Store) -> None:
        await load_bank(store, a_bank(COPY), iter([a_message("tulips", error="timed out")]))
        [trouble] = (await store.status(COPY)).problems
        assert (trouble.error, trouble.messages) == ("timed out", 1)

    @on_store
    async def test_restoring_over_an_existing_bank_is_refused(self, store: Store) -> None:
        await store_story(store)
        before = await snapshot(store)
        with refused(InvalidInput):
            await load_bank(store, a_bank(), iter([a_message("tulips")]))
        assert await snapshot(store) == before

    @on_store
    async def test_an_interrupted_restore_leaves_nothing(self, store: Store) -> None:
        def broken() -> Iterator[RestoreRecord]:
            yield from (a_message(f"tulips {n}") for n in range(600))
            raise InvalidInput("line 601 is not JSON")

        unknown = a_fact("tulips", bank=COPY, messages=[new_id()])
        short = with_vector(a_fact("tulips", bank=COPY), at_cosine(1.0, dimension=5))
        for records in (broken(), iter([with_vector(unknown)]), iter([a_message("tulips"), short])):
            with refused(VmemoError):
                await load_bank(store, a_bank(COPY), records)
            assert await store.bank(COPY) is None
            with refused(NotFound):
                await store.messages(COPY, MessageSelect())
        await load_bank(store, a_bank(COPY), iter([]))
        assert (await store.status(COPY)).messages == 0


def _large_page() -> Iterator[RestoreRecord]:
    """Yield messages, facts and links, more of each than stores write with the statements of small commits."""
    said = [a_message(f"tulips number {number}", state="raw") for number in range(LARGE)]
    ann = an_entity("Ann")
    episode = an_episode("tulips", said)
    facts = [
        a_fact(
            message.content,
            messages=[message.id],
            episodes=[episode.id],
            entities=[mention_of(ann, "Annie" if number % 2 else "")],
            importance=number / LARGE,
        )
        for number, message in enumerate(said)
    ]
    yield from (*said, ann, episode)
    for number, fact in enumerate(facts):
        yield with_vector(fact, tokens=some_tokens(number % 3 + 1) if number % 3 else None)
    for one, next in zip(facts, [*facts[1:], facts[0]], strict=True):
        yield Link(source=one.id, target=next.id, kind="semantic", weight=0.5)


def _records(exported: Snapshot) -> Iterator[RestoreRecord]:
    yield from exported.messages
    yield from exported.entities
    yield from exported.episodes
    for fact, tokens in zip(exported.facts, exported.tokens, strict=True):
        yield NewFact(
            fact=fact.model_copy(update={"bank": COPY, "embedding": None}),
            embedding=np.array(fact.embedding, np.float32),
            tokens=None if tokens is None else np.array(tokens, np.float32),
        )
    yield from exported.links


def _renamed(found: Snapshot) -> Snapshot:
    assert found.bank is not None
    backlog = tuple(work.model_copy(update={"next_at": None}) for work in found.status.backlog)
    return Snapshot(
        bank=found.bank.model_copy(update={"id": COPY}),
        messages=found.messages,
        facts=[fact.model_copy(update={"bank": COPY}) for fact in found.facts],
        episodes=found.episodes,
        entities=found.entities,
        links=found.links,
        tokens=found.tokens,
        status=found.status.model_copy(update={"bank": COPY, "backlog": backlog}),
    )
