"""SQLite's own statements: vectors and terms of facts, and the full-text index of messages.

The full-text index holds our own words, already stemmed, so that facts, messages and queries are read alike in every
script. It stores no text, only the index. Each row also holds its bank's number, which every search demands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection, bindparam, delete, select

from vmemo.models import EntityId, FactId, MessageId
from vmemo.models.search import Encoding, Ranking, Scope, Scored, TokenVectors
from vmemo.stores.search import accepts_messages, all_of
from vmemo.stores.sql.filters import Parameters, ScopeFilter, instruction_statement
from vmemo.stores.sql.reads import LATEST
from vmemo.stores.sql.schema import facts, messages, token_vectors
from vmemo.stores.sql.search import Indexed
from vmemo.stores.sql.statements import Cells, Prepared, among, fetch, insert_cells, later, listed
from vmemo.stores.sqlite import block_rows
from vmemo.stores.sqlite.index.postings import hashed
from vmemo.stores.values import WORDLESS, dump, encode_tokens, storable
from vmemo.text.tokens import terms

_m = messages.c
_ADD = "INSERT INTO message_words(rowid, bank, words) VALUES (?, ?, ?)"
_DROP = "INSERT INTO message_words(message_words, rowid, bank, words) VALUES ('delete', ?, ?, ?)"


class SqliteSearchIndex:
    """Implements `SearchIndex`: blocks of facts, token vectors, and the full-text index of messages."""

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None:
        # A fact's own words count twice as much as those of its context.
        indexed = {
            seq: (item.embedding, hashed([*terms(item.fact.text) * 2, *terms(item.fact.context)])) for seq, item in new
        }
        block_rows.add(connection, bank, indexed)
        block_rows.update_changed(connection, bank, indexed)
        _save_tokens(connection, ((seq, item.tokens) for seq, item in new))

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        block_rows.drop(connection, bank, facts)
        _drop_tokens(connection, facts)

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[FactId, Encoding]) -> bool:
        seqs = dict(connection.execute(select(facts.c.id, facts.c.seq).where(facts.c.bank == bank)).all())
        if not seqs.keys() <= new.keys():
            return False
        block_rows.replace_vectors(connection, bank, {seq: new[FactId(id)].vector for id, seq in seqs.items()})
        _drop_tokens(connection, seqs.values())
        _save_tokens(connection, ((seq, new[FactId(id)].tokens) for id, seq in seqs.items()))
        return True

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        return {seq: tuple(row.tolist()) for seq, row in block_rows.vectors(connection, bank, seqs).items()}

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        _write_words(connection, _ADD, bank, new)

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        found = _CONTENTS.cells(connection, {"bank": bank, "ids": listed(messages)})
        _write_words(connection, _DROP, bank, found)

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        _write_words(connection, _DROP, bank, _worded(connection, among(_m.seq, messages)))

    def drop_bank(self, connection: Connection, bank: int) -> None:
        own = select(facts.c.seq).where(facts.c.bank == bank).scalar_subquery()
        block_rows.drop_bank(connection, bank)
        connection.execute(token_vectors.delete().where(token_vectors.c.fact.in_(own)))
        _write_words(connection, _DROP, bank, _worded(connection, _m.bank == bank))


_CONTENTS = Prepared(select(_m.seq, _m.content).where(_m.bank == bindparam("bank"), among(_m.id, later("ids"))))


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


class SqliteParameters(Parameters):
    """Parameters of SQLite. A list is one parameter in JSON."""

    def placeholder(self, number: int, type: str) -> str:
        return f"?{number}"

    def among(self, column: str, values: Iterable[str] | Iterable[int], type: str) -> str:
        return f"{column} IN (SELECT value FROM json_each({self.add(listed(values), 'json')}))"

    def has_tag(self, tags: str, tag: str) -> str:
        return f"EXISTS (SELECT 1 FROM json_each({tags}) WHERE value = {self.add(tag, 'text')})"

    def tag_count(self, tags: str) -> str:
        return f"json_array_length({tags})"

    def has_value(self, metadata: str, key: str, value: JsonValue) -> str:
        if not storable(key) or (isinstance(value, str) and not storable(value)):
            return "false"
        if isinstance(value, bool) or value is None:
            same = f"type = '{json.dumps(value)}'"
        elif isinstance(value, str):
            same = f"type = 'text' AND value = {self.add(value, 'text')}"
        elif isinstance(value, int | float):
            same = f"type IN ('integer', 'real') AND value = {self.add(value, 'number')}"
        else:
            same = f"type IN ('object', 'array') AND value = json({self.add(dump(value), 'json')})"
        return f"EXISTS (SELECT 1 FROM json_each({metadata}) WHERE key = {self.add(key, 'text')} AND {same})"


def filtered(connection: Connection, bank: int, scope: Scope) -> list[int] | None:
    """Return the facts that pass the filters only the database can answer, by number; None without such filters."""
    if not (scope.tags or scope.metadata or scope.entities or scope.speakers):
        return None
    values = SqliteParameters()
    conditions = ScopeFilter.of(connection, bank, scope).references(values)
    statement = f"SELECT seq FROM facts WHERE bank = {values.add(bank, 'bigint')} AND {all_of(conditions)}"
    return [seq for (seq,) in fetch(connection, statement, *values.values)]


_ANY_INSTRUCTION = "SELECT 1 FROM facts WHERE bank = ? AND instruction = 1 LIMIT 1"
"""Most banks have none, and this takes a tenth of the time of the search."""


def instructions(connection: Connection, bank: int, scope: Scope, *, limit: int) -> list[FactId]:
    if not fetch(connection, _ANY_INSTRUCTION, bank):
        return []
    values = SqliteParameters()
    statement = instruction_statement(ScopeFilter.of(connection, bank, scope), values, limit=limit)
    return [FactId(id) for (id,) in fetch(connection, statement, *values.values)]


_ANY_WORDED = "SELECT 1 FROM messages WHERE bank = ? AND state IN ('pending', 'grouped', 'extracted', 'raw') LIMIT 1"
"""If facts repeat all words, as with the local engine, there is nothing to search."""


def matching_messages(connection: Connection, bank: int, scope: Scope, words: Sequence[str], *, limit: int) -> Ranking:
    """Rank messages by BM25."""
    if not words or not accepts_messages(scope) or not fetch(connection, _ANY_WORDED, bank):
        return Ranking()
    quoted = " OR ".join(f'"{word}"' for word in words)
    values = SqliteParameters()
    match = values.add(f'bank : "{bank}" AND words : ({quoted})', "text")
    # Tokens are estimated here; recall counts the few it keeps.
    statement = f"""
