"""Conversion of the postings and token vectors of earlier releases, a part at a time.

The new tables get the data, and the old ones are dropped, so that no vector index is touched. All of it is one
transaction: a conversion that was interrupted begins again with the next open.
"""

from __future__ import annotations

import numpy as np
from sqlalchemy import Connection

from vmemo.stores.postgres import schema
from vmemo.stores.postgres.posting_blocks import BLOCK, MOST_COUNT, MOST_LENGTH
from vmemo.stores.sqlite.token_codes import packed_tokens

PAGE = 2000
"""Facts whose token vectors are converted at a time."""
_PARTITIONS = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'postings'::regclass"
_BANKS = "SELECT seq FROM banks ORDER BY seq"
_BLOCKS = f"""
INSERT INTO posting_blocks (bank, term, first, postings)
SELECT $1, term, min(fact), string_agg(
    int4send((fact - first)::integer) || int2send(least(length, {MOST_LENGTH})::smallint)
        || substring(int2send(least(count, {MOST_COUNT})::smallint) FROM 2), '' ORDER BY fact)
FROM (
    SELECT term, fact, length, count, block, min(fact) OVER (PARTITION BY term, block) AS first FROM (
        SELECT term, fact, length, count, (row_number() OVER (PARTITION BY term ORDER BY fact) - 1) / {BLOCK} AS block
        FROM postings WHERE bank = $1
    ) AS numbered
) AS placed
GROUP BY term, block
"""
_TOKENS = """
SELECT seq, token_width, token_vectors FROM fact_search
WHERE bank = $1 AND seq > $2 AND token_width IS NOT NULL ORDER BY seq LIMIT $3
"""
_PACKED = """
INSERT INTO fact_tokens (bank, seq, width, vectors) SELECT $1, * FROM unnest($2::bigint[], $3::integer[], $4::bytea[])
"""
_FORMER = (
    "DROP TABLE postings",
    "ALTER TABLE fact_search DROP COLUMN token_width, DROP COLUMN token_vectors",
)


def convert(connection: Connection) -> None:
    """Write the postings and token vectors of all banks in their packed form, bank by bank."""
    partitions = connection.exec_driver_sql(_PARTITIONS).scalar_one()
    for name in (schema.posting_blocks.name, schema.fact_tokens.name):
        schema.create_table(connection, name, partitions)
    for bank in connection.exec_driver_sql(_BANKS).scalars().all():
        connection.exec_driver_sql(_BLOCKS, (bank,))
        _pack_tokens(connection, bank)
    for statement in _FORMER:
        connection.exec_driver_sql(statement)


def _pack_tokens(connection: Connection, bank: int) -> None:
    """Pack token vectors, which had a signed byte for each component."""
    last = -1
    while rows := connection.exec_driver_sql(_TOKENS, (bank, last, PAGE)).all():
        texts = [np.frombuffer(stored, np.int8).reshape(-1, width).astype(np.float32) for _, width, stored in rows]
        columns = [seq for seq, _, _ in rows], [width for _, width, _ in rows], packed_tokens(texts)
        connection.exec_driver_sql(_PACKED, (bank, *columns))
        last = rows[-1][0]
