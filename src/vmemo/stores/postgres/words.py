"""Search by words on PostgreSQL: exact BM25 over the postings of a bank.

A posting holds the length of its text, so that a search reads the postings' key alone, once to count a term's texts
and once to score them. How many texts there are, and how long they are on average, is kept beside.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Double,
    Integer,
    Subquery,
    TextClause,
    bindparam,
    column,
    func,
    text,
)

from vmemo.models.search import Ranking, Scope
from vmemo.stores.postgres.filters import labelled, wide
from vmemo.stores.postgres.ranked_rows import Candidates, RankedQuery, best
from vmemo.stores.postgres.rows import Sizes, signed
from vmemo.stores.sql.schema import messages
from vmemo.stores.sql.scope_conditions import shown_verbatim, untagged, written_within
from vmemo.stores.sqlite.index.postings import K1, B, query_terms


def _bm25(postings: str, owner: str, length: str, rarity: str) -> TextClause:
    """BM25 of all texts that hold one of the terms. Every number is a float from the start: decimals are slow."""
    return text(f"""
        WITH rare AS MATERIALIZED (
            SELECT given.term, {rarity} * CAST(:gain AS double precision) AS rarity
            FROM unnest(CAST(:terms AS integer[])) AS given(term)
            CROSS JOIN LATERAL (
                SELECT count(*)::double precision AS holders FROM {postings}
                WHERE {postings}.bank = :bank AND {postings}.term = given.term
            ) AS known
        )
        SELECT {owner} AS seq,
            sum(rarity * count
                / (count + CAST(:base AS double precision) + {length} * CAST(:slope AS double precision))) AS score
        FROM rare JOIN {postings} ON {postings}.bank = :bank AND {postings}.term = rare.term
        GROUP BY {owner}
    """).bindparams(
        bindparam("terms", type_=ARRAY(Integer)),
        bindparam("bank", type_=BigInteger),
        bindparam("texts", type_=Double),
    )


_FACTS = _bm25(
    "postings", "fact", "length", "ln(1::float8 + (:texts - holders + 0.5::float8) / (holders + 0.5::float8))"
)
# As SQLite's full-text search counts: a word that most messages have says next to nothing, and the bank's name is one
# more word of each message.
_MESSAGES = _bm25(
    "message_postings",
    "message",
    "(length + 1)",
    "greatest(ln((:texts - holders + 0.5::float8) / (holders + 0.5::float8)), 1e-6::float8)",
)


def _scored(scores: TextClause, bank: int, words: Sequence[str], texts: int, average: float) -> Subquery:
    """Seqs and scores of texts that have this length on average."""
    values = {
        "terms": sorted({signed(word) for word in words}),
        "bank": bank,
        "texts": float(texts),
        "gain": K1 + 1,
        "base": K1 * (1 - B),
        "slope": K1 * B / average,
    }
    return scores.bindparams(**values).columns(column("seq", BigInteger), column("score", Double)).subquery("scored")


def matching_facts(connection: Connection, sizes: Sizes, candidates: Candidates, text: str, *, limit: int) -> Ranking:
    """Rank facts by BM25."""
    words = query_terms(text)
    if not words or not sizes.facts:
        return Ranking()
    average = max(sizes.fact_terms / sizes.facts, 1.0)
    wanted = RankedQuery(scored=_scored(_FACTS, candidates.bank, words, sizes.facts, average), limit=limit)
    return best(connection, candidates, wanted)


def matching_messages(
    connection: Connection, bank: int, sizes: Sizes, scope: Scope, text: str, *, limit: int
) -> Ranking:
    """Rank messages by BM25. Networks and entities are properties of facts, so such filters accept no message."""
    words = query_terms(text)
    if not words or not sizes.messages or scope.entities or (scope.networks and "world" not in scope.networks):
        return Ranking()
    average = sizes.message_terms / sizes.messages + 1
    wanted = RankedQuery(scored=_scored(_MESSAGES, bank, words, sizes.messages, average), limit=limit)
    candidates = Candidates(
        table=messages,
        bank=bank,
        # Tokens are estimated here; recall counts the few it keeps.
        tokens=func.length(messages.c.content, type_=Integer) // 4 + 1,
        conditions=[messages.c.bank == bank, *_conditions(scope), shown_verbatim(bank, scope)],
        common=wide(scope),
    )
    return best(connection, candidates, wanted)


def _conditions(scope: Scope) -> list[ColumnElement[bool]]:
    found = labelled(messages.c.tags, messages.c.metadata, scope, untagged(messages.c.tags))
    return found + written_within(scope)
