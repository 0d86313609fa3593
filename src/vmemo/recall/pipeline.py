"""A recall from query to result. It only reads; access counts are collected by the caller and written later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vmemo.models import Channel, EpisodeId, Fact, FactId, Hit, MessageId, Placing, utc_now
from vmemo.ports import Embedder, Ranking, Store, TokenCounter
from vmemo.recall.fuse import Fused, Fusion, fuse, placings
from vmemo.recall.pack import pack
from vmemo.recall.query import Query
from vmemo.recall.recalled import Recalled
from vmemo.recall.search import search
from vmemo.recall.stopwatch import Stopwatch
from vmemo.recall.weigh import weigh

Rankings = Mapping[Channel, Ranking]


async def recall(
    query: Query, store: Store, embedder: Embedder, counter: TokenCounter, *, fusion: Fusion = "sum"
) -> Recalled:
    """Search, fuse, weigh and pack."""
    watch = Stopwatch()
    rankings = await search(query, store, embedder, watch)
    with watch.stage("fuse"):
        candidates = fuse(rankings, fusion)
    with watch.stage("load"):
        hits, titles = await _load(query, candidates, rankings, store, counter)
    return _result(query, hits, titles, watch)


async def _load(
    query: Query, candidates: Sequence[Fused], rankings: Rankings, store: Store, counter: TokenCounter
) -> tuple[list[Hit], Mapping[EpisodeId, str]]:
    """Hits that fit. Only they are read from the store, unless weighing needs to see all candidates."""
    weighed = query.recency_half_life is not None or query.importance_weight > 0
    chosen = candidates if weighed else pack(candidates, query.max_tokens, query.top_k)
    facts, titles = await _facts(query, chosen, rankings["verbatim"], store, counter)
    placed = placings(rankings, facts.keys())
    hits = [_hit(facts[item.id], item.score, placed[item.id]) for item in chosen if item.id in facts]
    if weighed:
        hits = weigh(hits, utc_now(), half_life=query.recency_half_life, importance_weight=query.importance_weight)
    return pack(hits, query.max_tokens, query.top_k), titles


async def _facts(
    query: Query, chosen: Sequence[Fused], verbatim: Ranking, store: Store, counter: TokenCounter
) -> tuple[dict[FactId, Fact], Mapping[EpisodeId, str]]:
    bank, said = query.scope.bank, {hit.id for hit in verbatim.hits}
    loaded = await store.load(bank, [item.id for item in chosen if item.id not in said])
    facts = {fact.id: fact for fact in loaded.facts}
    messages = [MessageId(item.id) for item in chosen if item.id in said]
    for message in await store.messages(bank, messages) if messages else ():
        facts[FactId(message.id)] = Fact.in_own_words(message, bank, counter)
    return facts, loaded.titles


def _hit(fact: Fact, score: float, channels: Mapping[Channel, Placing]) -> Hit:
    values = {"fact": fact, "score": score, "channels": channels, "verbatim": "verbatim" in channels}
    return Hit.trusted(values)


def _result(query: Query, hits: Sequence[Hit], titles: Mapping[EpisodeId, str], watch: Stopwatch) -> Recalled:
    return Recalled.model_construct(
        query=query.text,
        hits=tuple(hits),
        tokens=sum(hit.fact.tokens for hit in hits),
        at_time=query.scope.at_time,
        known_at=query.scope.known_at,
        titles=titles,
        timings=watch.timings(),
    )
