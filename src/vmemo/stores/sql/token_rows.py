"""Token vectors in the database: one signed byte per component, 127 standing for 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from sqlalchemy import Connection, delete, insert

from vmemo.models import FactId
from vmemo.models.search import TokenVectors
from vmemo.stores.sql.in_list import among, listed
from vmemo.stores.sql.schema import token_vectors
from vmemo.stores.sqlite.raw import fetch

ONE = 127.0


def save(connection: Connection, new: Iterable[tuple[int, TokenVectors | None]]) -> None:
    """Keep the token vectors of facts by number; a text without tokens has none."""
    rows = [
        {"fact": seq, "width": tokens.shape[1], "vectors": packed(tokens)}
        for seq, tokens in new
        if tokens is not None and tokens.size
    ]
    if rows:
        connection.execute(insert(token_vectors), rows)


def drop(connection: Connection, seqs: Iterable[int]) -> None:
    """Forget the token vectors of facts."""
    connection.execute(delete(token_vectors).where(among(token_vectors.c.fact, list(seqs))))


_LOAD = "SELECT fact, width, vectors FROM token_vectors WHERE fact IN (SELECT value FROM json_each(?))"


def load(connection: Connection, numbers: Mapping[int, FactId], ids: Sequence[FactId]) -> list[TokenVectors | None]:
    """Token vectors in the order of the ids, of facts whose numbers are known."""
    rows = fetch(connection, _LOAD, listed(numbers))
    # All rows are decoded at once: one conversion of a megabyte beats two hundred of a few kilobytes.
    joined = np.frombuffer(b"".join([vectors for _, _, vectors in rows]), np.int8).astype(np.float32)
    joined *= np.float32(1 / ONE)
    found: dict[FactId, TokenVectors] = {}
    start = 0
    for seq, width, vectors in rows:
        found[numbers[seq]] = joined[start : start + len(vectors)].reshape(-1, width)
        start += len(vectors)
    return [found.get(id) for id in ids]


def packed(tokens: TokenVectors) -> bytes:
    """Token vectors as they are stored."""
    return np.rint(tokens * ONE).clip(-ONE, ONE).astype(np.int8).tobytes()
