"""Vectors of facts and words of facts and messages, written in the transaction that writes their nodes.

A fact has an `embedding`, packed `token_vectors` of some `token_width`, and `words`; a message has `words` while it is
in the word index. `words` are the keys of the words, which a full-text index holds: banks have no key in common, so
that it finds the texts of one bank, and what it still holds of a deleted text can't be read. The bank's node counts its
indexed texts and their words.

A large bank has a vector index of its own: Neo4j's index has one dimension, and no filter. Its facts have a label that
the index covers. The bank's node names the label as `vector_label`, so that new facts get it, and the index as
`vector_index` once it can be used. Maintenance builds indexes, and drops those of deleted banks and replaced vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from vmemo.models import FactId, MessageId
from vmemo.models.changes import NewFact
from vmemo.models.search import Encoding
from vmemo.stores.search import fact_words, word_keys
from vmemo.stores.values import encode_tokens
from vmemo.text.tokens import terms
from vmemo_neo4j.connection import Neo4jConnection, Transaction
from vmemo_neo4j.nodes import Properties

Kind = Literal["fact", "message"]
LABELS: Final[Mapping[Kind, str]] = {"fact": "Fact", "message": "Message"}
PART: Final = 500
"""Facts whose vectors one statement writes."""
KEY_WIDTH: Final = 8
"""Hexadecimal digits of a word's key; a space stands between two keys."""


def word(key: int) -> str:
    """Return a word's key as the index holds it."""
    return f"{key + 2**31:0{KEY_WIDTH}x}"


def keys_of(words: Iterable[str]) -> NDArray[np.int32]:
    """Return the keys of the words of texts, one after another."""
    numbers = np.frombuffer(bytes.fromhex(" ".join(words)), ">u4").astype(np.int64)
    return (numbers - 2**31).astype(np.int32)


def length(words: str) -> int:
    """Return the number of words of a text."""
    return (len(words) + 1) // (KEY_WIDTH + 1)


def _words(bank: str, words: Iterable[str]) -> str:
    return " ".join(map(word, word_keys(bank, words)))


def fact_index(bank: str, new: NewFact) -> Properties:
    """Return the properties of a fact by which it is searched, without its embedding."""
    tokens = new.encoding.tokens
    return {"words": _words(bank, fact_words(new.fact.text, new.fact.context)), **_token_properties(tokens)}


def _token_properties(tokens: NDArray[np.float32] | None) -> Properties:
    if tokens is None or not tokens.size:
        return {"token_vectors": None, "token_width": None}
    return {"token_vectors": encode_tokens([tokens])[0], "token_width": int(tokens.shape[1])}


def vector_of(encoding: Encoding) -> list[float]:
    """Return a vector, rounded as in the other stores, so that all of them hold the same numbers."""
    return encoding.vector.astype(np.float16).astype(np.float32).tolist()


async def count_texts(tx: Transaction, bank: str, kind: Kind, words: Sequence[str], *, sign: Literal[1, -1]) -> None:
    """Count texts that come into the index of a bank that is locked, or leave it."""
    if words:
        texts, total = f"b.{kind}_count", f"b.{kind}_terms"
        await tx.run(
            f"MATCH (b:Bank {{key: $bank}}) SET {texts} = coalesce({texts}, 0) + $texts, "
            f"{total} = coalesce({total}, 0) + $words",
            bank=bank,
            texts=sign * len(words),
            words=sign * sum(map(length, words)),
        )


async def save_words(tx: Transaction, bank: str, kind: Kind, new: Mapping[str, str | None]) -> None:
    """Replace the words of stored texts by id; None removes a text from the index."""
    if not new:
        return
    former = await tx.table(
        f"UNWIND $ids AS id MATCH (n:{LABELS[kind]} {{bank: $bank, id: id}}) WHERE n.words IS NOT NULL",
        "n.words",
        bank=bank,
        ids=list(new),
    )
    await count_texts(tx, bank, kind, [words for (words,) in former], sign=-1)
    await tx.run(
        f"UNWIND $rows AS row MATCH (n:{LABELS[kind]} {{bank: $bank, id: row[0]}}) SET n.words = row[1]",
        bank=bank,
        rows=[[id, words] for id, words in new.items()],
    )
    await count_texts(tx, bank, kind, [words for words in new.values() if words is not None], sign=1)


async def add_message_words(tx: Transaction, bank: str, new: Iterable[tuple[MessageId, str]]) -> None:
    """Index messages by their words."""
    await save_words(tx, bank, "message", {id: _words(bank, terms(content)) for id, content in new})


async def index_again(tx: Transaction, bank: str, changed: Sequence[NewFact]) -> None:
    """Replace the vectors and words of stored facts."""
    await _save_vectors(tx, bank, {item.fact.id: item.encoding for item in changed})
    words: dict[str, str | None] = {
        item.fact.id: _words(bank, fact_words(item.fact.text, item.fact.context)) for item in changed
    }
    await save_words(tx, bank, "fact", words)


