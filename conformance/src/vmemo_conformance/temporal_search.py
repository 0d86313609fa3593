"""Facts by time: what happened in a stretch of it, by likeness and by nearness to its middle."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from vmemo.errors import EmbedderMismatch
from vmemo.lifecycle.forget import forget
from vmemo.models import FactId, Interval
from vmemo.models.changes import ForgetTarget
from vmemo.models.search import Scope, SearchRequest, TemporalSearch
from vmemo.models.select import FactSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    OTHER,
    FoundFact,
    a_bank,
    a_batch,
    at_cosine,
    day,
    search,
    store_fact,
)
from vmemo_conformance.suite import StoreSuite, on_store, refused

MOMENT = timedelta(microseconds=1)
MONTH = Interval(start=day(1), end=day(31))


class TemporalSearchConformance(StoreSuite):
    """`during`."""

    @on_store
    async def test_facts_that_overlap_a_half_open_range_are_found(self, store: Store) -> None:
        spans = {"past": (day(2), day(5)), "now": (day(10), day(12)), "long": (day(4), day(20))}
        for name, (start, end) in spans.items():
            await _happen(store, name, occurred_start=start, occurred_end=end, mentioned_at=day(29))
        table: tuple[tuple[datetime | None, datetime | None, set[str]], ...] = (
            (day(10), day(12), {"now", "long"}),
            (day(5), day(10), {"long"}),
            (day(5) - MOMENT, day(10) + MOMENT, {"past", "now", "long"}),
            (day(12), day(13), {"long"}),
            (day(11), day(11) + MOMENT, {"now", "long"}),
            (day(20), day(31), set()),
            (None, day(2), set()),
            (None, day(2) + MOMENT, {"past"}),
            (day(12), None, {"long"}),
            (day(20), None, set()),
            (None, None, {"past", "now", "long"}),
        )
        for start, end, names in table:
            assert await _found(store, during=Interval(start=start, end=end)) == names, (start, end)

    @on_store
    async def test_without_an_occurrence_the_mention_time_is_used(self, store: Store) -> None:
        await _happen(store, "mentioned", mentioned_at=day(10))
        await _happen(store, "happened", mentioned_at=day(10), occurred_start=day(20), occurred_end=day(21))
        table = (
            (day(10), day(11), {"mentioned"}),
            (day(10), day(10) + MOMENT, {"mentioned"}),
            (day(9), day(10), set[str]()),
            (day(10) + MOMENT, day(11), set[str]()),
            (day(20), day(22), {"happened"}),
        )
        for start, end, names in table:
            assert await _found(store, during=Interval(start=start, end=end)) == names, (start, end)

    @on_store
    async def test_facts_in_a_range_are_ordered_by_cosine_above_the_floor(self, store: Store) -> None:
        cosines = (0.5, 0.9, -0.4, 0.7)
        facts = {c: await _happen(store, f"{c}", cosine=c, tokens=int(c * 10) + 9) for c in cosines}
        await _happen(store, "later", mentioned_at=day(60))
        hits = await _hits(store, floor=-1.0)
        assert [hit.id for hit in hits] == [facts[c] for c in (0.9, 0.7, 0.5, -0.4)]
        assert np.allclose([hit.score for hit in hits], (0.9, 0.7, 0.5, -0.4), atol=0.01)
        assert [hit.tokens for hit in hits] == [18, 16, 14, 5]
        assert [hit.id for hit in await _hits(store, floor=0.6)] == [facts[0.9], facts[0.7]]
        assert [hit.id for hit in await _hits(store, limit=1)] == [facts[0.9]]
        assert await _hits(store, floor=0.95) == []

    @on_store
    async def test_edge_penalty_prefers_the_middle(self, store: Store) -> None:
        first = await _happen(store, "first", mentioned_at=day(1))
        middle = await _happen(store, "middle", mentioned_at=day(16))
        between = await _happen(store, "between", mentioned_at=day(23) + timedelta(hours=12))
        around = await _happen(store, "around", occurred_start=day(15), occurred_end=day(17), mentioned_at=day(40))
        faded = {hit.id: hit.score for hit in await _hits(store, edge_penalty=0.5)}
        expected = {first: 0.5, middle: 1.0, between: 0.75, around: 1.0}
        assert faded.keys() == expected.keys()
        assert all(abs(faded[id] - score) < 0.01 for id, score in expected.items())
        assert {round(hit.score, 2) for hit in await _hits(store)} == {1.0}

    @on_store
    async def test_the_best_after_edge_penalty_come_first_within_the_limit(self, store: Store) -> None:
        edge = await _happen(store, "edge", cosine=1.0, mentioned_at=day(1))
        middle = await _happen(store, "middle", cosine=0.8, mentioned_at=day(16))
        assert [hit.id for hit in await _hits(store)] == [edge, middle]
        assert [hit.id for hit in await _hits(store, edge_penalty=0.5)] == [middle, edge]
        assert [hit.id for hit in await _hits(store, edge_penalty=0.5, limit=1)] == [middle]
        floor = await _hits(store, edge_penalty=0.5, floor=0.9)
        assert [hit.id for hit in floor] == [edge]

    @on_store
    async def test_an_open_range_has_no_edge_penalty(self, store: Store) -> None:
        await _happen(store, "one", mentioned_at=day(2))
        await _happen(store, "two", mentioned_at=day(16))
        for open_ended in (Interval(), Interval(start=day(1)), Interval(end=day(31))):
            hits = await _hits(store, during=open_ended, edge_penalty=0.9)
            assert [round(hit.score, 2) for hit in hits] == [1.0, 1.0]

    @on_store
    async def test_a_temporal_search_respects_the_scope(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_fact(store, "theirs", bank=OTHER, vector=at_cosine(1.0))
        await _happen(store, "plain")
        await _happen(store, "opinion", network="opinion")
        await _happen(store, "tagged", tags=["a"], metadata={"n": 1})
        await _happen(store, "closed", valid_at=day(2), recorded_at=day(3), invalid_at=day(10), expired_at=day(12))
        current = {"plain", "opinion", "tagged"}
        table = (
            (EVERYTHING, current),
            (Scope(bank=BANK, networks=("opinion",)), {"opinion"}),
            (Scope(bank=BANK, tags=("a",)), {"tagged"}),
            (Scope(bank=BANK, metadata={"n": 1}), {"tagged"}),
            (Scope(bank=BANK, occurred=Interval(start=day(2))), set[str]()),
            (Scope(bank=BANK, include_expired=True), {*current, "closed"}),
            (Scope(bank=BANK, at_time=day(9)), {*current, "closed"}),
            (Scope(bank=BANK, at_time=day(10)), current),
            (Scope(bank=BANK, known_at=day(11)), {*current, "closed"}),
            (Scope(bank=BANK, known_at=day(12)), current),
            (Scope(bank=BANK, known_at=day(2)), current),
        )
        for scope, names in table:
            assert await _found(store, scope=scope) == names, scope

    @on_store
    async def test_forgotten_and_missing_facts_are_not_found_by_time(self, store: Store) -> None:
        assert await _hits(store) == []
        fact = await store_fact(store, "tulips", vector=at_cosine(1.0))
        assert [hit.id for hit in await _hits(store)] == [fact.id]
        await forget(store, BANK, ForgetTarget(messages=fact.messages))
        assert await _hits(store) == []

    @on_store
    async def test_a_time_with_a_vector_of_another_embedder_is_refused(self, store: Store) -> None:
        await _happen(store, "tulips")
        with refused(EmbedderMismatch):
            await search(store, replace(_REQUEST, space="another"))
        assert await store.commit(await a_batch(store))


_TEMPORAL = TemporalSearch(vector=at_cosine(1.0), during=MONTH)
_REQUEST = SearchRequest(scope=EVERYTHING, space=EMBEDDER.name, temporal=_TEMPORAL, limit=50)


async def _happen(store: Store, text: str, *, cosine: float = 1.0, **fields: object) -> FactId:
    return (await store_fact(store, text, bank=BANK, vector=at_cosine(cosine), **fields)).id


async def _hits(
    store: Store,
    *,
    scope: Scope = EVERYTHING,
    during: Interval = MONTH,
    limit: int = 50,
    floor: float = 0.0,
    edge_penalty: float = 0.0,
) -> list[FoundFact]:
    temporal = replace(_TEMPORAL, during=during, floor=floor, edge_penalty=edge_penalty)
    found = await search(store, replace(_REQUEST, scope=scope, temporal=temporal, limit=limit))
    return found.temporal


async def _found(store: Store, *, scope: Scope = EVERYTHING, during: Interval = MONTH) -> set[str]:
    hits = await _hits(store, scope=scope, during=during)
    return {fact.text for fact in await store.facts(BANK, FactSelect(ids=[hit.id for hit in hits]))}
