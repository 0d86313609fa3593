"""Search rules that are written once for several databases: BM25 over arrays, conditions of a scope, edges, channels.

SQL and Cypher write the conditions of a scope alike, so they are returned as text. `Placeholder` adds a value to the
parameters of the statement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, NamedTuple, Protocol, assert_never, get_args

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from vmemo.models import Interval, LinkKind, Mention, MessageId, Network, RevisionKind
from vmemo.models.changes import NewFact
from vmemo.models.records import TagsMatch
from vmemo.models.search import (
    EdgeQuery,
    Edges,
    Encoding,
    Ranking,
    Scope,
    SearchRequest,
    SearchResult,
    StageTimer,
    TemporalSearch,
    Vector,
    temporal_link_query,
)
from vmemo.ports import BankReader
from vmemo.stores.values import term_hash
from vmemo.text.tokens import terms

K1, B = 1.2, 0.75
"""The parameters of BM25: how soon repetitions of a word stop to count, and how much the length of a text does."""
MOST_TEXTS = 10_000
"""Texts that are scored. A query that matches more is searched by its rarest words, and its other words only score."""
GROWTH = 4
"""If too few of the best texts are in the scope, the next step looks up this many times as many texts."""

Placeholder = Callable[[datetime], str]
_COMMON: frozenset[Network] = frozenset({"world", "experience"})


class Collection(NamedTuple):
    """The number of indexed texts of a bank, and of their words."""

    texts: int
    words: int


class IndexedTexts(NamedTuple):
    """Texts of a word index: their numbers, their lengths, and the keys of all their words one after another."""

    seqs: NDArray[np.int64]
    lengths: NDArray[np.int64]
    words: NDArray[np.int32]


class WordIndex(Protocol):
    """The word index of the facts or the messages of a bank, with the filter of a scope.

    `frequencies` returns how many texts have each word; only large banks are asked. `texts` returns at most
    `MOST_TEXTS` that have one of the words, and `in_scope` the tokens and the time of those that the scope accepts.
    """

    @property
    def size(self) -> Collection: ...
    def frequencies(self, keys: Sequence[int]) -> Mapping[int, float]: ...
    def texts(self, keys: Sequence[int]) -> IndexedTexts: ...
    def in_scope(self, seqs: Sequence[int]) -> Mapping[int, tuple[int, int]]: ...


def word_keys(bank: int | str, words: Iterable[str]) -> list[int]:
    """Return the 32-bit hashes of words. The bank is part of each, so that one index leads to the texts of one bank."""
    own = term_hash(str(bank))
    return [(term_hash(word) ^ own) - 2**31 for word in words]


def fact_words(text: str, context: str) -> list[str]:
    """Return the words of a fact, with repetition. Its own words count twice as much as those of its context."""
    return [*terms(text) * 2, *terms(context)]


def accepts_messages(scope: Scope) -> bool:
    """Return False if a scope filters by networks or entities, which only facts have."""
    return not scope.entities and (not scope.networks or "world" in scope.networks)


def rank_by_words(index: WordIndex, keys: Sequence[int], *, limit: int, sign: int = 1) -> Ranking:
    """Rank the texts that have some of the words by BM25; `sign` is -1 for messages."""
    if not keys or not index.size.texts:
        return Ranking()
    keys = sorted(set(keys))
    frequencies = index.frequencies(keys) if index.size.texts > MOST_TEXTS else dict[int, float]()
    found = index.texts(_rarest(keys, frequencies))
    scores = _bm25(index.size, found, keys, frequencies)
    best = np.lexsort((found.seqs, -scores))
    hits, start, length = list[tuple[int, int, int, float]](), 0, limit + limit // GROWTH
    while start < len(best) and len(hits) < limit:
        places = best[start : start + length]
        seqs = found.seqs[places].tolist()
        accepted = index.in_scope(seqs)
        scored = zip(seqs, scores[places].tolist(), strict=True)
        hits += [(sign * seq, *accepted[seq], score) for seq, score in scored if seq in accepted]
        start, length = start + length, GROWTH * length
    return Ranking.of(hits[:limit])


def _rarest(keys: Sequence[int], frequencies: Mapping[int, float]) -> list[int]:
    """Return the words that find texts: all, or the rarest ones that together are in at most `MOST_TEXTS` texts."""
    ordered = sorted(keys, key=lambda key: frequencies.get(key, 0))
    total = np.cumsum([frequencies.get(key, 0) for key in ordered])
    return ordered[: max(1, int(np.searchsorted(total, MOST_TEXTS, side="right")))]


def _bm25(
    size: Collection, found: IndexedTexts, keys: Sequence[int], frequencies: Mapping[int, float]
) -> NDArray[np.float64]:
    """Return the score of each text; words without a known frequency are counted in the texts."""
    count = len(found.seqs)
    text_of_word = np.repeat(np.arange(count), found.lengths)
    norms = K1 * (1 - B + B * found.lengths / max(size.words / size.texts, 1.0))
    scores = np.zeros(count)
    for key in keys:
        repeated = np.bincount(text_of_word[found.words == key], minlength=count)
        known = frequencies.get(key, np.count_nonzero(repeated))
        rarity = np.log(1 + (size.texts - known + 0.5) / (known + 0.5))
        scores += rarity * repeated * (K1 + 1) / (repeated + norms)
    return scores


def is_wide(scope: Scope) -> bool:
    """Return True if a scope admits most facts: it filters by times or common networks at most."""
    times = {"at_time": None, "known_at": None, "include_expired": False, "former": None, "past_expiry": False}
    if scope.replace(networks=(), **times) != Scope.model_construct(bank=scope.bank):
        return False
    return not (scope.networks and _COMMON.isdisjoint(scope.networks))


def all_of(conditions: Sequence[str]) -> str:
    return f"({' AND '.join(conditions)})" if conditions else "true"


def unexpired(record: str, now: str) -> str:
    """Return the condition that a fact or message is not past its expiry."""
    return f"({record}.expires_at IS NULL OR {record}.expires_at > {now})"


def visible_facts(scope: Scope, fact: str, now: datetime, add: Placeholder) -> list[str]:
    """Return the conditions that a fact was true at one time and believed at another, and has not expired."""
    found = _true_and_believed(scope, fact, now, add)
    return found if scope.past_expiry else [*found, unexpired(fact, add(now))]


def _true_and_believed(scope: Scope, fact: str, now: datetime, add: Placeholder) -> list[str]:
    """Without times in the scope, a fact must be true and believed now."""
    if scope.at_time is None and scope.known_at is None:
        return [] if scope.include_expired else [_true_now(scope, fact, now, add)]
    if scope.known_at is None:
        # The current belief decides: a fact that expired without an end was never true.
        found, ended = [f"({fact}.expired_at IS NULL OR {fact}.invalid_at IS NOT NULL)"], "true"
    else:
        known = add(scope.known_at)
        found = [f"{fact}.recorded_at <= {known}", f"({fact}.expired_at IS NULL OR {fact}.expired_at > {known})"]
        # A fact closed later was, at that time, believed to be still true.
        ended = f"{fact}.expired_at IS NULL"
    if scope.at_time is not None:
        at = add(scope.at_time)
        found.append(f"({fact}.valid_at IS NULL OR {fact}.valid_at <= {at})")
        found.append(f"NOT ({ended} AND {fact}.invalid_at IS NOT NULL AND {fact}.invalid_at <= {at})")
    return found


def _true_now(scope: Scope, fact: str, now: datetime, add: Placeholder) -> str:
    current = f"({fact}.expired_at IS NULL AND ({fact}.invalid_at IS NULL OR {fact}.invalid_at > {add(now)}))"
    return current if scope.former is None else f"({current} OR {_formerly_true(scope.former, fact, add)})"


def _formerly_true(during: Interval, fact: str, add: Placeholder) -> str:
    """Return the condition that a fact is not true any more, and was at some time of an interval."""
    # A fact that ended at its start was never true.
    found = [f"{fact}.invalid_at IS NOT NULL", f"({fact}.valid_at IS NULL OR {fact}.valid_at < {fact}.invalid_at)"]
    if during.end is not None:
        found.append(f"({fact}.valid_at IS NULL OR {fact}.valid_at < {add(during.end)})")
    if during.start is not None:
        found.append(f"{fact}.invalid_at > {add(during.start)}")
    return all_of(found)


def messages_in_time(scope: Scope, message: str, now: datetime, add: Placeholder) -> list[str]:
    """Return the conditions for messages within the scope's times that have not expired."""
    found = [unexpired(message, add(now))]
    if scope.occurred is not None and scope.occurred.start is not None:
        found.append(f"{message}.timestamp >= {add(scope.occurred.start)}")
    if scope.occurred is not None and scope.occurred.end is not None:
        found.append(f"{message}.timestamp < {add(scope.occurred.end)}")
    if scope.at_time is not None:
        found.append(f"{message}.timestamp <= {add(scope.at_time)}")
    if scope.known_at is not None:
        found.append(f"{message}.recorded_at <= {add(scope.known_at)}")
    return found


