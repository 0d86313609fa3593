"""Searches: facts by vector and by keywords, and messages verbatim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vmemo.errors import EmbedderMismatch
from vmemo.models import MessageId
from vmemo.models.search import SearchRequest
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    a_batch,
    a_fact,
    at_cosine,
    day,
    matches,
    near,
    quotes,
    search,
    store_fact,
    store_messages,
)
from vmemo_conformance.suite import StoreSuite, on_store, refused

SCRIPTS = (
    ("我在北京的一家书店工作", "北京", "他住在上海"),
    ("今日は京都で抹茶を飲みました", "抹茶", "明日は雨です"),
    ("저는 부산에서 김치를 먹었습니다", "김치", "서울은 춥다"),
    ("Мария купила велосипед в Казани", "велосипед", "Иван читает газету"),
    ("اشترت ليلى دراجة في القاهرة", "دراجة", "قرأ سامي الجريدة"),
    ("ฉันกินข้าวผัดที่เชียงใหม่", "เชียงใหม่", "เขาอ่านหนังสือพิมพ์"),
    ("Η Ελένη αγόρασε ποδήλατο", "ποδήλατο", "Ο Νίκος διαβάζει"),
    ("Wir waren in Zürich Käse essen", "zurich kase", "Er liest die Zeitung"),
    ("She PAINTED two landscapes", "paint landscape", "He reads a newspaper"),
)
"""A text, a query that finds it, and a text that the query must not find."""

HOSTILE = (
    "",
    " \t\n",
    "the of and",
    '"',
    "'; DROP TABLE facts; --",
    '" OR "tulips',
    "tulips AND",
    "NOT tulips",
    "NEAR(tulips shed, 2)",
    "words : tulips",
    "{words} : tulips",
    "tulips*",
    "^tulips + shed",
    "((((",
    "a-b-c !!! ??? %_\\",
    "tulips\x00shed\x07",
    "\ud800 tulips",
    "🌷🌷🌷",
    "q\u19b0z tulips",
    "\u0e31\u0301\u200d\ufeff",
    "x" * 100_000,
    " ".join(f"word{n}" for n in range(20_000)),
    "tulips " * 15_000,
)


class SearchConformance(StoreSuite):
    """The semantic, keyword and verbatim channels of `search`."""

    @on_store
    async def test_nearest_facts_are_ordered_by_cosine(self, store: Store) -> None:
        cosines = (0.5, 0.9, -0.4, 0.7, 0.1)
        facts = {
            c: await store_fact(store, f"cosine {c}", vector=at_cosine(c), tokens=int(c * 10) + 9) for c in cosines
        }
        query = SearchRequest(scope=EVERYTHING, space=EMBEDDER.name, semantic=[at_cosine(1.0)], limit=4, floor=-1.0)
        hits = (await search(store, query)).semantic[0]
        assert [hit.id for hit in hits] == [facts[c].id for c in (0.9, 0.7, 0.5, 0.1)]
        assert np.allclose([hit.score for hit in hits], (0.9, 0.7, 0.5, 0.1), atol=0.01)
        assert [hit.tokens for hit in hits] == [facts[c].tokens for c in (0.9, 0.7, 0.5, 0.1)]

    @on_store
    async def test_facts_below_the_floor_are_not_near(self, store: Store) -> None:
        for cosine in (0.2, 0.4, 0.6):
            await store_fact(store, f"cosine {cosine}", vector=at_cosine(cosine))
        for floor, count in ((0.0, 3), (0.3, 2), (0.5, 1), (0.7, 0)):
            assert len(await near(store, at_cosine(1.0), floor=floor)) == count, floor

    @on_store
    async def test_searching_an_empty_bank_finds_nothing(self, store: Store) -> None:
        assert await near(store, at_cosine(1.0)) == []
        assert await matches(store, "tulips") == []
        assert await quotes(store, "tulips") == []
        assert [*map(list, await store.nearest(BANK, np.stack([at_cosine(1.0)]), limit=5, floor=0.0))] == [[]]

    @on_store
    async def test_a_vector_of_another_embedder_is_refused(self, store: Store) -> None:
        await store_fact(store, "tulips")
        with refused(EmbedderMismatch):
            await search(store, SearchRequest(scope=EVERYTHING, space="another", semantic=[at_cosine(1.0)], limit=5))

    @on_store
    async def test_each_vector_has_its_own_current_neighbours(self, store: Store) -> None:
        one, two = (
            await store_fact(store, "one", vector=at_cosine(1.0)),
            await store_fact(store, "two", vector=at_cosine(0.0)),
        )
        await store_fact(store, "closed", vector=at_cosine(1.0), expired_at=day(2))
        await store_fact(store, "over", vector=at_cosine(1.0), invalid_at=day(2))
        vectors = np.stack([at_cosine(1.0), at_cosine(0.1), at_cosine(-1.0)])
        found = await store.nearest(BANK, vectors, limit=5, floor=0.05)
        assert [[hit.id for hit in hits] for hits in found] == [[one.id], [two.id, one.id], []]
        assert [len(hits) for hits in await store.nearest(BANK, vectors, limit=1, floor=-1.0)] == [1, 1, 1]
        assert list(await store.nearest(BANK, vectors[:0], limit=5, floor=0.0)) == []

    @on_store
    async def test_matching_facts_are_ordered_by_bm25(self, store: Store) -> None:
        for n in range(8):
            await store_fact(store, f"an unrelated report number {n}")
        common = [await store_fact(store, f"garden walk number {n}") for n in range(3)]
        rare = await store_fact(store, "tulips bloom somewhere")
        both = await store_fact(store, "tulips stand in a garden")
        long = await store_fact(store, "tulips " + "and many further things besides " * 5)
        found = await matches(store, "garden tulips")
        assert found[0] == both.id
        assert set(found) == {rare.id, both.id, long.id, *(fact.id for fact in common)}
        assert found.index(rare.id) < found.index(long.id)
        twice = await store_fact(store, "tulips beside tulips")
        assert await matches(store, "tulips", limit=2) == [twice.id, rare.id]

    @on_store
    async def test_word_scores_descend_and_tokens_are_those_of_the_fact(self, store: Store) -> None:
        facts = {
            f.id: f
            for f in [await store_fact(store, "tulips " * n + "bloom " * (9 - n), tokens=n) for n in range(1, 6)]
        }
        hits = (await search(store, SearchRequest(scope=EVERYTHING, keyword=["tulips"], limit=9))).keyword[0]
        scores = [hit.score for hit in hits]
        assert len(hits) == 5
        assert scores == sorted(scores, reverse=True)
        assert scores[-1] > 0
        assert [hit.tokens for hit in hits] == [facts[hit.id].tokens for hit in hits]

    @on_store
    async def test_a_facts_context_is_searched_too(self, store: Store) -> None:
        [asked] = await store_messages(store, "Where are the tulips?")
        fact = await store_fact(store, "Behind the shed.", context="Where are the tulips?", context_from=asked.id)
        assert await matches(store, "tulips") == [fact.id]

    @on_store
    async def test_words_of_every_script_are_found(self, store: Store) -> None:
        for text, query, other in SCRIPTS:
            [unread], _ = await store_messages(store, text), await store_messages(store, other)
            assert await quotes(store, query) == [unread.id], query
            fact, _ = await store_fact(store, text), await store_fact(store, other)
            assert await matches(store, query) == [fact.id], query

    @on_store
    async def test_no_query_text_raises(self, store: Store) -> None:
        fact = await store_fact(store, "tulips behind the shed")
        [unread] = await store_messages(store, "tulips behind the house")
        for text in HOSTILE:
            assert set(await matches(store, text)) <= {fact.id}, text[:50]
            assert set(await quotes(store, text)) <= {unread.id}, text[:50]
        assert await matches(store, 'the "tulips"') == [fact.id]
        assert await quotes(store, 'the "tulips"') == [unread.id]

    @on_store
    async def test_stop_words_alone_find_nothing(self, store: Store) -> None:
        await store_fact(store, "the tulips are behind the shed")
        await store_messages(store, "the tulips are behind the shed")
        assert await matches(store, "are the") == []
        assert await quotes(store, "are the") == []

    @on_store
    async def test_messages_are_quoted_while_no_fact_repeats_their_words(self, store: Store) -> None:
        unread, kept, extracted = await store_messages(store, "tulips one", "tulips two", "tulips three")
        [raw] = await store_messages(store, "tulips four", state="raw")
        await store_messages(store, "tulips five", state="derived")
        assert await store.commit(replace(await a_batch(store, [a_fact("tulips two")]), pending=[kept.id]))
        assert await store.commit(
            replace(await a_batch(store, [a_fact("flowers")]), pending=[extracted.id], becomes="extracted")
        )
        assert set(await quotes(store, "tulips")) == {unread.id, extracted.id, raw.id}

    @on_store
    async def test_quotes_are_ordered_by_score_within_the_limit(self, store: Store) -> None:
        plain = await store_messages(store, *(f"garden number {n}" for n in range(6)))
        [best] = await store_messages(store, "tulips in the garden")
        assert (await quotes(store, "garden tulips"))[0] == best.id
        assert len(await quotes(store, "garden", limit=3)) == 3
        query = SearchRequest(scope=EVERYTHING, verbatim="garden tulips", limit=9)
        hits = (await search(store, query)).verbatim
        assert {MessageId(hit.id) for hit in hits} == {m.id for m in (*plain, best)}
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert all(hit.tokens > 0 for hit in hits)
