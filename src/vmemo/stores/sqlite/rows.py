"""The search index of a bank in the file: blocks of facts, token vectors, and the full-text index of messages.

A block has vectors, terms and the columns that searches filter by. The blocks of a bank do not overlap: in order of
their first numbers they hold its facts in order. They change in the transaction that changes the facts' rows, so a
block never contradicts them. The full-text index holds our own words, already stemmed, so that facts, messages and
queries are read alike in every script. It stores no text, only the index, and each row also holds its bank's number,
which every search demands.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, delete, func, literal_column, select

from vmemo.models import FactId, MessageId
from vmemo.models.search import Encoding, TokenVectors, Vector
from vmemo.stores.search import Indexed
from vmemo.stores.sql.schema import facts, messages, token_vectors
from vmemo.stores.sql.statements import AnyRow, Cells, Prepared, among, execute, fetch, insert_cells, later, listed
from vmemo.stores.sqlite.index.bank import (
    BLOCK,
    COLUMNS,
    EARLIEST,
    LATEST,
    NETWORKS,
    Columns,
    FactBlock,
    FactIds,
    StoredBlock,
    unpack_numbers,
    unpack_vectors,
)
from vmemo.stores.sqlite.index.postings import Hashes, Keys, hashed, keys_of, with_rows
from vmemo.stores.sqlite.index.vectors import quantised
from vmemo.stores.values import WORDLESS, encode_tokens
from vmemo.text.tokens import terms

SMALL = 32
"""Small blocks at the end of a bank, or facts of a commit, from which on they are merged."""
_INSERT = "INSERT INTO fact_blocks (bank, first, last, count, numbers, vectors, terms) VALUES (?, ?, ?, ?, ?, ?, ?)"

_UPDATE = """
UPDATE fact_blocks SET bank = ?, first = ?, last = ?, count = ?, numbers = ?, vectors = ?, terms = ? WHERE id = ?
"""

_PROPERTIES = "INSERT OR REPLACE INTO block_properties (block, properties) VALUES (?, ?)"
_DELETE = ("DELETE FROM block_properties WHERE block = ?", "DELETE FROM fact_blocks WHERE id = ?")
_SPANS = "SELECT id, first, last, count FROM fact_blocks WHERE bank = ? AND last >= ? AND first <= ? ORDER BY first"
_LAST = "SELECT id, first, last, count FROM fact_blocks WHERE bank = ? ORDER BY first DESC LIMIT ?"

_READ = """
SELECT first, count, numbers, vectors, terms, properties
FROM fact_blocks CROSS JOIN block_properties ON block = id WHERE id = ?
"""

_VECTORS = "SELECT first, count, numbers, vectors FROM fact_blocks WHERE id = ?"
_NUMBERS = "SELECT first, count, numbers FROM fact_blocks WHERE bank = ? AND first <= ? ORDER BY first"
_OF_BANK = "SELECT id FROM fact_blocks WHERE bank = ?"

_CHANGED = """
SELECT seq FROM facts INDEXED BY facts_revision
WHERE bank = ?1 AND revision = (SELECT revision FROM banks WHERE seq = ?1)
"""

_START = func.coalesce(
    facts.c.occurred_start, func.min(facts.c.mentioned_at, facts.c.occurred_end - 1), facts.c.mentioned_at
)
"""Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond."""


class Span(NamedTuple):
    """The place of a block: its row, its first and last facts by number, and how many it has."""

    id: int
    first: int
    last: int
    size: int


def _network_number() -> ColumnElement[int]:
    cases = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(NETWORKS))
    return literal_column(f"CASE facts.network {cases} END")


_COLUMNS = select(
    facts.c.id,
    facts.c.seq,
    _network_number(),
    facts.c.tokens,
    func.coalesce(facts.c.valid_at, EARLIEST),
    func.coalesce(facts.c.invalid_at, LATEST),
    facts.c.recorded_at,
    func.coalesce(facts.c.expired_at, LATEST),
    func.coalesce(facts.c.expires_at, LATEST),
    _START,
    func.max(func.coalesce(facts.c.occurred_end, facts.c.mentioned_at + 1), _START + 1),
).order_by(facts.c.seq)

_OF_NUMBERS = Prepared(_COLUMNS.where(among(facts.c.seq, later("numbers"))))

_CHANGED_AFTER = Prepared(
    _COLUMNS.where(
        facts.c.bank == bindparam("bank"),
        facts.c.revision > bindparam("revision"),
        facts.c.seq <= bindparam("last", type_=BigInteger),
    )
)


def _columns(found: Sequence[AnyRow]) -> tuple[list[FactId], Columns]:
    table = np.array([row[1:] for row in found], np.int64).reshape(len(found), len(COLUMNS))
    return [FactId(row[0]) for row in found], np.ascontiguousarray(table.T)


def changed_columns(connection: Connection, bank: int, *, after: int, last: int) -> Columns:
    """Return the columns of facts up to the number `last` that changed after a revision."""
    return _columns(_CHANGED_AFTER.rows(connection, {"bank": bank, "revision": after, "last": last}))[1]


def _columns_of(connection: Connection, numbers: Iterable[int]) -> tuple[list[FactId], Columns]:
    return _columns(_OF_NUMBERS.rows(connection, {"numbers": listed(numbers)}))


def _add_blocks(connection: Connection, bank: int, new: Mapping[int, tuple[Vector, Hashes]]) -> None:
    """Store the vectors and terms of facts by number; their rows are written already."""
    if not new:
        return
    ids, columns = _columns_of(connection, new)
    ordered = [new[seq] for seq in columns[0].tolist()]
    components, scales = quantised(np.array([vector for vector, _ in ordered], np.float32))
    block = FactBlock(FactIds.of(ids), columns, components, scales, keys_of([terms for _, terms in ordered]))
    for span, part in _placed(connection, bank, block):
        if span is None:
            _append_block(connection, bank, part)
        else:
            _replace_blocks(connection, bank, [span], [_read_block(connection, span.id), part])


def _placed(connection: Connection, bank: int, block: FactBlock) -> Iterator[tuple[Span | None, FactBlock]]:
    """Yield the facts of a block with the stored block between whose facts they belong, if there is one."""
    groups: dict[Span | None, list[int]] = defaultdict(list)
    spans = _spans(connection, bank, int(block.seqs[0]), int(block.seqs[-1]))
    for place, seq in enumerate(block.seqs.tolist()):
        groups[_covering(spans, seq)].append(place)
    for span, places in groups.items():
        yield span, block.at(np.array(places, np.int64)) if len(groups) > 1 else block


def _append_block(connection: Connection, bank: int, block: FactBlock) -> None:
    """Store facts, together with the small blocks at the end of the bank if these are many or the facts are."""
    run = list[Span]()
    for row in fetch(connection, _LAST, bank, SMALL):
        span = Span(*row)
        if span.size >= BLOCK or span.last > block.seqs[0]:
            break
        run.append(span)
    if len(run) + len(block.ids) < SMALL:
        run = []
    _replace_blocks(connection, bank, run, [*(_read_block(connection, span.id) for span in run), block])


def _update_blocks(connection: Connection, bank: int, new: Container[int]) -> None:
    """Renew the properties of the facts that the bank's latest revision changed, except new ones."""
    changed = [seq for (seq,) in fetch(connection, _CHANGED, bank) if seq not in new]
    for span, seqs in _by_span(connection, bank, changed).items():
        block = _read_block(connection, span.id)
        _, columns = _columns_of(connection, np.intersect1d(seqs, block.seqs).tolist())
        patched = block.patched(columns)
        if not np.array_equal(patched.columns, block.columns):
            execute(connection, _PROPERTIES, span.id, patched.stored_properties)


