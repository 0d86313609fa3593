"""Conversion of vectors, terms and token vectors of earlier releases."""

from __future__ import annotations

import numpy as np
from sqlalchemy import Connection

from vmemo.stores.sql.message_rows import demand_scrub
from vmemo.stores.sqlite import block_rows
from vmemo.stores.sqlite.raw import execute, fetch
from vmemo.stores.sqlite.token_codes import packed_tokens

PAGE = 2048
"""Facts that are converted at a time."""
_BANKS = "SELECT DISTINCT bank FROM facts ORDER BY bank"
_FACTS = """
SELECT facts.seq, embedding, terms FROM facts JOIN fact_index ON fact_index.seq = facts.seq
WHERE bank = ? AND facts.seq > ? ORDER BY facts.seq LIMIT ?
"""


_TOKENS = "SELECT fact, width, vectors FROM token_vectors WHERE fact > ? ORDER BY fact LIMIT ?"
_PACKED = "UPDATE token_vectors SET vectors = ? WHERE fact = ?"


def convert(connection: Connection) -> None:
    """Write the blocks of all banks from the rows of `fact_index`, and pack the token vectors."""
    _write_blocks(connection)
    _pack_tokens(connection)
    # Rewriting the file gives the space of the former rows back.
    demand_scrub(connection)


def _write_blocks(connection: Connection) -> None:
    for (bank,) in fetch(connection, _BANKS):
        last = -1
        while rows := fetch(connection, _FACTS, bank, last, PAGE):
            new = {
                seq: (np.frombuffer(embedding, "<f2").astype(np.float32), np.frombuffer(terms, "<u4"))
                for seq, embedding, terms in rows
            }
            block_rows.add(connection, bank, new)
            last = rows[-1][0]


def _pack_tokens(connection: Connection) -> None:
    """Pack token vectors, which had a signed byte for each component."""
    last = -1
    while rows := fetch(connection, _TOKENS, last, PAGE):
        texts = [np.frombuffer(stored, np.int8).reshape(-1, width).astype(np.float32) for _, width, stored in rows]
        for (fact, _, _), packed in zip(rows, packed_tokens(texts), strict=True):
            execute(connection, _PACKED, packed, fact)
        last = rows[-1][0]
