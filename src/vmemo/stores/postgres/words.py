"""Search by words on PostgreSQL: a GIN index finds the texts that have a word of the query, and BM25 ranks them here.

A text is stored as the hashes of its words, with repetition. The bank is part of each hash, so that one index serves
every bank and leads to the texts of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from vmemo.models import FactId
from vmemo.models.search import Ranking, Scored
from vmemo.stores.postgres.driver import Parameters, fetch, fetch_built
from vmemo.stores.postgres.filters import ScopeFilter
from vmemo.stores.sqlite.index.postings import K1, B, query_terms, term_hash
from vmemo.text.tokens import terms

Kind = Literal["fact", "message"]

MOST = 10_000
"""Texts that are scored. A query that matches more is searched by its rarest words, and its other words only score."""
SAMPLED = 1_000
"""Newest texts of a bank by which the frequency of a word with more than `MOST` texts is estimated."""
GROWTH = 4
"""Of texts that match the words, so many times more are looked up if too few of the best are in the scope."""
_MESSAGE_TOKENS = "length(messages.content) / 4 + 1"
"""Tokens are estimated here; recall counts the few it keeps."""
_ARRAY = np.dtype([("bytes", ">i4"), ("value", ">i4")])
_ARRAY_HEAD = 20
"""Bytes before the elements of an array in PostgreSQL's binary format, where each has its length before it."""


class Collection(NamedTuple):
    """The number of indexed texts of a bank, and of their words."""

    texts: int
    words: int


def fact_words(text: str, context: str) -> list[str]:
    """Return the words of a fact, with repetition. Its own words count twice as much as those of its context."""
    return [*terms(text) * 2, *terms(context)]


def _keys(bank: int, words: Iterable[str]) -> list[int]:
    """Return the hashes of words, combined with one of the bank (Knuth's), as PostgreSQL's signed integers."""
    own = bank * 2_654_435_761 % 2**32
    return [(term_hash(word) ^ own) - 2**31 for word in words]