def _drop_blocks(connection: Connection, bank: int, seqs: Sequence[int]) -> None:
    """Remove facts by number; the blocks that had them are written anew."""
    for span, gone in _by_span(connection, bank, seqs).items():
        block = _read_block(connection, span.id)
        left = np.flatnonzero(~np.isin(block.seqs, gone))
        if len(left) < len(block.ids):
            _replace_blocks(connection, bank, [span], [block.at(left)] if len(left) else [])


def _drop_blocks_of_bank(connection: Connection, bank: int) -> None:
    _delete_blocks(connection, [id for (id,) in fetch(connection, _OF_BANK, bank)])


def _replace_vectors(connection: Connection, bank: int, new: Mapping[int, Vector]) -> None:
    for span in _spans(connection, bank, EARLIEST, LATEST):
        block = _read_block(connection, span.id)
        components, scales = quantised(np.array([new[seq] for seq in block.seqs.tolist()], np.float32))
        _replace_blocks(connection, bank, [span], [replace(block, components=components, scales=scales)])


def _vectors_of(connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, NDArray[np.float32]]:
    found: dict[int, NDArray[np.float32]] = {}
    for span, wanted in _by_span(connection, bank, seqs).items():
        [(first, count, numbers, stored)] = fetch(connection, _VECTORS, span.id)
        known = unpack_numbers(first, count, numbers)
        scales, components = unpack_vectors(stored, count)
        places = np.flatnonzero(np.isin(known, wanted))
        rows = components[places] * scales[places, None]
        found.update(zip(known[places].tolist(), rows, strict=True))
    return found


def count_facts(connection: Connection, bank: int) -> int:
    return sum(span.size for span in _spans(connection, bank, EARLIEST, LATEST))


def read_blocks(connection: Connection, bank: int, *, after: int = -1) -> Iterator[FactBlock]:
    """Yield the facts of a bank with greater numbers than `after`, in order."""
    spans = _spans(connection, bank, after + 1, LATEST)
    for block in (_read_block(connection, span.id) for span in spans):
        yield block if block.seqs[0] > after else block.at(np.flatnonzero(block.seqs > after))


