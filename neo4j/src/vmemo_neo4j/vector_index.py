"""Vector indexes of large banks, one for each: Neo4j's index has one dimension, and no filter.

The facts of such a bank have a label of their own, which its index covers. The bank's node names the label as
`vector_label`, so that new facts get it, and the index as `vector_index` once it can be used. Maintenance builds
indexes, and drops those of deleted banks and of replaced vectors; smaller banks are searched exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Final, LiteralString

from vmemo_neo4j.connection import Neo4jConnection, Transaction

INDEX_FROM: Final = 4000
"""Facts from which on a bank has a vector index."""
LABELLED: Final = 2000
"""Facts that one transaction labels."""
BUILD_SECONDS: Final = 3600
_PREFIX: Final = "vmemo_vectors_"


def _name(bank: str, dimension: int) -> str:
    return f"{_PREFIX}{bank.replace('-', '')}_{dimension}"


def _label(bank: str) -> str:
    return f"Vectors_{bank.replace('-', '')}"


async def tend(connection: Neo4jConnection, index_from: int) -> None:
    """Build and drop indexes as the banks of the database need them."""
    for name in await connection.read(_unused):
        # Names are made of hexadecimal digits and can't be parameters.
        await connection.alone(f"DROP INDEX `{name}` IF EXISTS")  # pyright: ignore[reportArgumentType]
    for bank, dimension in await connection.read(partial(_wanted, index_from=index_from)):
        await _build(connection, bank, dimension)


async def _unused(tx: Transaction) -> list[str]:
    """Return the indexes of no bank, in any namespace."""
    banks = await tx.rows(
        "MATCH (b:Bank) WHERE b.vector_label IS NOT NULL RETURN b.key AS key, b.dimension AS dimension"
    )
    used = {_name(row["key"], row["dimension"]) for row in banks}
    found = await tx.rows(
        "SHOW VECTOR INDEXES YIELD name WHERE name STARTS WITH $prefix RETURN name ORDER BY name", prefix=_PREFIX
    )
    return [row["name"] for row in found if row["name"] not in used]


async def _wanted(tx: Transaction, *, index_from: int) -> list[tuple[str, int]]:
    """Return the large banks without an index, and their dimensions."""
    found = await tx.rows(
        "MATCH (b:Bank {namespace: $namespace}) "
        "WHERE b.name > '' AND b.fact_count >= $count AND b.vector_index IS NULL "
        "RETURN b.key AS key, b.dimension AS dimension ORDER BY key",
        count=index_from,
    )
    return [(row["key"], row["dimension"]) for row in found]


async def _build(connection: Neo4jConnection, bank: str, dimension: int) -> None:
    label, name = _label(bank), _name(bank, dimension)
    # New facts get the label from now on, the others here.
    marked: LiteralString = "MATCH (b:Bank {key: $bank}) SET b.vector_label = $label"
    await connection.write(lambda tx: tx.run(marked, bank=bank, label=label), repeatable=True)
    while await connection.write(partial(_label_some, bank=bank, label=label), repeatable=True):
        pass
    await connection.alone(
        f"CREATE VECTOR INDEX `{name}` IF NOT EXISTS FOR (n:`{label}`) ON (n.embedding) "  # pyright: ignore[reportArgumentType]
        f"OPTIONS {{indexConfig: {{`vector.dimensions`: {dimension}, `vector.similarity_function`: 'cosine', "
        # Its scores are exact then, so that no vector is read from its fact, which takes far longer.
        "`vector.quantization.enabled`: false}}"
    )
    await connection.alone("CALL db.awaitIndex($name, $seconds)", name=name, seconds=BUILD_SECONDS)
    # Vectors of another dimension may have replaced these meanwhile.
    usable: LiteralString = "MATCH (b:Bank {key: $bank, dimension: $dimension}) SET b.vector_index = $name"
    await connection.write(lambda tx: tx.run(usable, bank=bank, dimension=dimension, name=name), repeatable=True)


async def _label_some(tx: Transaction, *, bank: str, label: str) -> bool:
    """Label some facts of a bank; return False if all had the label."""
    row = await tx.one(
        "MATCH (f:Fact {bank: $bank}) WHERE NOT $label IN labels(f) WITH f LIMIT $count SET f:$([$label]) "
        "RETURN count(*) AS labelled",
        bank=bank,
        label=label,
        count=LABELLED,
    )
    return row is not None and bool(row["labelled"])
