"""A recall from query to result. It only reads; access counts are collected by the caller and written later."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.models import EpisodeId, Fact, FactId, Hit, Message, MessageId, utc_now
from vmemo.ports import Embedder, Store, TokenCounter
from vmemo.recall.fuse import Fused, Fusion, fuse
from vmemo.recall.pack import pack
from vmemo.recall.query import Query
from vmemo.recall.recalled import Recalled
from vmemo.recall.search import search
from vmemo.recall.stopwatch import Stopwatch
from vmemo.recall.weigh import weigh


async def recall(
    query: Query, store: Store, embedder: Embedder, counter: TokenCounter, *, fusion: Fusion = "sum"
) -> Recalled:
    """Search, fuse, weigh and pack."""
    watch = Stopwatch()
    rankings = await search(query, store, embedder, watch)
    with watch.stage("fuse"):
        candidates = fuse(rankings, fusion)
    with watch.stage("load"):
        hits = await _load(query, candidates, store, counter)
    with watch.stage("titles"):
        episodes = list(dict.fromkeys(episode for hit in hits for episode in hit.fact.episodes))
        titles = await store.titles(query.scope.bank, episodes) if episodes else {}
    return _result(query, hits, titles, watch)


async def _load(query: Query, candidates: Sequence[Fused], store: Store, counter: TokenCounter) -> list[Hit]:
    """Hits that fit. Only they are read from the store, unless weighing needs to see all candidates."""
    weighed = query.recency_half_life is not None or query.importance_weight > 0
    chosen = candidates if weighed else pack(candidates, query.max_tokens, query.top_k)
    hits = await _hits(query, chosen, store, counter)
    if weighed:
        hits = weigh(hits, utc_now(), half_life=query.recency_half_life, importance_weight=query.importance_weight)
    return [item.hit for item in pack([_Counted(hit) for hit in hits], query.max_tokens, query.top_k)]


class _Counted:
    def __init__(self, hit: Hit) -> None:
        self.hit = hit
        self.tokens = hit.fact.tokens


async def _hits(query: Query, chosen: Sequence[Fused], store: Store, counter: TokenCounter) -> list[Hit]:
    bank = query.scope.bank
    verbatim = [item.id for item in chosen if "verbatim" in item.channels]
    facts = {fact.id: fact for fact in await store.facts(bank, [f.id for f in chosen if f.id not in set(verbatim)])}
    said = await store.messages(bank, [MessageId(id) for id in verbatim]) if verbatim else []
    facts |= {FactId(message.id): _own_words(message, query, counter) for message in said}
    return [
        Hit.model_construct(
            fact=facts[item.id], score=item.score, channels=item.channels, verbatim="verbatim" in item.channels
        )
        for item in chosen
        if item.id in facts
    ]


def _own_words(message: Message, query: Query, counter: TokenCounter) -> Fact:
    """A message in the shape of a fact, under the message's own id."""
    text = f"{message.voice}: {message.content}"
    return Fact.model_construct(
        id=FactId(message.id),
        bank=query.scope.bank,
        network="world",
        text=text,
        tokens=counter(text),
        mentioned_at=message.timestamp,
        valid_at=message.timestamp,
        recorded_at=message.recorded_at,
        messages=(message.id,),
        tags=message.tags,
        metadata=message.metadata,
        engine="verbatim",
    )


def _result(query: Query, hits: Sequence[Hit], titles: dict[EpisodeId, str], watch: Stopwatch) -> Recalled:
    return Recalled.model_construct(
        query=query.text,
        hits=tuple(hits),
        tokens=sum(hit.fact.tokens for hit in hits),
        at_time=query.scope.at_time,
        known_at=query.scope.known_at,
        titles=titles,
        timings=watch.timings(),
    )
