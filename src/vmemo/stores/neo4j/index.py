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
from vmemo.stores.neo4j.connection import Transaction
from vmemo.stores.neo4j.nodes import Properties
from vmemo.stores.neo4j.terms import Kind, TermChanges, removed, words_of, write
from vmemo.stores.values import packed_tokens
from vmemo.text.tokens import terms

PART = 500
"""Facts whose vectors one statement writes."""


async def add_facts(tx: Transaction, bank: str, new: Sequence[NewFact], *, again: bool = False) -> None:
    """Index stored facts by vector and words, or index them again."""
    if not new:
        return
    await _save_vectors(tx, bank, {item.fact.id: item.encoding for item in new})
    # A fact's own words count twice as much as those of its context.
    texts: dict[str, list[str]] = {
        item.fact.id: [*terms(item.fact.text) * 2, *terms(item.fact.context)] for item in new
    }
    await _save_words(tx, bank, "facts", texts, again=again)


async def _save_vectors(tx: Transaction, bank: str, new: Mapping[FactId, Encoding]) -> None:
    rows = [{"id": id, **_vector_values(encoding)} for id, encoding in new.items()]
    for start in range(0, len(rows), PART):
        await tx.run(
            "MATCH (b:Bank {key: $bank}) UNWIND $rows AS row MATCH (f:Fact {bank: $bank, id: row.id}) "
            "SET f.token_vectors = row.tokens, f.token_width = row.width, "
            "f:$([label IN [b.vector_label] WHERE label IS NOT NULL]) "
            "WITH f, row CALL db.create.setNodeVectorProperty(f, 'embedding', row.vector)",
            bank=bank,
            rows=rows[start : start + PART],
        )


def _vector_values(encoding: Encoding) -> Properties:
    vector, tokens = encoding
    known = tokens if tokens is not None and tokens.size else None
    return {
        # Rounded as in the other stores, so that all of them hold the same numbers.
        "vector": vector.astype(np.float16).astype(np.float32).tolist(),
        "tokens": None if known is None else packed_tokens(known),
        "width": None if known is None else int(known.shape[1]),
    }


async def _save_words(
    tx: Transaction, bank: str, kind: Kind, texts: Mapping[str, Sequence[str]], *, again: bool
) -> None:
    """Write the words of texts, in place of those they may have if they are written again."""
    changes = await removed(tx, bank, kind, list(texts)) if again else TermChanges()
    for id, found in texts.items():
        changes.add(id, words_of(bank, found))
    await write(tx, bank, kind, changes)


async def add_words(tx: Transaction, bank: str, new: Sequence[tuple[MessageId, str]], *, again: bool = False) -> None:
    """Index messages by their words, or index them again."""
    if new:
        await _save_words(tx, bank, "messages", {id: terms(content) for id, content in new}, again=again)


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