async def _save_vectors(tx: Transaction, bank: str, new: Mapping[FactId, Encoding]) -> None:
    rows = [
        {"id": id, "properties": _token_properties(encoding.tokens), "vector": vector_of(encoding)}
        for id, encoding in new.items()
    ]
    for start in range(0, len(rows), PART):
        await tx.run(
            "MATCH (b:Bank {key: $bank}) UNWIND $rows AS row MATCH (f:Fact {bank: $bank, id: row.id}) "
            "SET f += row.properties, f:$([label IN [b.vector_label] WHERE label IS NOT NULL]) "
            "WITH f, row CALL db.create.setNodeVectorProperty(f, 'embedding', row.vector)",
            bank=bank,
            rows=rows[start : start + PART],
        )


async def replace_vectors(tx: Transaction, bank: str, new: Mapping[FactId, Encoding]) -> bool:
    """Replace the vectors of all facts; return False, with nothing written, if one is missing."""
    stored = await tx.table("MATCH (f:Fact {bank: $bank}) WHERE f.id > ''", "f.id", bank=bank)
    known = {FactId(id) for (id,) in stored}
    if not known <= new.keys():
        return False
    await _save_vectors(tx, bank, {id: encoding for id, encoding in new.items() if id in known})
    # The index of the old vectors may have another dimension.
    await tx.run("MATCH (b:Bank {key: $bank}) REMOVE b.vector_index", bank=bank)
    return True


async def embeddings(tx: Transaction, bank: str, ids: Sequence[FactId]) -> dict[FactId, tuple[float, ...]]:
    """Return the vectors of facts by id."""
    found = await tx.table(
        "UNWIND $ids AS id MATCH (f:Fact {bank: $bank, id: id})", "id, f.embedding", bank=bank, ids=list(ids)
    )
    return {FactId(id): tuple(vector) for id, vector in found if vector is not None}


INDEX_FROM: Final = 4000
"""Facts from which on a bank has a vector index."""
BUILD_SECONDS: Final = 3600
_PREFIX: Final = "vmemo_vectors_"


def _index_name(bank: str, dimension: int) -> str:
    return f"{_PREFIX}{bank.replace('-', '')}_{dimension}"


async def maintain_vector_indexes(connection: Neo4jConnection, index_from: int) -> None:
    """Drop the vector indexes of no bank, in any namespace, and build those of large banks."""
    for name in await connection.read(_unused_indexes):
        # Names are made of hexadecimal digits and can't be parameters.
        await connection.alone(f"DROP INDEX `{name}` IF EXISTS")
    for bank, dimension in await connection.read(partial(_banks_to_index, index_from=index_from)):
        await _build_index(connection, bank, dimension)


async def _unused_indexes(tx: Transaction) -> list[str]:
    banks = await tx.table("MATCH (b:Bank) WHERE b.vector_label IS NOT NULL", "b.key, b.dimension")
    used = {_index_name(key, dimension) for key, dimension in banks}
    found = await tx.rows(
        "SHOW VECTOR INDEXES YIELD name WHERE name STARTS WITH $prefix RETURN name ORDER BY name", prefix=_PREFIX
    )
    return [row["name"] for row in found if row["name"] not in used]


async def _banks_to_index(tx: Transaction, *, index_from: int) -> list[tuple[str, int]]:
    """Return the large banks without an index, and their dimensions."""
    found = await tx.table(
        "MATCH (b:Bank {namespace: $namespace}) "
        "WHERE b.name > '' AND b.fact_count >= $count AND b.vector_index IS NULL WITH b ORDER BY b.key",
        "b.key, b.dimension",
        count=index_from,
    )
    return [(key, dimension) for key, dimension in found]


async def _build_index(connection: Neo4jConnection, bank: str, dimension: int) -> None:
    label, name = f"Vectors_{bank.replace('-', '')}", _index_name(bank, dimension)
    # New facts get the label from now on, the others here.
    marked = "MATCH (b:Bank {key: $bank}) SET b.vector_label = $label"
    await connection.write(lambda tx: tx.run(marked, bank=bank, label=label), repeatable=True)
    unlabelled = "MATCH (f:Fact {bank: $bank}) WHERE NOT $label IN labels(f)"
    labelling = f"{unlabelled} CALL (f) {{ SET f:`{label}` }} IN TRANSACTIONS OF 2000 ROWS"
    await connection.alone(labelling, bank=bank, label=label)
    await connection.alone(
        f"CREATE VECTOR INDEX `{name}` IF NOT EXISTS FOR (n:`{label}`) ON (n.embedding) "
        f"OPTIONS {{indexConfig: {{`vector.dimensions`: {dimension}, `vector.similarity_function`: 'cosine', "
        # Its scores are exact then, so that no vector is read from its fact, which takes far longer.
        "`vector.quantization.enabled`: false}}"
    )
    await connection.alone("CALL db.awaitIndex($name, $seconds)", name=name, seconds=BUILD_SECONDS)
    # Vectors of another dimension may have replaced these meanwhile.
    usable = "MATCH (b:Bank {key: $bank, dimension: $dimension}) SET b.vector_index = $name"
    await connection.write(lambda tx: tx.run(usable, bank=bank, dimension=dimension, name=name), repeatable=True)