def tag_conditions(rule: TagsMatch, held: Sequence[str], *, untagged: str, count: str) -> list[str]:
    """Return the conditions for a scope's tags.

    `held` are the conditions for each of the tags, `untagged` is the one for records without tags, and `count` the
    number of tags of a record.
    """
    if not held:
        return []
    match rule:
        case "all":
            return list(held)
        case "any":
            return [f"({' OR '.join(held)})"]
        case "exact":
            return [*held, f"{count} = {len(held)}"]
        case "all_or_none":
            return [f"({all_of(held)} OR ({untagged}))"]
        case "any_or_none":
            return [f"({' OR '.join(held)} OR ({untagged}))"]
        case _:
            assert_never(rule)


SEEN_FROM_TARGET: Mapping[LinkKind, LinkKind] = {"causes": "caused_by", "caused_by": "causes"}
"""The kind of a link seen from its target, where it differs."""
REVISION_LINKS: frozenset[LinkKind] = frozenset(get_args(RevisionKind))
FOLLOWED_LINKS: frozenset[LinkKind] = frozenset(get_args(LinkKind)) - REVISION_LINKS
"""The kinds of edges that a query without kinds follows."""
LINKS = 16
"""Links of a fact that are read in each direction."""
COMPARED = 2048
"""Facts of an entity that an edge query compares at most: the newest."""


