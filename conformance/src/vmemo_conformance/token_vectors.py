"""Token vectors: kept with their facts in nearly the same directions, switched and forgotten with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vmemo.errors import NotFound, VmemoError
from vmemo.lifecycle.forget import forget
from vmemo.models import BankId, Fact, FactId
from vmemo.models.changes import ForgetTarget, RestoreRecord
from vmemo.models.search import Encoding, TokenVectors
from vmemo.ports import Store
from vmemo.transfer.incoming import load_bank
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    named_entities,
    near,
    re_embedded,
    snapshot,
    some_tokens,
    store_fact,
    store_messages,
    token_vectors,
    with_vector,
)
from vmemo_conformance.suite import StoreSuite, on_store, refused

CLOSE = 0.95
"""The least cosine of a token vector with the one that was given."""
BAD: dict[str, TokenVectors] = {
    "one vector": some_tokens(1)[0],
    "rows of rows": some_tokens(2)[None, :],
    "no number": np.full((2, 8), np.nan, np.float32),
    "no end": np.array([[1.0, np.inf]], np.float32),
}


class TokenVectorConformance(StoreSuite):
    """`NewFact.tokens`, `token_vectors` and what new embeddings make of them."""

    @on_store
    async def test_token_vectors_are_read_back(self, store: Store) -> None:
        given = [some_tokens(3), some_tokens(40, 96), np.array([[0.6, -0.8, 0.0]], np.float32)]
        ids = [(await _write(store, f"fact {n}", tokens)).id for n, tokens in enumerate(given)]
        found = await token_vectors(store, BANK, ids)
        assert len(found) == len(given)
        assert all(_same(one, other) for one, other in zip(found, given, strict=True))
        assert all(tokens is not None and tokens.dtype == np.float32 for tokens in found)

    @on_store
    async def test_token_vectors_keep_the_requested_order_and_may_be_missing(self, store: Store) -> None:
        one, two = await _write(store, "one", some_tokens(1)), await _write(store, "two", some_tokens(2))
        plain = await store_fact(store, "plain")
        empty = await _write(store, "empty", some_tokens(1)[:0])
        ids = [two.id, FactId("missing"), plain.id, one.id, empty.id, two.id]
        found = await token_vectors(store, BANK, ids)
        expected = [some_tokens(2), None, None, some_tokens(1), None, some_tokens(2)]
        assert len(found) == len(expected)
        kept = [tokens if tokens is not None and len(tokens) else None for tokens in found]
        assert all(_same(one, other) for one, other in zip(kept, expected, strict=True))
        assert await token_vectors(store, BANK, []) == []

    @on_store
    async def test_many_token_vectors_are_read_at_once(self, store: Store) -> None:
        facts = [with_vector(a_fact(f"{n}"), tokens=some_tokens(n % 7 + 1)) for n in range(1200)]
        assert await store.commit(await a_batch(store, facts))
        found = await token_vectors(store, BANK, [item.fact.id for item in reversed(facts)])
        assert all(_same(tokens, item.tokens) for tokens, item in zip(found, reversed(facts), strict=True))

    @on_store
    async def test_token_vectors_of_another_bank_are_not_returned(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        theirs = await _write(store, "theirs", some_tokens(2), bank=OTHER)
        mine = await _write(store, "mine", some_tokens(3))
        [none, own] = await token_vectors(store, BANK, [theirs.id, mine.id])
        assert none is None
        assert _same(own, some_tokens(3))
        await store.commit(re_embedded(BANK, "new", {mine.id: Encoding(EMBEDDER.vector("x"))}, dimension=64))
        await forget(store, BANK, ForgetTarget(bank=True))
        assert _same((await token_vectors(store, OTHER, [theirs.id]))[0], some_tokens(2))

    @on_store
    async def test_an_embedder_switch_replaces_token_vectors(self, store: Store) -> None:
        one, two, three = [await _write(store, f"{n}", some_tokens(n)) for n in (1, 2, 3)]
        plain = await store_fact(store, "plain")
        vector = EMBEDDER.vector("new")
        new = {
            one.id: Encoding(vector, some_tokens(4, 5)),
            two.id: Encoding(vector),
            three.id: Encoding(vector, some_tokens(5)),
            plain.id: Encoding(vector, some_tokens(6)),
        }
        assert await store.commit(re_embedded(BANK, "new", new, dimension=64))
        found = await token_vectors(store, BANK, list(new))
        assert all(_same(tokens, new[id].tokens) for id, tokens in zip(new, found, strict=True))
        none = {id: Encoding(vector) for id in new}
        assert await store.commit(re_embedded(BANK, "plain", none, dimension=64))
        assert await token_vectors(store, BANK, list(new)) == [None] * 4

    @on_store
    async def test_a_failed_embedder_switch_keeps_token_vectors(self, store: Store) -> None:
        one, two = await _write(store, "one", some_tokens(1)), await _write(store, "two", some_tokens(2))
        before = await snapshot(store)
        vector = EMBEDDER.vector("new")
        some = {one.id: Encoding(vector, some_tokens(3))}
        assert await store.commit(re_embedded(BANK, "new", some, dimension=64)) is False
        assert await snapshot(store) == before
        for case, tokens in BAD.items():
            bad = {one.id: Encoding(vector, some_tokens(3)), two.id: Encoding(vector, tokens)}
            with refused(VmemoError):
                await store.commit(re_embedded(BANK, "new", bad, dimension=64))
            assert await snapshot(store) == before, case

    @on_store
    async def test_token_vectors_are_deleted_with_a_forgotten_fact(self, store: Store) -> None:
        gone, kept = await _write(store, "gone", some_tokens(2)), await _write(store, "kept", some_tokens(3))
        await forget(store, BANK, ForgetTarget(messages=gone.messages))
        [none, left] = await token_vectors(store, BANK, [gone.id, kept.id])
        assert none is None
        assert _same(left, some_tokens(3))
        again = gone.model_copy(update={"messages": ()})
        assert await store.commit(await a_batch(store, [again]))
        assert await token_vectors(store, BANK, [gone.id]) == [None]

    @on_store
    async def test_token_vectors_are_deleted_with_a_bank(self, store: Store) -> None:
        fact = await _write(store, "gone", some_tokens(2))
        await forget(store, BANK, ForgetTarget(bank=True))
        with refused(NotFound):
            await token_vectors(store, BANK, [fact.id])
        await store.create_bank(a_bank())
        assert await token_vectors(store, BANK, [fact.id]) == [None]
        assert await store.commit(await a_batch(store, [fact.model_copy(update={"messages": ()})]))
        assert await token_vectors(store, BANK, [fact.id]) == [None]

    @on_store
    async def test_a_batch_with_invalid_token_vectors_is_refused(self, store: Store) -> None:
        await _write(store, "good", some_tokens(2))
        [said] = await store_messages(store, "tulips")
        before, revision = await snapshot(store), await store.revision(BANK)
        for case, tokens in BAD.items():
            items = [with_vector(a_fact("one"), tokens=some_tokens(3)), with_vector(a_fact("two"), tokens=tokens)]
            batch = replace(await a_batch(store, items), pending=[said.id], entities=[an_entity("Anna")])
            with refused(VmemoError):
                await store.commit(batch)
            assert await snapshot(store) == before, case
            assert await store.revision(BANK) == revision, case
            assert await named_entities(store, BANK, "Anna") == [], case
        assert len(await near(store, EMBEDDER.vector("one"))) == 1

    @on_store
    async def test_a_restore_with_invalid_token_vectors_is_refused(self, store: Store) -> None:
        for case, tokens in BAD.items():
            facts = (a_fact("one", bank=OTHER), a_fact("two", bank=OTHER))
            records: list[RestoreRecord] = [with_vector(facts[0], tokens=some_tokens(2))]
            with refused(VmemoError):
                await load_bank(store, a_bank(OTHER), iter([*records, with_vector(facts[1], tokens=tokens)]))
            assert await store.bank(OTHER) is None, case


async def _write(store: Store, text: str, tokens: TokenVectors, *, bank: BankId = BANK) -> Fact:
    """A message and the one fact that was read from it."""
    [said] = await store_messages(store, text, bank=bank)
    fact = a_fact(text, bank=bank, messages=[said.id])
    batch = await a_batch(store, [with_vector(fact, tokens=tokens)], bank=bank)
    assert await store.commit(replace(batch, pending=[said.id]))
    return fact


def _same(found: TokenVectors | None, given: TokenVectors | None) -> bool:
    if found is None or given is None:
        return found is given
    return found.shape == given.shape and bool((found * given).sum(axis=1).min() >= CLOSE)
