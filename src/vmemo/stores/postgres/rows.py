"""Search rows of facts and messages on PostgreSQL, and the facts that a recall returns.

A statement takes all rows of a batch as arrays, one for each column, so that every batch is one round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from vmemo.models import FactId, MessageId
from vmemo.models.search import Encoding, TokenVectors
from vmemo.stores.postgres.connection import fetch
from vmemo.stores.postgres.schema import search
from vmemo.stores.search import Collection, Indexed, fact_words, word_keys
from vmemo.stores.sql.bank_rows import BankState
from vmemo.stores.sql.schema import facts
from vmemo.stores.values import decode_tokens, encode_tokens
from vmemo.text.tokens import terms

Kind = Literal["fact", "message"]
"""The records of a word index."""
PART = 1000
"""Facts whose vectors are replaced by one statement."""


class Sizes(NamedTuple):
    """The indexed facts and messages of a bank."""

    facts: Collection
    messages: Collection


_SIZES = """
SELECT seq, identity, revision, purges, dimension, embedder,
    coalesce(facts, 0), coalesce(fact_terms, 0), coalesce(messages, 0), coalesce(message_terms, 0)
FROM banks LEFT JOIN search_sizes ON search_sizes.bank = banks.seq WHERE banks.id = $1
"""


def state_and_sizes(connection: Connection, bank: str) -> tuple[BankState, Sizes] | None:
    """Return the bank's state and the sizes of its indexes; None if there is no such bank."""
    rows = fetch(connection, _SIZES, bank)
    if not rows:
        return None
    *state, facts, fact_words, messages, message_words = rows[0]
    return BankState(*state), Sizes(Collection(facts, fact_words), Collection(messages, message_words))


class PostgresSearchIndex:
    """The search index, written in the transaction that writes the rows."""

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None:
        if new:
            _add_vectors(connection, bank, [(seq, item.encoding) for seq, item in new])
            words = [(seq, fact_words(item.fact.text, item.fact.context)) for seq, item in new]
            _add_words(connection, "fact", bank, words)

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        _add_words(connection, "message", bank, [(seq, terms(content)) for seq, content in new])

    def drop_bank(self, connection: Connection, bank: int) -> None:
        for table in search.sorted_tables:
            connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE bank = $1", (bank,))

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[FactId, Encoding]) -> bool:
        seqs = dict(connection.execute(select(facts.c.id, facts.c.seq).where(facts.c.bank == bank)).all())
        if not seqs.keys() <= new.keys():
            return False
        _drop_vectors(connection, bank, list(seqs.values()))
        known = [(seq, new[FactId(id)]) for id, seq in seqs.items()]
        for start in range(0, len(known), PART):
            _add_vectors(connection, bank, known[start : start + PART])
        return True

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        statement = "SELECT seq FROM messages WHERE bank = $1 AND id = ANY($2::text[])"
        seqs = connection.exec_driver_sql(statement, (bank, list(messages))).scalars()
        _drop_words(connection, "message", bank, seqs)

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        _drop_words(connection, "fact", bank, facts)
        _drop_vectors(connection, bank, facts)

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        _drop_words(connection, "message", bank, messages)

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        statement = "SELECT seq, halfvec_send(embedding) FROM fact_vectors WHERE bank = $1 AND seq = ANY($2::bigint[])"
        found = connection.exec_driver_sql(statement, (bank, list(seqs)))
        # Two bytes of dimension and two unused ones stand before the numbers.
        return {seq: tuple(np.frombuffer(sent, ">f2", offset=4).astype(float).tolist()) for seq, sent in found}


_ADD_VECTORS = """
WITH given AS (
    SELECT seq, width, vectors, place::integer AS place
    FROM unnest($2::bigint[], $5::integer[], $6::bytea[]) WITH ORDINALITY AS rows(seq, width, vectors, place)
), tokens AS (
    INSERT INTO fact_tokens (bank, seq, width, vectors)
    SELECT $1, seq, width, vectors FROM given WHERE width IS NOT NULL
)
INSERT INTO fact_vectors (bank, seq, embedding)
SELECT $1, seq, ($3::real[])[(place - 1) * $4::integer + 1 : place * $4::integer]::halfvec FROM given
"""


def _add_vectors(connection: Connection, bank: int, new: Sequence[tuple[int, Encoding]]) -> None:
    """Store the vectors and token vectors of facts."""
    vectors = np.stack([encoding.vector for _, encoding in new])
    # Rounded here as SQLite's are, so that both databases hold the same numbers. One list is faster to send than many.
    numbers = vectors.astype(np.float16).astype(np.float32).ravel().tolist()
    texts = [encoding.tokens if encoding.tokens is not None and encoding.tokens.size else None for _, encoding in new]
    widths = [None if tokens is None else int(tokens.shape[1]) for tokens in texts]
    stored = iter(encode_tokens([tokens for tokens in texts if tokens is not None]))
    packed = [None if tokens is None else next(stored) for tokens in texts]
    seqs = [seq for seq, _ in new]
    connection.exec_driver_sql(_ADD_VECTORS, (bank, seqs, numbers, vectors.shape[1], widths, packed))


_DROP_VECTORS = """
WITH tokens AS (DELETE FROM fact_tokens WHERE bank = $1 AND seq = ANY($2::bigint[]))
DELETE FROM fact_vectors WHERE bank = $1 AND seq = ANY($2::bigint[])
"""


def _drop_vectors(connection: Connection, bank: int, seqs: Sequence[int]) -> None:
    connection.exec_driver_sql(_DROP_VECTORS, (bank, list(seqs)))


def _add_words(connection: Connection, kind: Kind, bank: int, texts: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Index texts, given by number and words."""
    if not texts:
        return
    keys = [f"{{{','.join(map(str, word_keys(bank, words)))}}}" for _, words in texts]
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
    connection.exec_driver_sql(statement, (bank, [seq for seq, _ in texts], keys))


def _drop_words(connection: Connection, kind: Kind, bank: int, seqs: Iterable[int]) -> None:
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


_TOKENS = "SELECT seq, width, vectors FROM fact_tokens WHERE bank = $1 AND seq = ANY($2::bigint[])"


def token_vectors(connection: Connection, bank: int, facts: Sequence[int]) -> Sequence[TokenVectors | None]:
    """Return token vectors in the order of the facts; None for a fact that has none."""
    stored = {seq: (width, packed) for seq, width, packed in fetch(connection, _TOKENS, bank, list(facts))}
    return decode_tokens([stored.get(fact) for fact in facts])