def fact_numbers(connection: Connection, bank: int, *, last: int) -> NDArray[np.int64]:
    """Return the numbers of the facts in blocks that begin no later than with `last`, ascending."""
    blocks = [unpack_numbers(*row) for row in fetch(connection, _NUMBERS, bank, last)]
    return np.concatenate([*blocks, np.zeros(0, np.int64)])


def postings_of(connection: Connection, bank: int, seqs: NDArray[np.int64]) -> Keys:
    """Return the postings of facts by number, with their places among the numbers as rows."""
    found = [np.zeros(0, np.uint64)]
    for span, wanted in _by_span(connection, bank, seqs.tolist()).items():
        block = _read_block(connection, span.id)
        own = block.at(np.flatnonzero(np.isin(block.seqs, wanted)))
        found.append(with_rows(own.keys, np.searchsorted(seqs, own.seqs)))
    return np.concatenate(found)


def mentions_after(connection: Connection, bank: int, *, after: int) -> list[tuple[int, int]]:
    """Return facts with greater numbers than `after` and the entities they mention, by number."""
    found = fetch(connection, "SELECT fact, entity FROM mentions WHERE bank = ? AND fact > ?", bank, after)
    return [(fact, entity) for fact, entity in found]


def _spans(connection: Connection, bank: int, first: int, last: int) -> list[Span]:
    return [Span(*row) for row in fetch(connection, _SPANS, bank, first, last)]


def _by_span(connection: Connection, bank: int, seqs: Iterable[int]) -> dict[Span, list[int]]:
    """Return the blocks that may have some facts, with these."""
    wanted = sorted(seqs)
    spans = _spans(connection, bank, wanted[0], wanted[-1]) if wanted else []
    found: dict[Span, list[int]] = defaultdict(list)
    for seq in wanted:
        if (span := _covering(spans, seq)) is not None:
            found[span].append(seq)
    return found


def _covering(spans: Sequence[Span], seq: int) -> Span | None:
    place = bisect_left(spans, seq, key=lambda span: span.last)
    return spans[place] if place < len(spans) and spans[place].first <= seq else None


def _read_block(connection: Connection, id: int) -> FactBlock:
    found = fetch(connection, _READ, id)
    if not found:
        raise ValueError("a block of facts has no properties")
    first, count, *stored = found[0]
    return FactBlock.read(first, count, StoredBlock(*stored))


def _replace_blocks(connection: Connection, bank: int, spans: Sequence[Span], blocks: Sequence[FactBlock]) -> None:
    """Write facts in place of some blocks, whose rows are used again."""
    parts = (
        FactBlock.joined(blocks).parts() if len(blocks) > 1 else [part for block in blocks for part in block.parts()]
    )
    ids = [span.id for span in spans]
    _delete_blocks(connection, ids[len(parts) :])
    for number, part in enumerate(parts):
        stored = part.stored()
        values = bank, int(part.seqs[0]), int(part.seqs[-1]), len(part.ids), *stored[:3]
        if number < len(ids):
            id = ids[number]
            execute(connection, _UPDATE, *values, id)
        else:
            id = execute(connection, _INSERT, *values)
        execute(connection, _PROPERTIES, id, stored.properties)


def _delete_blocks(connection: Connection, ids: Iterable[int]) -> None:
    for id in ids:
        for statement in _DELETE:
            execute(connection, statement, id)


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
        _add_blocks(connection, bank, indexed)
        _update_blocks(connection, bank, indexed)
        _save_tokens(connection, ((seq, item.tokens) for seq, item in new))

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        _drop_blocks(connection, bank, facts)
        _drop_tokens(connection, facts)

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[FactId, Encoding]) -> bool:
        seqs = dict(connection.execute(select(facts.c.id, facts.c.seq).where(facts.c.bank == bank)).all())
        if not seqs.keys() <= new.keys():
            return False
        _replace_vectors(connection, bank, {seq: new[FactId(id)].vector for id, seq in seqs.items()})
        _drop_tokens(connection, seqs.values())
        _save_tokens(connection, ((seq, new[FactId(id)].tokens) for id, seq in seqs.items()))
        return True

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        return {seq: tuple(row.tolist()) for seq, row in _vectors_of(connection, bank, seqs).items()}

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        _write_words(connection, _ADD, bank, new)

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        found = _CONTENTS.cells(connection, {"bank": bank, "ids": listed(messages)})
        _write_words(connection, _DROP, bank, found)

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        _write_words(connection, _DROP, bank, _worded(connection, among(_m.seq, messages)))

    def drop_bank(self, connection: Connection, bank: int) -> None:
        own = select(facts.c.seq).where(facts.c.bank == bank).scalar_subquery()
        _drop_blocks_of_bank(connection, bank)
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