def add(connection: Connection, kind: Kind, bank: int, texts: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Index texts, given by number and words."""
    if not texts:
        return
    seqs = [seq for seq, _ in texts]
    keys = [f"{{{','.join(map(str, _keys(bank, words)))}}}" for _, words in texts]
    statement = f"""
WITH added AS (
    INSERT INTO {kind}_words (bank, seq, words)
    SELECT $1, seq, words::integer[] FROM unnest($2::bigint[], $3::text[]) AS given(seq, words)
    RETURNING cardinality(words) AS length
)
INSERT INTO search_sizes AS known (bank, {kind}s, {kind}_terms)
SELECT $1, count(*), coalesce(sum(length), 0) FROM added
ON CONFLICT (bank) DO UPDATE
SET {kind}s = known.{kind}s + excluded.{kind}s, {kind}_terms = known.{kind}_terms + excluded.{kind}_terms
"""
    connection.exec_driver_sql(statement, (bank, seqs, keys))


def drop(connection: Connection, kind: Kind, bank: int, seqs: Iterable[int]) -> None:
    """Remove texts from the index, those of them that are in it."""
    statement = f"""
WITH gone AS (
    DELETE FROM {kind}_words WHERE bank = $1 AND seq = ANY($2::bigint[]) RETURNING cardinality(words) AS length
)
UPDATE search_sizes
SET {kind}s = {kind}s - (SELECT count(*) FROM gone),
    {kind}_terms = {kind}_terms - (SELECT coalesce(sum(length), 0) FROM gone)
WHERE bank = $1
"""
    connection.exec_driver_sql(statement, (bank, list(seqs)))


def matching_facts(connection: Connection, size: Collection, filter: ScopeFilter, text: str, *, limit: int) -> Ranking:
    """Rank facts by BM25."""
    return _matching(connection, "fact", size, filter, text, limit)


def matching_messages(
    connection: Connection, size: Collection, filter: ScopeFilter, text: str, *, limit: int
) -> Ranking:
    """Rank messages by BM25. Networks and entities are properties of facts, so such filters accept no message."""
    scope = filter.scope
    if scope.entities or (scope.networks and "world" not in scope.networks):
        return Ranking()
    return _matching(connection, "message", size, filter, text, limit)


def _matching(
    connection: Connection, kind: Kind, size: Collection, filter: ScopeFilter, text: str, limit: int
) -> Ranking:
    keys = sorted(set(_keys(filter.bank, query_terms(text))))
    if not keys or not size.texts:
        return Ranking()
    seqs, scores = _scored(connection, kind, size, filter.bank, keys)
    best = np.lexsort((seqs, -scores))
    hits, start, length = list[Scored](), 0, limit + limit // GROWTH
    while start < len(best) and len(hits) < limit:
        places = best[start : start + length]
        numbers = seqs[places].tolist()
        found = _in_scope(connection, kind, filter, numbers)
        points = zip(numbers, scores[places].tolist(), strict=True)
        hits += [Scored(found[seq][0], score, found[seq][1]) for seq, score in points if seq in found]
        start, length = start + length, GROWTH * length
    return Ranking.of(hits[:limit])


def _scored(
    connection: Connection, kind: Kind, size: Collection, bank: int, keys: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the numbers of the texts that have some of the words, and their BM25."""
    holders = _frequent(connection, kind, size, bank, keys) if size.texts > MOST else {}
    asked = _rarest(keys, holders)
    statement = f"SELECT seq, array_send(words) FROM {kind}_words WHERE bank = $1 AND words && $2::integer[] LIMIT $3"
    rows = fetch(connection, statement, bank, asked, MOST)
    words = np.frombuffer(b"".join([words[_ARRAY_HEAD:] for _, words in rows]), _ARRAY)["value"].astype(np.int32)
    lengths = np.array([(len(words) - _ARRAY_HEAD) // _ARRAY.itemsize for _, words in rows], np.int64)
    places = np.repeat(np.arange(len(rows)), lengths)
    norms = K1 * (1 - B + B * lengths / max(size.words / size.texts, 1.0))
    scores = np.zeros(len(rows))
    for key in keys:
        counts = np.bincount(places[words == key], minlength=len(rows))
        known = holders.get(key, np.count_nonzero(counts))
        rarity = np.log(1 + (size.texts - known + 0.5) / (known + 0.5))
        scores += rarity * counts * (K1 + 1) / (counts + norms)
    return np.array([seq for seq, _ in rows], np.int64), scores


def _frequent(connection: Connection, kind: Kind, size: Collection, bank: int, keys: Sequence[int]) -> dict[int, float]:
    """Return in how many texts of a large bank each word is; above `MOST`, as estimated by the newest texts."""
    statement = f"""
SELECT key, (
    SELECT count(*) FROM (
        SELECT FROM {kind}_words WHERE bank = $1 AND words @> ARRAY[key] LIMIT {MOST}
    ) AS held
), (
    SELECT count(*) FILTER (WHERE words @> ARRAY[key])::float8 / count(*) FROM (
        SELECT words FROM {kind}_words WHERE bank = $1 ORDER BY seq DESC LIMIT {SAMPLED}
    ) AS newest
) FROM unnest($2::integer[]) AS given(key)
"""
    rows = fetch(connection, statement, bank, list(keys))
    return {key: count if count < MOST else max(MOST, share * size.texts) for key, count, share in rows}


def _rarest(keys: Sequence[int], holders: dict[int, float]) -> list[int]:
    """Return the words that find texts: all, or the rarest ones that together are in at most `MOST` texts."""
    ordered = sorted(keys, key=lambda key: holders.get(key, 0))
    total = np.cumsum([holders.get(key, 0) for key in ordered])
    return ordered[: max(1, int(np.searchsorted(total, MOST, side="right")))]


def _in_scope(
    connection: Connection, kind: Kind, filter: ScopeFilter, seqs: Sequence[int]
) -> dict[int, tuple[FactId, int]]:
    """Return ids and tokens of those texts that the scope accepts."""
    tokens, condition = ("tokens", filter.facts) if kind == "fact" else (_MESSAGE_TOKENS, filter.messages)

    def statement(values: Parameters) -> str:
        bank, given = values.add(filter.bank, "bigint"), values.add(seqs, "bigint[]")
        return (
            f"SELECT seq, id, {tokens} FROM {kind}s WHERE bank = {bank} AND seq = ANY({given}) AND {condition(values)}"
        )

    return {seq: (FactId(id), count) for seq, id, count in fetch_built(connection, statement)}