def link_edge(source: int, target: Sequence[int], kind: LinkKind, weight: float, onward: bool) -> Edges:
    """Return the edge along a stored link; `onward` is False for one that is followed from its target."""
    return Edges(source, kind if onward else SEEN_FROM_TARGET.get(kind, kind), weight, [target])


Found = Sequence[Sequence[Any]]
EntityFacts = Mapping[int, Sequence[Sequence[int]]]
"""The facts that each entity leads to, with their tokens and times, by the number of the entity."""


class GraphReads(Protocol):
    """Reads of the graph of a bank, with the filter of a scope.

    `linked` are the edges along stored links, at most `LINKS` of a fact in each direction. `expand` returns them, the
    entities of a query's nodes, and the most similar facts of those entities that are not `chosen`. The entities that
    facts mention have source, number and weight, and so have given ones, which are their own sources with a minus sign;
    rarer ones weigh more.
    """

    def linked(self, query: EdgeQuery) -> Sequence[Edges]: ...
    def expand(self, query: EdgeQuery, chosen: Set[int]) -> tuple[Sequence[Edges], Found, EntityFacts]: ...


def by_entity(found: Found) -> EntityFacts:
    """Return the facts of entities from rows of entity, fact, tokens and time."""
    facts = defaultdict[int, list[Sequence[int]]](list)
    for entity, *fact in found:
        facts[entity].append(fact)
    return facts


