"""Postings of facts on PostgreSQL: BM25 over blocks of packed postings, and the changes of a commit to them.

A posting takes seven bytes, and a search reads one row for each `BLOCK` facts that have a word. Only commits change
blocks, and those of a bank wait for each other, so that a block can be read and written again. New facts have greater
numbers than those before, and extend the last block of each of their terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from vmemo.stores.sqlite.index.postings import K1, B, term_hash
from vmemo.text.tokens import terms

POSTING = np.dtype([("offset", ">i4"), ("length", ">i2"), ("count", "u1")])
"""The distance of a fact's number from the first of the block, its number of terms, and how often it has the term."""
BLOCK = 128
"""Postings after which a block is not extended any more."""
MOST_LENGTH, MOST_COUNT, FARTHEST = 2**15 - 1, 2**8 - 1, 2**31 - 1
PAGE = 1000
"""Blocks that are read at a time where all of a bank are."""
SPARSE = 16
"""Numbers for each posting, up to which the points of facts are counted in an array of all numbers."""
_LAST_SEQ = 2**63 - 1

_COVERING = """
SELECT given.term, block.first, octet_length(block.postings)
FROM unnest($2::integer[]) AS given(term) CROSS JOIN LATERAL (
    SELECT first, postings FROM posting_blocks
    WHERE bank = $1 AND term = given.term AND first <= $3::bigint ORDER BY first DESC LIMIT 1
) AS block
"""
_EXTEND = """
INSERT INTO posting_blocks AS known (bank, term, first, postings)
SELECT $1, * FROM unnest($2::integer[], $3::bigint[], $4::bytea[])
ON CONFLICT (bank, term, first) DO UPDATE SET postings = known.postings || excluded.postings
"""
_NEWEST = "SELECT coalesce(max(seq), -1) FROM fact_search WHERE bank = $1 AND seq <> ALL($2::bigint[])"


def signed(term: str) -> int:
    """A term's hash as PostgreSQL's integer."""
    number = term_hash(term)
    return number - 2**32 if number >= 2**31 else number


def words_of(text: str, context: str) -> list[str]:
    """Return the terms of a fact, with repetition. Its own words count twice as much as those of its context."""
    return [*terms(text) * 2, *terms(context)]