SELECT messages.id, -bm25(message_words, 0.0, 1.0) AS score, length(messages.content) / 4 + 1
FROM message_words JOIN messages ON messages.seq = message_words.rowid
WHERE message_words MATCH {match} AND messages.bank = {values.add(bank, "bigint")}
    AND {ScopeFilter.of(connection, bank, scope).messages(values)}
ORDER BY score DESC, messages.seq LIMIT {limit}
"""
    return Ranking.of(
        Scored(FactId(id), score, tokens) for id, score, tokens in fetch(connection, statement, *values.values)
    )


_BESIDE = f"""
SELECT DISTINCT own.id, other.id
FROM entities AS own
CROSS JOIN mentions AS beside ON beside.bank = own.bank AND beside.fact IN (
    SELECT fact FROM mentions WHERE bank = own.bank AND entity = own.seq ORDER BY fact DESC LIMIT {LATEST}
)
CROSS JOIN entities AS other ON other.seq = beside.entity
WHERE own.bank = ? AND own.id IN (SELECT value FROM json_each(?)) AND other.seq != own.seq
"""
"""One statement for all entities takes a quarter of the time of one for each. CROSS JOIN keeps the order of tables."""


def cooccurring(connection: Connection, bank: int, ids: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
    found: dict[EntityId, set[EntityId]] = {id: set() for id in ids}
    for own, other in fetch(connection, _BESIDE, bank, listed(ids)):
        found[own].add(other)
    return found