class EdgeSearch:
    """The edge queries of one read transaction. The facts of an entity are chosen once for a question."""

    def __init__(self) -> None:
        self._chosen: dict[tuple[int, int, int, float], tuple[EdgeQuery, dict[int, Sequence[Sequence[int]]]]] = {}

    def find(self, reads: GraphReads, query: EdgeQuery) -> list[Edges]:
        kinds = query.kinds or FOLLOWED_LINKS
        if "entity" not in kinds:
            return [link for link in reads.linked(query) if link.kind in kinds] if query.facts else []
        asked = id(query.scope), id(query.vector), query.fan, query.floor
        # The first query keeps what the identities stand for.
        chosen = self._chosen.setdefault(asked, (query, {}))[1]
        links, nodes, facts = reads.expand(query, chosen.keys())
        chosen.update(facts)
        entities = [Edges(source, "entity", weight, chosen.setdefault(id, ()), id) for source, id, weight in nodes]
        return [*[link for link in links if link.kind in kinds], *entities]


Indexed = tuple[int, NewFact]
"""A stored fact with its row number."""


class SearchIndex(Protocol):
    """Vectors and words of facts and words of messages, written in the transaction that writes their rows.

    Rows are dropped before they are deleted; `drop_words` takes messages whose words facts repeat from now on.
    `replace_vectors` takes the new vectors of all facts of the bank.
    """

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None: ...
    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None: ...
    def drop_bank(self, connection: Connection, bank: int) -> None: ...
    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None: ...
    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None: ...
    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None: ...
    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[int, Encoding]) -> None: ...
    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]: ...


class BankSearch(BankReader, ABC):
    """The channels of a recall, all in one read transaction: by cosine, by BM25, inside an interval, and by name.

    Verbatim search ranks the messages whose words no fact repeats. Instructions come newest first.
    """

    @abstractmethod
    def prepare(self, scope: Scope, space: str | None) -> None:
        """Apply the filters of a scope; raise EmbedderMismatch if the bank's vectors are not of `space`."""

    @abstractmethod
    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking: ...
    @abstractmethod
    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking: ...
    @abstractmethod
    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking: ...
    @abstractmethod
    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking: ...
    @abstractmethod
    def named_entities(self, text: str) -> dict[int, Mention]: ...
    @abstractmethod
    def instructions(self, scope: Scope, *, limit: int) -> list[int]: ...

    def search(self, request: SearchRequest) -> SearchResult:
        """Search every channel of a request, and time each of them."""
        timer, scope, limit = StageTimer(), request.scope, request.limit
        timer.run("filter", self.prepare, scope, request.space if request.has_vectors else None)
        semantic = [
            timer.run("semantic", self.nearest, scope, vector, limit=limit, floor=request.floor)
            for vector in request.semantic
        ]
        keyword = [timer.run("keyword", self.matching_facts, scope, text, limit=limit) for text in request.keyword]
        verbatim = Ranking()
        if request.verbatim:
            verbatim = timer.run("verbatim", self.matching_messages, scope, request.verbatim, limit=limit)
        temporal, links = Ranking(), list[Edges]()
        if request.temporal is not None:
            temporal = timer.run("temporal", self.during, scope, request.temporal, limit=limit)
            query = temporal_link_query(request, request.temporal, temporal)
            if query is not None:
                links = [*timer.run("temporal", self.edges, query)]
        entities = timer.run("entities", self.named_entities, request.names_in) if request.names_in else {}
        instructions = list[int]()
        if request.instructions:
            applicable = scope.of_instructions()
            instructions = timer.run("instructions", self.instructions, applicable, limit=request.instructions)
        return SearchResult(
            semantic=semantic,
            keyword=keyword,
            verbatim=verbatim,
            temporal=temporal,
            temporal_links=links,
            entities=entities,
            instructions=instructions,
            timings=timer.stages,
        )
