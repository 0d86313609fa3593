"""Search rows of facts and messages on PostgreSQL: insert, move, delete and read.

A statement takes all rows of a batch as arrays, one for each column, so that every batch is one round trip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from vmemo.models import FactId, MessageId
from vmemo.models.search import Encoding, TokenVectors, Vectors
from vmemo.stores.postgres import words
from vmemo.stores.postgres.driver import fetch
from vmemo.stores.postgres.schema import fact_vectors, search
from vmemo.stores.postgres.words import Collection
from vmemo.stores.sql import statements
from vmemo.stores.sql.bank_rows import BankState
from vmemo.stores.sql.schema import facts
from vmemo.stores.sql.search import Indexed
from vmemo.stores.sqlite.block_rows import decode_tokens, encode_tokens
from vmemo.stores.values import storable
from vmemo.text.tokens import terms

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


def sized(connection: Connection, bank: str) -> tuple[BankState, Sizes] | None:
    """The bank's state and the sizes of its indexes; None if there is no such bank."""
    rows = fetch(connection, _SIZES, bank)
    if not rows:
        return None
    *state, facts, fact_words, messages, message_words = rows[0]
    return BankState(*state), Sizes(Collection(facts, fact_words), Collection(messages, message_words))


_ADD_FACTS = """
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


def index_facts(connection: Connection, bank: int, batch: Sequence[Indexed]) -> None:
    """Store the vectors and words of new facts."""
    if not batch:
        return
    seqs = [seq for seq, _ in batch]
    vectors = np.stack([item.embedding for _, item in batch])
    widths, tokens = _token_columns([item.tokens for _, item in batch])
    connection.exec_driver_sql(_ADD_FACTS, (bank, seqs, *flat(vectors), widths, tokens))
    texts = [(seq, words.fact_words(item.fact.text, item.fact.context)) for seq, item in batch]
    words.add(connection, "fact", bank, texts)


def flat(vectors: Vectors) -> tuple[list[float], int]:
    """Vectors of one length as one list of numbers, and that length; one list is much faster to send than many."""
    # Rounded here as SQLite's are, so that both databases hold the same numbers.
    rounded = vectors.astype(np.float16).astype(np.float32)
    return rounded.ravel().tolist(), vectors.shape[1]


def _token_columns(found: Sequence[TokenVectors | None]) -> tuple[list[int | None], list[bytes | None]]:
    known = [tokens if tokens is not None and tokens.size else None for tokens in found]
    widths = [None if tokens is None else int(tokens.shape[1]) for tokens in known]
    packed = iter(encode_tokens([tokens for tokens in known if tokens is not None]))
    return widths, [None if tokens is None else next(packed) for tokens in known]


_REPLACE = """
WITH given AS MATERIALIZED (
    SELECT seq, width, vectors, place::integer AS place
    FROM unnest($2::bigint[], $5::integer[], $6::bytea[]) WITH ORDINALITY AS rows(seq, width, vectors, place)
), tokens AS (
    INSERT INTO fact_tokens (bank, seq, width, vectors)
    SELECT $1, seq, width, vectors FROM given WHERE width IS NOT NULL
)
UPDATE fact_vectors SET embedding = ($3::real[])[(place - 1) * $4::integer + 1 : place * $4::integer]::halfvec
FROM given WHERE fact_vectors.bank = $1 AND fact_vectors.seq = given.seq
"""


def replace_vectors(connection: Connection, bank: int, new: Mapping[FactId, Encoding]) -> bool:
    """Write new vectors for every fact of the bank; False, and nothing written, if one is missing."""
    seqs = dict(connection.execute(select(facts.c.id, facts.c.seq).where(facts.c.bank == bank)).all())
    if not seqs.keys() <= new.keys():
        return False
    connection.exec_driver_sql("DELETE FROM fact_tokens WHERE bank = $1", (bank,))
    known = list(seqs.items())
    for start in range(0, len(known), PART):
        part = known[start : start + PART]
        encodings = [new[FactId(id)] for id, _ in part]
        vectors = np.stack([encoding.vector for encoding in encodings])
        widths, tokens = _token_columns([encoding.tokens for encoding in encodings])
        connection.exec_driver_sql(_REPLACE, (bank, [seq for _, seq in part], *flat(vectors), widths, tokens))
    return True


_NUMBERS = "SELECT seq FROM messages WHERE bank = $1 AND id = ANY($2::text[])"


def numbers_of(connection: Connection, bank: int, ids: Sequence[MessageId]) -> list[int]:
    """Numbers of messages."""
    return list(connection.exec_driver_sql(_NUMBERS, (bank, list(ids))).scalars())


_DROP_FACTS = """
WITH tokens AS (DELETE FROM fact_tokens WHERE bank = $1 AND seq = ANY($2::bigint[]))
DELETE FROM fact_vectors WHERE bank = $1 AND seq = ANY($2::bigint[])
"""


class PostgresSearchIndex:
    """The search index of a commit."""

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None:
        """Index new facts by vector and words."""
        index_facts(connection, bank, new)

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        """Index messages by their words."""
        words.add(connection, "message", bank, [(seq, terms(content)) for seq, content in new])

    def drop_bank(self, connection: Connection, bank: int) -> None:
        """Remove all facts and messages of a bank."""
        for table in search.sorted_tables:
            connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE bank = $1", (bank,))

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[FactId, Encoding]) -> bool:
        """Replace the vectors of all facts; return False if one is missing."""
        return replace_vectors(connection, bank, new)

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        """Remove messages from the word index."""
        words.drop(connection, "message", bank, numbers_of(connection, bank, messages))

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        """Remove facts by row number."""
        words.drop(connection, "fact", bank, facts)
        connection.exec_driver_sql(_DROP_FACTS, (bank, list(facts)))

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        """Remove messages by row number."""
        words.drop(connection, "message", bank, messages)

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        """Return the vectors of facts by number."""
        statement = select(fact_vectors.c.seq, fact_vectors.c.embedding).where(
            statements.by_numbers(fact_vectors, bank, seqs)
        )
        return {seq: tuple(vector.tolist()) for seq, vector in connection.execute(statement).all()}


_TOKENS = """
SELECT facts.id, width, vectors FROM facts JOIN fact_tokens USING (bank, seq)
WHERE bank = $1 AND facts.id = ANY($2::text[])
"""


def token_vectors(connection: Connection, bank: int, ids: Sequence[FactId]) -> Sequence[TokenVectors | None]:
    """Token vectors in the order of the ids; None for a fact that has none."""
    rows = fetch(connection, _TOKENS, bank, [id for id in ids if storable(id)])
    stored = {FactId(id): (width, packed) for id, width, packed in rows}
    return decode_tokens([stored.get(id) for id in ids])
