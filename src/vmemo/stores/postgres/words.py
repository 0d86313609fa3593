"""Search by words on PostgreSQL: exact BM25.

The blocks of a question's terms are scored in the process, which takes a fraction of the time that rows of postings
would take on the server. Messages that are searched themselves are few, and have rows. How many texts there are, and
how long they are on average, is kept beside.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from vmemo.models import FactId
from vmemo.models.search import Ranking, Scored
from vmemo.stores.postgres import posting_blocks
from vmemo.stores.postgres.driver import Parameters, Sql, fetch, fetch_built
from vmemo.stores.postgres.filters import ScopeFilter, wide
from vmemo.stores.postgres.posting_blocks import signed
from vmemo.stores.postgres.ranked_rows import Candidates, RankedQuery, best
from vmemo.stores.postgres.rows import Sizes
from vmemo.stores.sqlite.index.postings import K1, B, query_terms

_MESSAGE_TOKENS = "length(messages.content) / 4 + 1"
"""Tokens are estimated here; recall counts the few it keeps."""

# As SQLite's full-text search counts: a word that most messages have says next to nothing, and the bank's name is one
# more word of each message. Every number is a float from the start: decimals are slow.
_BM25 = """
    WITH rare AS MATERIALIZED (
        SELECT given.term, {gain}::float8
            * greatest(ln(({texts} - holders + 0.5::float8) / (holders + 0.5::float8)), 1e-6::float8) AS rarity
        FROM unnest({terms}) AS given(term) CROSS JOIN LATERAL (
            SELECT count(*)::float8 AS holders FROM message_postings AS known
            WHERE known.bank = {bank} AND known.term = given.term
        ) AS held
    )
    SELECT message AS seq, sum(rarity * count / (count + {base}::float8 + (length + 1) * {slope})) AS score
    FROM rare JOIN message_postings AS held ON held.bank = {bank} AND held.term = rare.term
    GROUP BY message
"""
_BLOCKS = "SELECT term, first, postings FROM posting_blocks WHERE bank = $1 AND term = ANY($2::integer[])"
GROWTH = 4
"""Of facts that match the words, so many times more are looked up if too few of the best are in the scope."""


def _bm25(bank: int, words: Sequence[str], sizes: Sizes) -> Sql:
    """Return the scores of messages."""
    terms, average = sorted({signed(word) for word in words}), sizes.message_terms / sizes.messages + 1

    def scored(values: Parameters) -> str:
        return _BM25.format(
            bank=values.add(bank, "bigint"),
            terms=values.add(terms, "integer[]"),
            texts=values.add(float(sizes.messages), "float8"),
            gain=K1 + 1,
            base=K1 * (1 - B),
            slope=values.add(K1 * B / average, "float8"),
        )

    return scored


def matching_facts(connection: Connection, sizes: Sizes, filter: ScopeFilter, text: str, *, limit: int) -> Ranking:
    """Rank facts by BM25."""
    words = query_terms(text)
    if not words or not sizes.facts:
        return Ranking()
    blocks = fetch(connection, _BLOCKS, filter.bank, sorted({signed(word) for word in words}))
    facts, scores = posting_blocks.scores(blocks, posting_blocks.Collection(sizes.facts, sizes.fact_terms))
    hits, start, length = list[Scored](), 0, limit + limit // GROWTH
    while start < len(facts) and len(hits) < limit:
        places = posting_blocks.best(scores, start + length)[start:]
        seqs = facts[places].tolist()
        found = _in_scope(connection, filter, seqs)
        points = zip(seqs, scores[places].tolist(), strict=True)
        hits += [Scored(found[seq][0], score, found[seq][1]) for seq, score in points if seq in found]
        start, length = start + length, GROWTH * length
    return Ranking.of(hits[:limit])


def _in_scope(connection: Connection, filter: ScopeFilter, seqs: Sequence[int]) -> dict[int, tuple[FactId, int]]:
    """Return ids and tokens of those facts that the scope accepts."""

    def statement(values: Parameters) -> str:
        bank, given = values.add(filter.bank, "bigint"), values.add(seqs, "bigint[]")
        return (
            f"SELECT seq, id, tokens FROM facts WHERE bank = {bank} AND seq = ANY({given}) AND {filter.facts(values)}"
        )

    return {seq: (FactId(id), tokens) for seq, id, tokens in fetch_built(connection, statement)}


def matching_messages(connection: Connection, sizes: Sizes, filter: ScopeFilter, text: str, *, limit: int) -> Ranking:
    """Rank messages by BM25. Networks and entities are properties of facts, so such filters accept no message."""
    words, scope = query_terms(text), filter.scope
    if not words or not sizes.messages or scope.entities or (scope.networks and "world" not in scope.networks):
        return Ranking()
    candidates = Candidates(
        table="messages", bank=filter.bank, tokens=_MESSAGE_TOKENS, condition=filter.messages, common=wide(scope)
    )
    return best(connection, candidates, RankedQuery(scored=_bm25(filter.bank, words, sizes), limit=limit))
