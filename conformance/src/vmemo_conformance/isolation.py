"""Bank isolation: no method reaches another bank's memories through any id, cursor, word or vector."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import numpy as np

from vmemo.errors import NotFound
from vmemo.lifecycle.forget import forget
from vmemo.models import BankId, FactId, Interval, MessageId, Profile
from vmemo.models.changes import Changes, ForgetTarget, MessageFailure, ProfileChange
from vmemo.models.search import Encoding, Scope, SearchRequest, TemporalSearch
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    EdgesOf,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    find_edges,
    ids_of,
    load,
    matches,
    named_entities,
    near,
    quotes,
    re_embedded,
    search,
    snapshot,
    store_fact,
    store_messages,
    store_story,
    token_vectors,
)
from vmemo_conformance.suite import StoreSuite, on_store, refused

NOBODY = BankId("nobody")


class IsolationConformance(StoreSuite):
    """Every method with another bank's ids."""

    @on_store
    async def test_ids_of_another_bank_find_nothing(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        theirs = await store_story(store, OTHER)
        facts, said = [fact.id for fact in theirs.facts], [m.id for m in theirs.messages]
        episodes, entities = [e.id for e in theirs.episodes], ids_of(theirs.entities)
        assert await store.messages(BANK, MessageSelect(ids=said)) == []
        assert await store.messages(BANK, MessageSelect(document="letters")) == []
        assert first_of(await store.messages(BANK, MessageSelect(preceding=theirs.messages[1], limit=1))) is None
        assert await store.facts(BANK, FactSelect(ids=facts, with_embeddings=True)) == []
        assert await store.episodes(BANK, EpisodeSelect(ids=episodes)) == []
        assert await load(store, BANK, facts) == ([], {})
        assert first_of(await store.episodes(BANK, EpisodeSelect(messages=[said[0]]))) is None
        assert first_of(await store.episodes(BANK, EpisodeSelect(last_first=True, limit=1))) is None
        assert await store.facts(BANK, FactSelect(episode=episodes[0], with_embeddings=True)) == []
        assert await store.entities(BANK, EntitySelect(ids=entities)) == []
        assert await store.links(BANK, facts) == await store.links(BANK) == []
        assert not any((await store.cooccurring(BANK, entities)).values())
        assert await store.facts(BANK, FactSelect(around=theirs.facts[0].mentioned_at, current=True, limit=9)) == []

    @on_store
    async def test_a_cursor_of_another_bank_shows_only_this_bank(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        theirs, mine = await store_story(store, OTHER), await store_story(store)
        said = await store.messages(BANK, MessageSelect(after=theirs.messages[0].id))
        facts = await store.facts(BANK, FactSelect(after=theirs.facts[0].id))
        episodes = await store.episodes(BANK, EpisodeSelect(after=theirs.episodes[0].id))
        assert {m.id for m in said} <= {m.id for m in mine.messages}
        assert {fact.id for fact in facts} <= {fact.id for fact in mine.facts}
        assert {episode.id for episode in episodes} <= {episode.id for episode in mine.episodes}

    @on_store
    async def test_entities_with_one_id_in_two_banks_are_separate(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_story(store, OTHER)
        mine = await store_story(store)
        before = await snapshot(store, OTHER)
        await forget(store, BANK, ForgetTarget(entity=mine.entities[0].id))
        assert await snapshot(store, OTHER) == before

    @on_store
    async def test_searches_stay_in_their_bank(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        theirs = await store_fact(store, "tulips", bank=OTHER)
        await store_messages(store, "tulips", bank=OTHER)
        vector = EMBEDDER.vector("tulips")
        for own in (False, True):
            mine = [(await store_fact(store, "tulips")).id] if own else []
            assert await matches(store, "tulips") == mine
            assert await near(store, vector) == mine
            [around] = await store.nearest(BANK, np.stack([vector]), limit=9, floor=-1.0)
            assert [hit.id for hit in around] == mine
            assert await quotes(store, "tulips") == []
        assert await matches(store, "tulips", Scope(bank=OTHER)) == [theirs.id]

    @on_store
    async def test_filters_do_not_reach_another_bank(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_fact(store, "tulips", bank=OTHER, tags=["a"], metadata={"n": 1})
        await store_story(store, OTHER)
        for scope in (
            Scope(bank=BANK, tags=("a",)),
            Scope(bank=BANK, metadata={"n": 1}),
            Scope(bank=BANK, entities=("Caroline",)),
            Scope(bank=BANK, include_expired=True),
        ):
            assert await matches(store, "tulips caroline", scope) == []

    @on_store
    async def test_writes_do_not_reach_another_bank(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        theirs = await store_story(store, OTHER)
        await store_messages(store, "unread", bank=OTHER)
        before, revision = await snapshot(store, OTHER), await store.revision(OTHER)
        await store.commit(Changes(bank=BANK, accesses={fact.id: 1 for fact in theirs.facts}))
        await store.commit(
            Changes(bank=BANK, failures=[MessageFailure(messages=[m.id for m in before.messages], error="broken")])
        )
        await store.commit(Changes(bank=BANK, profile=ProfileChange(profile=Profile(name="somebody"))))
        await store.append(BANK, [m.model_copy(update={"content": "mine"}) for m in before.messages])
        await store_fact(store, "tulips")
        assert await store.commit(re_embedded(BANK, "new", await _vectors(store), dimension=EMBEDDER.dimension))
        for target in (
            ForgetTarget(messages=[theirs.messages[0].id, MessageId("missing")]),
            ForgetTarget(document="of nobody"),
            ForgetTarget(entity=theirs.entities[0].id),
        ):
            with refused(NotFound):
                await forget(store, BANK, target)
        await forget(store, BANK, ForgetTarget(bank=True))
        assert await snapshot(store, OTHER) == before
        assert await store.revision(OTHER) == revision

    @on_store
    async def test_one_id_in_two_banks_is_two_messages(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        message = a_message("tulips", document="letters", key="1")
        assert await store.append(BANK, [message]) == {message.id}
        assert await store.append(OTHER, [message]) == {message.id}
        fact = a_fact("tulips")
        assert await store.commit(replace(await a_batch(store, [fact]), pending=[message.id]))
        [theirs] = await store.messages(OTHER, MessageSelect.oldest_pending(5))
        assert theirs == message
        assert await store.commit(replace(await a_batch(store, [fact], bank=OTHER), pending=[message.id]))

    @on_store
    async def test_a_missing_bank_is_not_found(self, store: Store) -> None:
        scope = Scope(bank=NOBODY)
        vector = EMBEDDER.vector("tulips")
        temporal = TemporalSearch(vector=vector, during=Interval())
        calls: list[Awaitable[object]] = [
            store.append(NOBODY, [a_message("x")]),
            store.messages(NOBODY, MessageSelect.oldest_pending(5)),
            store.messages(NOBODY, MessageSelect(preceding=a_message("x"), limit=1)),
            store.messages(NOBODY, MessageSelect()),
            store.messages(NOBODY, MessageSelect(ids=[])),
            store.commit(Changes(bank=NOBODY, failures=[MessageFailure(messages=[], error="x")])),
            search(store, SearchRequest(scope=scope, space=EMBEDDER.name, semantic=[vector], limit=5)),
            search(store, SearchRequest(scope=scope, keyword=["tulips"], limit=5)),
            search(store, SearchRequest(scope=scope, verbatim="tulips", limit=5)),
            search(store, SearchRequest(scope=scope, space=EMBEDDER.name, temporal=temporal, limit=5)),
            find_edges(store, EdgesOf(scope=scope, space=EMBEDDER.name, vector=vector)),
            named_entities(store, NOBODY, "tulips"),
            token_vectors(store, NOBODY, []),
            store.nearest(NOBODY, np.stack([vector]), limit=5, floor=0.0),
            store.facts(NOBODY, FactSelect()),
            store.episodes(NOBODY, EpisodeSelect()),
            store.entities(NOBODY, EntitySelect()),
            store.links(NOBODY),
            store.revision(NOBODY),
            store.commit(Changes(bank=NOBODY, profile=ProfileChange(profile=Profile()))),
            store.former_profiles(NOBODY),
            store.commit(Changes(bank=NOBODY, accesses={})),
            forget(store, NOBODY, ForgetTarget(bank=True)),
            store.status(NOBODY),
            store.commit(re_embedded(NOBODY, "new", {}, dimension=3)),
        ]
        for call in calls:
            with refused(NotFound):
                await call
        assert await store.bank(NOBODY) is None


async def _vectors(store: Store) -> dict[FactId, Encoding]:
    return {fact.id: Encoding(EMBEDDER.vector("new")) for fact in await store.facts(BANK, FactSelect(limit=1000))}
