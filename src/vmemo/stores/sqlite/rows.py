"""SQLite's own statements: vectors and terms of facts, and the full-text index of messages.

The full-text index holds our own words, already stemmed, so that facts, messages and queries are read alike in every
script. It stores no text, only the index. Each row also holds its bank's number, which every search demands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    Select,
    Text,
    bindparam,
    column,
    delete,
    func,
    literal_column,
    select,
    table as sql_table,
)

from vmemo.models import BankId, EntityId, FactId, Interval, MessageId, utc_now
from vmemo.models.search import Encoding, Ranking, Scope, Scored, TokenVectors
from vmemo.stores.sql import selects
from vmemo.stores.sql.reads import LATEST
from vmemo.stores.sql.schema import MESSAGE, entities, facts, mentions, messages, sources, token_vectors
from vmemo.stores.sql.search import Indexed
from vmemo.stores.sql.selects import shown_verbatim, tagged, untagged, written_within
from vmemo.stores.sql.statements import Cell, Cells, Prepared, among, fetch, insert_cells, later, listed
from vmemo.stores.sqlite import block_rows
from vmemo.stores.sqlite.index.postings import hashed
from vmemo.stores.values import WORDLESS, dump, encode_tokens, micros
from vmemo.text.tokens import terms

_m = messages.c
_words = sql_table("message_words", column("rowid"))
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


def filtered(connection: Connection, bank: int, scope: Scope) -> list[int] | None:
    """Numbers of the facts that pass the filters only the database can answer; None without such filters."""
    if not (scope.tags or scope.metadata or scope.entities or scope.speakers):
        return None
    conditions = _conditions(bank, scope)
    return list(connection.execute(select(facts.c.seq).where(facts.c.bank == bank, *conditions)).scalars())


_ANY_INSTRUCTION = "SELECT 1 FROM facts WHERE bank = ? AND instruction = 1 LIMIT 1"
"""Most banks have none, and this takes a tenth of the time of the search."""


def instructions(connection: Connection, bank: int, scope: Scope, *, limit: int) -> list[FactId]:
    if not fetch(connection, _ANY_INSTRUCTION, bank):
        return []
    statement = selects.instruction_statement(
        [facts.c.bank == bank, selects.visible(scope, micros(utc_now())), *_conditions(bank, scope)],
        limit=limit,
    )
    return [FactId(id) for id in connection.execute(statement).scalars()]


def _conditions(bank: int, scope: Scope) -> list[ColumnElement[bool]]:
    conditions = _tagged(facts.c.tags, scope, untagged(facts.c.tags, facts.c.network))
    conditions += [_has_value(facts.c.metadata, key, value) for key, value in sorted(scope.metadata.items())]
    if scope.entities:
        conditions.append(facts.c.seq.in_(_mentioning(bank, scope.entities)))
    if scope.speakers:
        said = sources.c.bank == bank, sources.c.kind == MESSAGE, messages.c.speaker.in_(scope.speakers)
        stated = select(sources.c.fact).join_from(sources, messages, messages.c.seq == sources.c.source).where(*said)
        conditions.append(facts.c.seq.in_(stated))
    return conditions


def _tagged(tags: Column[str], scope: Scope, none: ColumnElement[bool]) -> list[ColumnElement[bool]]:
    held = [_has_tag(tags, tag) for tag in sorted(scope.tags)]
    return tagged(scope.tags_match, held, none=none, count=func.json_array_length(tags))


def _has_tag(tags: Column[str], tag: str) -> ColumnElement[bool]:
    values = func.json_each(tags).table_valued("value")
    return select(1).select_from(values).where(values.c.value == tag).exists()


def _has_value(metadata: Column[str], key: str, value: JsonValue) -> ColumnElement[bool]:
    """Compared with its JSON type, so that 1, true and "1" stay three values."""
    entries = func.json_each(metadata).table_valued("key", "type", "value")
    if isinstance(value, bool) or value is None:
        same = entries.c.type == json.dumps(value)
    elif isinstance(value, str):
        same = (entries.c.type == "text") & (entries.c.value == value)
    elif isinstance(value, int | float):
        same = entries.c.type.in_(("integer", "real")) & (entries.c.value == value)
    else:
        same = entries.c.type.in_(("object", "array")) & (entries.c.value == func.json(dump(value)))
    return select(1).select_from(entries).where(entries.c.key == key, same).exists()


def _mentioning(bank: int, names: Sequence[str]) -> Any:
    """Facts that mention an entity by id, name or alias."""
    wanted = [name.casefold() for name in names]
    aliases = func.json_each(entities.c.aliases).table_valued("value")
    alias = select(1).select_from(aliases).where(func.vmemo_fold(aliases.c.value).in_(wanted)).exists()
    named = entities.c.id.in_(names) | func.vmemo_fold(entities.c.name).in_(wanted) | alias
    found = select(entities.c.seq).where(entities.c.bank == bank, named)
    return select(mentions.c.fact).where(mentions.c.bank == bank, mentions.c.entity.in_(found))


_ANY_WORDED = "SELECT 1 FROM messages WHERE bank = ? AND state IN ('pending', 'grouped', 'extracted', 'raw') LIMIT 1"
"""If facts repeat all words, as with the local engine, there is nothing to search."""


def _message_conditions(scope: Scope) -> list[ColumnElement[bool]]:
    conditions = _tagged(messages.c.tags, scope, untagged(messages.c.tags))
    if scope.speakers:
        conditions.append(messages.c.speaker.in_(scope.speakers))
    return conditions + [_has_value(messages.c.metadata, key, value) for key, value in sorted(scope.metadata.items())]


def _matching(scope: Scope) -> Select[str, float, int]:
    """Return the statement for the messages of a scope that match words, best first."""
    now = bindparam("now", type_=BigInteger)
    bank = bindparam("of_bank", type_=BigInteger)
    score = literal_column("-bm25(message_words, 0.0, 1.0)", Float)
    return (
        select(messages.c.id, score, func.length(messages.c.content))
        .select_from(_words.join(messages, messages.c.seq == _words.c.rowid))
        .where(literal_column("message_words", Text).op("MATCH")(bindparam("match", type_=Text)))
        .where(messages.c.bank == bank, *_message_conditions(scope), *written_within(scope, now))
        .where(shown_verbatim(bank, scope, now))
        .order_by(score.desc(), messages.c.seq)
        .limit(bindparam("most", type_=BigInteger))
    )


_MATCHING = {
    former: Prepared(_matching(Scope.model_construct(bank=BankId(""), former=former))) for former in (None, Interval())
}
"""The statements of most recalls: without filters of their own, of current facts or of former ones too."""


def matching_messages(connection: Connection, bank: int, scope: Scope, words: Sequence[str], *, limit: int) -> Ranking:
    """Rank messages by BM25. Networks and entities are properties of facts, so such filters accept no message."""
    if not words or scope.entities or (scope.networks and "world" not in scope.networks):
        return Ranking()
    if not fetch(connection, _ANY_WORDED, bank):
        return Ranking()
    quoted = " OR ".join(f'"{word}"' for word in words)
    match = f'bank : "{bank}" AND words : ({quoted})'
    values: dict[str, Cell] = {"of_bank": bank, "match": match, "now": micros(utc_now()), "most": limit}
    prepared = _MATCHING.get(scope.former)
    if prepared is not None and scope.replace(networks=(), former=None) == Scope.model_construct(bank=scope.bank):
        rows = prepared.rows(connection, values)
    else:
        rows = connection.execute(_matching(scope), values).all()
    # Tokens are estimated here; recall counts the few it keeps.
    return Ranking.of(Scored(FactId(id), float(points), length // 4 + 1) for id, points, length in rows)


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