def add(connection: Connection, bank: int, texts: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Store the postings of facts, given by number and terms, whose vectors are stored already."""
    newest = connection.exec_driver_sql(_NEWEST, (bank, [seq for seq, _ in texts])).scalar_one()
    _extend(connection, bank, [text for text in texts if text[0] > newest], _LAST_SEQ)
    for text in texts:
        if text[0] <= newest:
            # A fact that is indexed again belongs into the block of its former place.
            _extend(connection, bank, [text], text[0])


def _extend(connection: Connection, bank: int, texts: Sequence[tuple[int, Sequence[str]]], before: int) -> None:
    postings = _NewPostings.of(texts)
    if not len(postings.terms):
        return
    groups = postings.groups()
    asked = (bank, [term for term, _, _ in groups], before)
    known = {term: (first, size) for term, first, size in connection.exec_driver_sql(_COVERING, asked)}
    seqs, extends = postings.seqs.tolist(), before == _LAST_SEQ
    parts = [
        (term, *part)
        for term, start, end in groups
        for part in _parts(seqs, start, end, block=known.get(term), extends=extends)
    ]
    terms, firsts, starts, ends = (list(column) for column in zip(*parts, strict=True))
    stored = postings.packed(firsts, np.subtract(ends, starts))
    size = POSTING.itemsize
    blocks = [stored[start * size : end * size] for start, end in zip(starts, ends, strict=True)]
    connection.exec_driver_sql(_EXTEND, (bank, terms, firsts, blocks))


@dataclass(frozen=True)
class _NewPostings:
    """Postings as columns, by term and then by the number of the fact."""

    terms: NDArray[np.int64]
    seqs: NDArray[np.int64]
    lengths: NDArray[np.int64]
    counts: NDArray[np.int64]

    @staticmethod
    def of(texts: Sequence[tuple[int, Sequence[str]]]) -> _NewPostings:
        """Return the postings of facts, given by number and terms."""
        ordered = sorted(texts, key=lambda text: text[0])
        sizes = np.array([len(words) for _, words in ordered], np.int64)
        hashes = np.array([signed(word) for _, words in ordered for word in words], np.int64)
        keys, counts = np.unique((hashes << 32) | np.repeat(np.arange(len(ordered)), sizes), return_counts=True)
        places = keys & 0xFFFFFFFF
        return _NewPostings(
            terms=keys >> 32,
            seqs=np.array([seq for seq, _ in ordered], np.int64)[places],
            lengths=np.minimum(sizes, MOST_LENGTH)[places],
            counts=np.minimum(counts, MOST_COUNT),
        )

    def groups(self) -> list[tuple[int, int, int]]:
        """Return each term with the places of its first posting and of the one after its last."""
        starts = np.flatnonzero(np.diff(self.terms, prepend=self.terms[0] - 1))
        ends = np.append(starts[1:], len(self.terms))
        return list(zip(self.terms[starts].tolist(), starts.tolist(), ends.tolist(), strict=True))

    def packed(self, firsts: Sequence[int], sizes: NDArray[np.int64]) -> bytes:
        """Return all postings as stored, in blocks of these first numbers and sizes."""
        postings = np.empty(len(self.terms), POSTING)
        postings["offset"] = self.seqs - np.repeat(np.array(firsts, np.int64), sizes)
        postings["length"], postings["count"] = self.lengths, self.counts
        return postings.tobytes()


def _parts(
    seqs: Sequence[int], start: int, end: int, *, block: tuple[int, int] | None, extends: bool
) -> Iterator[tuple[int, int, int]]:
    """Yield the first number of each block of one term, and where its postings start and end.

    Postings go to the known block while it has space.
    """
    if block is not None and seqs[end - 1] - block[0] <= FARTHEST:
        space = max(BLOCK - block[1] // POSTING.itemsize, 0) if extends else end - start
        if space:
            known, start = start, min(start + space, end)
            yield block[0], known, start
    for place in range(start, end, BLOCK):
        yield seqs[place], place, min(place + BLOCK, end)


_TEXTS = """
SELECT facts.seq, text, context, length FROM facts JOIN fact_search USING (bank, seq)
WHERE bank = $1 AND facts.seq = ANY($2::bigint[])
"""
_HOLDING = """
SELECT DISTINCT block.term, block.first, block.postings
FROM unnest($2::integer[], $3::bigint[]) AS given(term, seq) CROSS JOIN LATERAL (
    SELECT term, first, postings FROM posting_blocks
    WHERE bank = $1 AND term = given.term AND first <= given.seq ORDER BY first DESC LIMIT 1
) AS block
"""
_ALL = """
SELECT term, first, postings FROM posting_blocks WHERE bank = $1 AND (term, first) > ($2::integer, $3::bigint)
ORDER BY term, first LIMIT $4::bigint
"""
_REWRITE = """
UPDATE posting_blocks AS known SET postings = given.postings
FROM unnest($2::integer[], $3::bigint[], $4::bytea[]) AS given(term, first, postings)
WHERE known.bank = $1 AND known.term = given.term AND known.first = given.first
"""
_DELETE = """
DELETE FROM posting_blocks AS known USING unnest($2::integer[], $3::bigint[]) AS given(term, first)
WHERE known.bank = $1 AND known.term = given.term AND known.first = given.first
"""


def drop(connection: Connection, bank: int, seqs: Sequence[int]) -> None:
    """Remove the postings of facts, whose texts and vectors are still stored."""
    gone, expected, pairs = set(seqs), Counter[int](), list[tuple[int, int]]()
    complete = True
    for seq, text, context, length in connection.exec_driver_sql(_TEXTS, (bank, list(gone))):
        words = words_of(text, context)
        found = set(map(signed, words))
        complete = complete and len(words) == length
        expected[seq] = len(found)
        pairs += [(term, seq) for term in found]
    asked = (bank, [term for term, _ in pairs], [seq for _, seq in pairs])
    removed = _remove(connection, bank, connection.exec_driver_sql(_HOLDING, asked).all(), gone)
    if complete and removed == expected:
        return
    # An earlier release divided these texts into other words, so that every block may have them.
    last = -(2**31), -1
    while rows := connection.exec_driver_sql(_ALL, (bank, *last, PAGE)).all():
        _remove(connection, bank, rows, gone)
        last = rows[-1][0], rows[-1][1]


def _remove(connection: Connection, bank: int, blocks: Sequence[Sequence[Any]], gone: Iterable[int]) -> Counter[int]:
    """Write blocks without the postings of some facts, and return how many of each fact were removed."""
    numbers, removed = np.array(list(gone), np.int64), Counter[int]()
    left: list[tuple[int, int, bytes]] = []
    for term, first, stored in blocks:
        postings = np.frombuffer(stored, POSTING)
        seqs = postings["offset"].astype(np.int64) + first
        dropped = np.isin(seqs, numbers)
        if dropped.any():
            removed.update(seqs[dropped].tolist())
            left.append((term, first, postings[~dropped].tobytes()))
    for statement, rows in (
        (_REWRITE, [row for row in left if row[2]]),
        (_DELETE, [row[:2] for row in left if not row[2]]),
    ):
        if rows:
            connection.exec_driver_sql(statement, (bank, *(list(column) for column in zip(*rows, strict=True))))
    return removed


@dataclass(frozen=True)
class Collection:
    """The number of facts of a bank and of their terms, by which words are weighed."""

    facts: int
    fact_terms: int


def scores(blocks: Sequence[Sequence[Any]], collection: Collection) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the facts that have a term, in order, and their BM25; blocks have term, first number and postings."""
    if not blocks:
        return np.zeros(0, np.int64), np.zeros(0)
    postings = np.frombuffer(b"".join([stored for _, _, stored in blocks]), POSTING)
    sizes = [len(stored) // POSTING.itemsize for _, _, stored in blocks]
    seqs = np.repeat(np.array([first for _, first, _ in blocks], np.int64), sizes) + postings["offset"]
    rarity = _rarities([term for term, _, _ in blocks], sizes, collection.facts)
    average = max(collection.fact_terms / collection.facts, 1.0)
    often = postings["count"].astype(np.float64)
    norms = K1 * (1 - B) + postings["length"].astype(np.float64) * (K1 * B / average)
    points = np.repeat(rarity, sizes) * often / (often + norms)
    first = int(seqs.min())
    if int(seqs.max()) - first > SPARSE * len(seqs):
        facts, places = np.unique(seqs, return_inverse=True)
        return facts, np.bincount(places, points).astype(np.float64)
    # Sorting takes several times longer than counting in an array of all numbers. Every posting has points.
    totals = np.bincount(seqs - first, points).astype(np.float64)
    held = np.flatnonzero(totals)
    return held + first, totals[held]


def best(totals: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the places of the highest points, best first, those of equal points in order."""
    if count < len(totals):
        least = np.partition(totals, len(totals) - count)[len(totals) - count]
        above = np.flatnonzero(totals > least)
        equal = np.flatnonzero(totals == least)[: count - len(above)]
        places = np.sort(np.concatenate([above, equal]))
    else:
        places = np.arange(len(totals))
    return places[np.argsort(-totals[places], kind="stable")]


def _rarities(blocks: Sequence[int], sizes: Sequence[int], facts: int) -> NDArray[np.float64]:
    """Return for each block how much its term says."""
    holders = Counter[int]()
    for term, size in zip(blocks, sizes, strict=True):
        holders[term] += size
    known = np.array([holders[term] for term in blocks], np.float64)
    return np.log(1 + (facts - known + 0.5) / (known + 0.5)) * (K1 + 1)
