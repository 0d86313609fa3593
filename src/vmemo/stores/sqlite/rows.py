"""The search index of a bank in the file: vectors and words of facts, token vectors, full-text index of messages.

It changes in the transaction that changes the rows of facts and messages. The full-text index holds our own words,
already stemmed, so that facts, messages and queries are read alike in every script. It stores no text, only the index,
and each row also holds its bank's number, which every search demands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, select

from vmemo.models import FactId, MessageId
from vmemo.models.search import Encoding, TokenVectors
from vmemo.stores.search import Indexed
from vmemo.stores.sql.schema import fact_index, facts, messages, token_vectors
from vmemo.stores.sql.statements import OF_PAGES, Cells, among, fetch, insert_cells, later, listed
from vmemo.stores.sqlite.index.bank import COLUMNS, EARLIEST, LATEST, NETWORKS, Columns, FactRows
from vmemo.stores.sqlite.index.postings import hashed
from vmemo.stores.sqlite.index.vectors import quantised, scales_of
from vmemo.stores.values import WORDLESS, encode_tokens
from vmemo.text.tokens import terms

PART = 20_000
"""Facts that are read at once."""

_BEGAN = "coalesce(occurred_start, min(mentioned_at, occurred_end - 1), mentioned_at)"
"""Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond."""
_NETWORK = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(NETWORKS))
_COLUMNS = f"""
seq, tokens, mentioned_at, CASE network {_NETWORK} END,
coalesce(valid_at, {EARLIEST + 1} - 1), coalesce(invalid_at, {LATEST}),
recorded_at, coalesce(expired_at, {LATEST}), coalesce(expires_at, {LATEST}), {_BEGAN},
max(coalesce(occurred_end, mentioned_at + 1), {_BEGAN} + 1)
"""
_CHANGED = f"SELECT {_COLUMNS} FROM facts WHERE bank = ? AND revision > ? AND seq <= ? ORDER BY seq"
_NEW = f"""
SELECT {_COLUMNS}, vector, terms FROM facts CROSS JOIN fact_index ON fact = seq
WHERE bank = ? AND {OF_PAGES} AND seq > ? ORDER BY seq LIMIT ?
"""
_MENTIONS = "SELECT fact, entity FROM mentions WHERE bank = ? AND fact > ? AND fact <= ? ORDER BY fact, entity"


def changed_columns(connection: Connection, bank: int, *, after: int, last: int) -> Columns:
    """Return the columns of facts up to the number `last` that changed after a revision."""
    return _columns(fetch(connection, _CHANGED, bank, after, last))


def read_facts(connection: Connection, bank: int, dimension: int, *, after: int) -> FactRows:
    """Return at most `PART` facts of a bank with greater numbers than `after`."""
    found = fetch(connection, _NEW, bank, after, PART)
    vectors = np.frombuffer(b"".join([row[-2] for row in found]), np.int8)
    words = np.frombuffer(b"".join([row[-1] for row in found]), "<u4")
    lengths = np.array([len(row[-1]) // 4 for row in found], np.int64)
    mentions = fetch(connection, _MENTIONS, bank, after, found[-1][0]) if found else []
    return FactRows(
        _columns(found),
        vectors.reshape(len(found), dimension),
        words,
        lengths,
        np.array(mentions, np.int64).reshape(len(mentions), 2),
    )


def _columns(found: Sequence[Cells]) -> Columns:
    table = np.array([row[: len(COLUMNS)] for row in found], np.int64).reshape(len(found), len(COLUMNS))
    return np.ascontiguousarray(table.T)


def count_facts(connection: Connection, bank: int) -> int:
    return connection.execute(select(func.count()).where(facts.c.bank == bank)).scalar_one()


_m = messages.c
_ADD = "INSERT INTO message_words(rowid, bank, words) VALUES (?, ?, ?)"
_DROP = "INSERT INTO message_words(message_words, rowid, bank, words) VALUES ('delete', ?, ?, ?)"


class SqliteSearchIndex:
    """Implements `SearchIndex`: blocks of facts, token vectors, and the full-text index of messages."""

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None:
        # A fact's own words count twice as much as those of its context.
        words = [hashed([*terms(item.fact.text) * 2, *terms(item.fact.context)]) for _, item in new]
        vectors = quantised(np.array([item.embedding for _, item in new], np.float32)) if new else ()
        rows = [
            (seq, vector.tobytes(), said.astype("<u4").tobytes())
            for (seq, _), vector, said in zip(new, vectors, words, strict=True)
        ]
        insert_cells(connection, fact_index, ("fact", "vector", "terms"), rows)
        _save_tokens(connection, ((seq, item.tokens) for seq, item in new))

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        connection.execute(delete(fact_index).where(among(fact_index.c.fact, facts)))
        _drop_tokens(connection, facts)

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[FactId, Encoding]) -> bool:
        seqs = dict(connection.execute(select(facts.c.id, facts.c.seq).where(facts.c.bank == bank)).all())
        if not seqs.keys() <= new.keys():
            return False
        if seqs:
            vectors = quantised(np.array([new[FactId(id)].vector for id in seqs], np.float32))
            rows = [(vector.tobytes(), seq) for vector, seq in zip(vectors, seqs.values(), strict=True)]
            connection.exec_driver_sql("UPDATE fact_index SET vector = ? WHERE fact = ?", rows)
        _drop_tokens(connection, seqs.values())
        _save_tokens(connection, ((seq, new[FactId(id)].tokens) for id, seq in seqs.items()))
        return True

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        known = select(fact_index.c.fact, fact_index.c.vector).where(among(fact_index.c.fact, seqs))
        found: dict[int, tuple[float, ...]] = {}
        for seq, stored in connection.execute(known):
            components = np.frombuffer(stored, np.int8)[None]
            found[seq] = tuple((components * scales_of(components)[:, None])[0].tolist())
        return found

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        _write_words(connection, _ADD, bank, new)

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        found = connection.execute(_CONTENTS, {"bank": bank, "ids": listed(messages)}).all()
        _write_words(connection, _DROP, bank, found)

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        _write_words(connection, _DROP, bank, _worded(connection, among(_m.seq, messages)))

    def drop_bank(self, connection: Connection, bank: int) -> None:
        own = select(facts.c.seq).where(facts.c.bank == bank).scalar_subquery()
        connection.execute(fact_index.delete().where(fact_index.c.fact.in_(own)))
        connection.execute(token_vectors.delete().where(token_vectors.c.fact.in_(own)))
        _write_words(connection, _DROP, bank, _worded(connection, _m.bank == bank))


_CONTENTS = select(_m.seq, _m.content).where(_m.bank == bindparam("bank"), among(_m.id, later("ids")))


def _worded(connection: Connection, condition: ColumnElement[bool]) -> Sequence[Cells]:
    """Return the numbers and texts of the messages that are in the word index."""
    return connection.execute(select(_m.seq, _m.content).where(condition, _m.state.not_in(WORDLESS))).all()


def _write_words(connection: Connection, statement: str, bank: int, batch: Sequence[Cells]) -> None:
    """Add messages to the word index, or remove them, for which it needs the very words that were added."""
    if batch:
        connection.exec_driver_sql(statement, [(seq, str(bank), " ".join(terms(text))) for seq, text in batch])


def _save_tokens(connection: Connection, new: Iterable[tuple[int, TokenVectors | None]]) -> None:
    """Store the token vectors of facts by number; a text without tokens has none."""
    known = [(seq, tokens) for seq, tokens in new if tokens is not None and tokens.size]
    packed = encode_tokens([tokens for _, tokens in known])
    rows = [(seq, int(tokens.shape[1]), stored) for (seq, tokens), stored in zip(known, packed, strict=True)]
    insert_cells(connection, token_vectors, ("fact", "width", "vectors"), rows)


def _drop_tokens(connection: Connection, seqs: Iterable[int]) -> None:
    connection.execute(delete(token_vectors).where(among(token_vectors.c.fact, seqs)))
