"""Builders of small, valid records, and shortcuts for store tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from vmemo.models import (
    Bank,
    BankId,
    ConfidenceChange,
    Entity,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    Link,
    LinkKind,
    Mention,
    Message,
    MessageId,
    new_id,
)
from vmemo.models.changes import Changes, MergeRecord, NewEmbeddings, NewFact
from vmemo.models.results import Status
from vmemo.models.search import (
    EdgeQuery,
    Edges,
    Encoding,
    Ranking,
    Scope,
    SearchRequest,
    TokenVectors,
    Vector,
)
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import BankReader, Store, TextKind, fact_tokens
from vmemo.text.tokens import terms
from vmemo_conformance.embedders import HashEmbedder


class TokenHashEmbedder(HashEmbedder):
    """A HashEmbedder that also returns a short vector for each word; the vector space is the same."""

    _short = HashEmbedder("short", 8)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Return embeddings with token vectors."""
        return [Encoding(self.vector(text), self.tokens(text)) for text in texts]

    def tokens(self, text: str) -> TokenVectors:
        """Return the vectors of a text's words as rows."""
        rows = [self._short.vector(term) for term in terms(text)]
        return np.stack(rows) if rows else np.zeros((0, self._short.dimension), np.float32)


EMBEDDER = HashEmbedder()
BANK = BankId("alice")
OTHER = BankId("bob")
START = datetime(2024, 1, 1, 9, tzinfo=UTC)
EVERYTHING = Scope(bank=BANK)


def day(number: int) -> datetime:
    """Return 9:00 UTC on the given day of January 2024."""
    return START + timedelta(days=number - 1)


def a_bank(id: str = BANK) -> Bank:
    """Return a bank with the samples' embedder."""
    return Bank(id=id, embedder=EMBEDDER.name, dimension=EMBEDDER.dimension, created_at=START)


def a_message(content: str, **fields: object) -> Message:
    """Return a message with a new id and default fields."""
    return Message.of({"content": content, "timestamp": START, "recorded_at": START, **fields})


