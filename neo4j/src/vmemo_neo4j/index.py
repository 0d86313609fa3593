"""Vectors of facts and words of facts and messages, written in the transaction that writes their nodes.

A fact has an `embedding`, packed `token_vectors` of some `token_width`, and `words`; a message has `words` while it is
in the word index. Facts and messages leave that index before their nodes are deleted, so that its counts stay true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vmemo.models import FactId, MessageId
from vmemo.models.changes import NewFact
from vmemo.models.search import Encoding
from vmemo.stores.values import packed_tokens
from vmemo.text.tokens import terms
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import Properties
from vmemo_neo4j.terms import TermChanges, length, removed, words_of, write

PART = 500
"""Facts whose vectors one statement writes."""


def values(bank: str, new: NewFact) -> Properties:
    """Return the properties of a new fact by which it is searched, without its embedding."""
    words = _words_of(bank, new)
    return {"words": words, "length": length(words), **_token_values(new.encoding)}


def _words_of(bank: str, new: NewFact) -> str:
    # A fact's own words count twice as much as those of its context.
    return words_of(bank, [*terms(new.fact.text) * 2, *terms(new.fact.context)])


async def count_facts(tx: Transaction, bank: str, new: Sequence[NewFact]) -> None:
    """Count the words of new facts."""
    changes = TermChanges()
    for item in new:
        changes.count(_words_of(bank, item), 1)
    await write(tx, bank, "facts", changes)


async def index_again(tx: Transaction, bank: str, changed: Sequence[NewFact]) -> None:
    """Replace the vectors and words of stored facts."""
    if changed:
        await _save_vectors(tx, bank, {item.fact.id: item.encoding for item in changed})
        changes = await removed(tx, bank, "facts", [item.fact.id for item in changed])
        for item in changed:
            changes.add(item.fact.id, _words_of(bank, item))
        await write(tx, bank, "facts", changes)


async def _save_vectors(tx: Transaction, bank: str, new: Mapping[FactId, Encoding]) -> None:
    rows = [
        {"id": id, "values": _token_values(encoding), "vector": vector_of(encoding)} for id, encoding in new.items()
    ]
    for start in range(0, len(rows), PART):
        await tx.run(
            "MATCH (b:Bank {key: $bank}) UNWIND $rows AS row MATCH (f:Fact {bank: $bank, id: row.id}) "
            "SET f += row.values, f:$([label IN [b.vector_label] WHERE label IS NOT NULL]) "
            "WITH f, row CALL db.create.setNodeVectorProperty(f, 'embedding', row.vector)",
            bank=bank,
            rows=rows[start : start + PART],
        )


def vector_of(encoding: Encoding) -> list[float]:
    """Return a vector, rounded as in the other stores, so that all of them hold the same numbers."""
    return encoding.vector.astype(np.float16).astype(np.float32).tolist()


def _token_values(encoding: Encoding) -> Properties:
    tokens = encoding.tokens
    known = tokens if tokens is not None and tokens.size else None
    return {
        "token_vectors": None if known is None else packed_tokens(known),
        "token_width": None if known is None else int(known.shape[1]),
    }


async def add_words(tx: Transaction, bank: str, new: Sequence[tuple[MessageId, str]], *, again: bool = False) -> None:
    """Index messages by their words, or index them again."""
    if not new:
        return
    changes = await removed(tx, bank, "messages", [id for id, _ in new]) if again else TermChanges()
    for id, content in new:
        changes.add(id, words_of(bank, terms(content)))
    await write(tx, bank, "messages", changes)


async def drop_words(tx: Transaction, bank: str, ids: Sequence[MessageId]) -> None:
    """Remove messages from the word index."""
    if ids:
        await write(tx, bank, "messages", await removed(tx, bank, "messages", ids))


async def drop_facts(tx: Transaction, bank: str, ids: Sequence[FactId]) -> None:
    """Remove facts from the word index, before their nodes are deleted."""
    if ids:
        await write(tx, bank, "facts", await removed(tx, bank, "facts", ids))


async def drop_messages(tx: Transaction, bank: str, ids: Sequence[MessageId]) -> None:
    """Remove messages from the word index, before their nodes are deleted."""
    await drop_words(tx, bank, ids)


async def replace_vectors(tx: Transaction, bank: str, new: Mapping[FactId, Encoding]) -> bool:
    """Replace the vectors of all facts; return False, with nothing written, if one is missing."""
    stored = await tx.rows("MATCH (f:Fact {bank: $bank}) WHERE f.id > '' RETURN f.id AS id", bank=bank)
    known = {FactId(row["id"]) for row in stored}
    if not known <= new.keys():
        return False
    await _save_vectors(tx, bank, {id: encoding for id, encoding in new.items() if id in known})
    # The index of the old vectors may have another dimension.
    await tx.run("MATCH (b:Bank {key: $bank}) REMOVE b.vector_index", bank=bank)
    return True


async def embeddings(tx: Transaction, bank: str, ids: Sequence[FactId]) -> dict[FactId, tuple[float, ...]]:
    """Return the vectors of facts by id."""
    found = await tx.rows(
        "UNWIND $ids AS id MATCH (f:Fact {bank: $bank, id: id}) RETURN id, f.embedding AS vector",
        bank=bank,
        ids=list(ids),
    )
    return {FactId(row["id"]): tuple(row["vector"]) for row in found if row["vector"] is not None}