def a_fact(text: str, **fields: object) -> Fact:
    """Return a world fact with a new id, mentioned on the first day."""
    plain = {"id": new_id(), "bank": BANK, "network": "world", "text": text, "tokens": len(text) // 4 + 1}
    return Fact.of({**plain, "mentioned_at": START, "recorded_at": START, **fields})


def an_entity(name: str, **fields: object) -> Entity:
    """Return an entity whose id is its lower-case name."""
    return Entity.of({"id": name.lower(), "name": name, "first_seen": START, "last_seen": START, **fields})


def mention_of(entity: Entity, name_in_text: str = "") -> Mention:
    """Return a mention of the entity; `name_in_text` is the name used, if it differs."""
    return Mention(id=entity.id, name=entity.name, type=entity.type, name_in_text=name_in_text)


def an_episode(title: str, messages: Sequence[Message], **fields: object) -> Episode:
    """Return an episode of the messages."""
    times = [message.timestamp for message in messages] or [START]
    spans = {"started_at": min(times), "ended_at": max(times), "messages": [message.id for message in messages]}
    plain = {"id": new_id(), "title": title, "narrative": f"All about {title}.", "recorded_at": START}
    return Episode.of({**plain, **spans, **fields})


def with_vector(fact: Fact, vector: Vector | None = None, tokens: TokenVectors | None = None) -> NewFact:
    """Return the fact with an embedding (by default of its text) and optional token vectors."""
    return NewFact(fact=fact, embedding=EMBEDDER.vector(fact.text) if vector is None else vector, tokens=tokens)


def some_tokens(count: int, width: int = 8) -> TokenVectors:
    """Return random unit vectors, deterministic for each count."""
    vectors = np.random.default_rng(count).standard_normal((count, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def at_cosine(cosine: float, *, dimension: int = EMBEDDER.dimension) -> Vector:
    """Return a unit vector that has this cosine with `at_cosine(1.0)`."""
    vector = np.zeros(dimension, np.float32)
    vector[0], vector[1] = cosine, np.sqrt(1 - cosine * cosine)
    return vector


async def a_batch(store: Store, facts: Sequence[Fact | NewFact] = (), *, bank: BankId = BANK) -> Changes:
    """A batch of facts, begun now; use `dataclasses.replace` to add to it."""
    items = [with_vector(fact) if isinstance(fact, Fact) else fact for fact in facts]
    return Changes(bank=bank, facts=items, revision=await store.revision(bank), embedder=EMBEDDER.name)


def re_embedded(bank: BankId, embedder: str, vectors: Mapping[FactId, Encoding], *, dimension: int) -> Changes:
    """Changes that replace the vectors of a bank."""
    return Changes(bank=bank, embeddings=NewEmbeddings(embedder=embedder, dimension=dimension, vectors=vectors))


class FoundFact(NamedTuple):
    """A fact or message of a ranking, by its id."""

    id: FactId
    score: float
    tokens: int


@dataclass(frozen=True)
class Found:
    """The rankings of a search by ids, for comparison."""

    semantic: list[list[FoundFact]]
    keyword: list[list[FoundFact]]
    verbatim: list[FoundFact]
    temporal: list[FoundFact]
    temporal_links: list[FoundEdge]
    entities: list[Mention]
    instructions: list[FactId]
    baselines: list[float]
    """Those of the semantic rankings."""


class FoundEdge(NamedTuple):
    """An edge by ids, with the name of the entity that leads from one fact to the other."""

    source: FactId | EntityId
    target: FactId
    tokens: int
    kind: LinkKind
    weight: float
    via: str = ""


@dataclass(frozen=True, kw_only=True)
class EdgesOf:
    """An edge query by ids."""

    scope: Scope
    space: str
    vector: Vector
    facts: Sequence[FactId] = ()
    entities: Sequence[EntityId] = ()
    kinds: frozenset[LinkKind] = frozenset()
    fan: int = 8
    common: int = 25
    floor: float = -1.0


async def search(store: Store, request: SearchRequest) -> Found:
    """Return the rankings of a request, as a recall searches them."""

    def run(reader: BankReader) -> Found:
        found = reader.search(request)
        links = _edges_by_id(reader, found.temporal_links, {})
        return Found(
            semantic=[_by_id(reader, each) for each in found.semantic],
            keyword=[_by_id(reader, each) for each in found.keyword],
            verbatim=_by_id(reader, found.verbatim),
            temporal=_by_id(reader, found.temporal),
            temporal_links=links,
            entities=list(found.entities.values()),
            instructions=[FactId(reader.ids([number])[number]) for number in found.instructions],
            baselines=[each.baseline for each in found.semantic],
        )

    return await store.read(request.scope.bank, run)


def _by_id(reader: BankReader, ranking: Ranking) -> list[FoundFact]:
    ids = reader.ids(ranking.numbers.tolist())
    rows = zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True)
    return [FoundFact(FactId(ids[number]), score, tokens) for (number, tokens, _), score in rows]


def _edges_by_id(reader: BankReader, found: Iterable[Edges], entities: Mapping[int, EntityId]) -> list[FoundEdge]:
    edges = [(each, *target) for each in found for target in each.targets if target[0] != each.source]
    ids = reader.ids([number for each, target, *_ in edges for number in (each.source, target) if number > 0])
    names = reader.entity_names(sorted({each.via for each, *_ in edges if each.via}))
    return [
        FoundEdge(
            FactId(ids[each.source]) if each.source > 0 else entities[-each.source],
            FactId(ids[target]),
            tokens,
            each.kind,
            each.weight,
            names.get(each.via, ""),
        )
        for each, target, tokens, _ in edges
    ]


MISSING_NUMBER = 2**40
"""The number of no record."""


def numbers_of(reader: BankReader, facts: Sequence[FactId]) -> list[int]:
    """Return the numbers of facts, `MISSING_NUMBER` for one that does not exist."""
    known = reader.numbers(facts)
    return [known.get(id, MISSING_NUMBER) for id in facts]


async def load(store: Store, bank: BankId, facts: Sequence[FactId]) -> tuple[list[Fact], dict[EpisodeId, str]]:
    """Return facts as a recall loads them, and the titles of their episodes."""

    def run(reader: BankReader) -> tuple[list[Fact], dict[EpisodeId, str]]:
        wanted = numbers_of(reader, facts)
        loaded = reader.load(wanted)
        return [loaded.facts[number] for number in wanted if number in loaded.facts], dict(loaded.titles)

    return await store.read(bank, run)


async def store_messages(store: Store, *contents: str, bank: BankId = BANK, **fields: object) -> list[Message]:
    """Store pending messages and return them."""
    said = [a_message(content, **fields) for content in contents]
    await store.append(bank, said)
    return said


async def store_fact(
    store: Store, text: str, *, bank: BankId = BANK, vector: Vector | None = None, **fields: object
) -> Fact:
    """Store a message with one fact, and return the fact."""
    [said] = await store_messages(store, text, bank=bank)
    fact = a_fact(text, **{"bank": bank, "messages": [said.id], **fields})
    begun = await a_batch(store, [with_vector(fact, vector)], bank=bank)
    landed = await store.commit(
        Changes(bank=bank, pending=[said.id], facts=begun.facts, revision=begun.revision, embedder=begun.embedder)
    )
    assert landed, "a commit against the current revision must succeed"
    return fact


async def store_entities(store: Store, *entities: Entity, bank: BankId = BANK) -> None:
    """Store or replace entities."""
    landed = await store.commit(replace(await a_batch(store, bank=bank), entities=entities))
    assert landed, "a commit against the current revision must succeed"


async def matches(store: Store, text: str, scope: Scope = EVERYTHING, *, limit: int = 50) -> list[FactId]:
    """Return the ids of facts found by keywords, best first."""
    found = await search(store, SearchRequest(scope=scope, keyword=[text], limit=limit))
    return [hit.id for hit in found.keyword[0]]


async def quotes(store: Store, text: str, scope: Scope = EVERYTHING, *, limit: int = 50) -> list[MessageId]:
    """Return the ids of messages found by keywords, best first."""
    found = await search(store, SearchRequest(scope=scope, verbatim=text, limit=limit))
    return [MessageId(hit.id) for hit in found.verbatim]


async def near(
    store: Store, vector: Vector, scope: Scope = EVERYTHING, *, limit: int = 50, floor: float = -1.0
) -> list[FactId]:
    """Return the ids of the facts nearest to a vector, best first."""
    request = SearchRequest(scope=scope, space=EMBEDDER.name, semantic=[vector], limit=limit, floor=floor)
    return [hit.id for hit in (await search(store, request)).semantic[0]]


async def named_entities(store: Store, bank: BankId, text: str) -> list[Mention]:
    """Return the entities that a text names."""
    return list((await search(store, SearchRequest(scope=Scope(bank=bank), names_in=text, limit=1))).entities)


async def find_edges(store: Store, query: EdgesOf) -> list[FoundEdge]:
    """Return the edges that leave some facts and entities."""
    bank = query.scope.bank
    named = await store.entities(bank, EntitySelect(ids=query.entities))

    def run(reader: BankReader) -> list[FoundEdge]:
        entities: dict[int, EntityId] = {}
        for entity in named:
            found = reader.search(SearchRequest(scope=Scope(bank=bank), names_in=entity.name, limit=1)).entities
            entities |= {number: mention.id for number, mention in found.items() if mention.id == entity.id}
        missing = [MISSING_NUMBER] * (len(query.entities) > len(entities))
        asked = EdgeQuery(
            scope=query.scope,
            space=query.space,
            vector=query.vector,
            facts=numbers_of(reader, query.facts),
            entities=[*entities, *missing],
            kinds=query.kinds,
            fan=query.fan,
            common=query.common,
            floor=query.floor,
        )
        return _edges_by_id(reader, reader.edges(asked), entities)

    return await store.read(bank, run)


async def token_vectors(store: Store, bank: BankId, facts: Sequence[FactId]) -> list[TokenVectors | None]:
    """Return the token vectors of facts, None for a fact that has none."""
    return await store.read(bank, lambda reader: fact_tokens(reader, facts))


@dataclass(frozen=True)
class Snapshot:
    """The contents of a bank for comparison, without its revision and size."""

    bank: Bank | None
    messages: list[Message]
    facts: list[Fact]
    episodes: list[Episode]
    entities: list[Entity]
    links: list[Link]
    tokens: list[tuple[tuple[float, ...], ...] | None]
    status: Status
    merges: list[MergeRecord] = field(default_factory=list[MergeRecord])
    moves: list[ConfidenceChange] = field(default_factory=list[ConfidenceChange])


async def snapshot(store: Store, bank: BankId = BANK) -> Snapshot:
    """Return the contents of a small bank."""
    status = await store.status(bank)
    facts = await store.facts(bank, FactSelect(limit=1000, with_embeddings=True))
    return Snapshot(
        bank=await store.bank(bank),
        messages=await store.messages(bank, MessageSelect(limit=1000)),
        facts=facts,
        episodes=await store.episodes(bank, EpisodeSelect(limit=1000)),
        entities=await store.entities(bank, EntitySelect(limit=1000)),
        links=await store.links(bank),
        tokens=_plain(await token_vectors(store, bank, [fact.id for fact in facts])),
        status=status.model_copy(update={"bytes": 0}),
        merges=await store.merges(bank),
        moves=await store.confidence_changes(bank),
    )


def _plain(found: Iterable[TokenVectors | None]) -> list[tuple[tuple[float, ...], ...] | None]:
    """Return token vectors as comparable values."""
    return [None if tokens is None else tuple(map(tuple, tokens.tolist())) for tokens in found]


@dataclass(frozen=True)
class Story:
    """The records that `store_story` wrote."""

    messages: list[Message]
    facts: list[Fact]
    episodes: list[Episode]
    entities: list[Entity]
    links: list[Link]


async def store_story(store: Store, bank: BankId = BANK) -> Story:
    """Store four messages in two episodes with a fact each, an observation of two facts, two entities and two links."""
    said = await store_messages(store, *_LINES, bank=bank, document="letters")
    caroline, oslo = an_entity("Caroline", type="PERSON"), an_entity("Oslo", type="LOCATION")
    first = an_episode("moving", said[:2], id=EpisodeId(new_id()))
    second = an_episode("garden", said[2:], previous=first.id, ended_at=day(2))
    who = [(caroline, oslo), (caroline,), (caroline,), ()]
    read = [
        a_fact(
            message.content,
            bank=bank,
            messages=[message.id],
            episodes=[(first, first, second, second)[i].id],
            entities=[mention_of(entity) for entity in who[i]],
        )
        for i, message in enumerate(said)
    ]
    profile = a_fact("Caroline moved and gardens.", bank=bank, network="observation", basis=[read[0].id, read[2].id])
    links = [
        Link(source=read[1].id, target=read[0].id, kind="temporal", weight=0.5),
        Link(source=read[3].id, target=read[2].id, kind="causes", weight=1.0),
    ]
    begun = await a_batch(store, [*read, profile], bank=bank)
    batch = Changes(
        bank=bank,
        pending=[message.id for message in said],
        episodes=[first, second],
        facts=begun.facts,
        entities=[caroline, oslo],
        links=links,
        revision=begun.revision,
        embedder=begun.embedder,
    )
    assert await store.commit(batch), "a commit against the current revision must succeed"
    return Story(said, [*read, profile], [first, second], [caroline, oslo], links)


_LINES = (
    "Caroline moved to Oslo with her piano.",
    "Caroline unpacked the kitchen crockery.",
    "Caroline planted tulips behind the shed.",
    "The gardener pruned an apple tree.",
)


def ids_of(entities: Sequence[Entity]) -> list[EntityId]:
    """Return the ids of the entities."""
    return [entity.id for entity in entities]
