"""COPY of large batches. Each cell of an array parameter costs the driver more than a cell of a copied row."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection
from sqlalchemy.util import await_only

from vmemo.models.search import Vectors
from vmemo.stores.postgres.driver import driver_of, losses

LEAST = 64
"""Rows from which on they are copied; for fewer, the round trips of a COPY cost more than a statement."""
_HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_END = b"\xff\xff"
_VECTORS = ("bank", "seq", "embedding")


def copy_rows(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows in the connection's transaction, which has begun."""
    driver = driver_of(connection.connection.driver_connection)
    with losses(driver):
        await_only(driver.copy_records_to_table(table, records=rows, columns=columns))


def copy_vectors(connection: Connection, bank: int, seqs: Sequence[int], vectors: Vectors) -> None:
    """Insert rows of `fact_vectors` in the connection's transaction, which has begun."""
    numbers = np.array([(bank, seq) for seq in seqs], ">i8")
    # As pgvector sends and receives a halfvec: dimension, two unused bytes, components.
    dimension = np.full((len(seqs), 2), (vectors.shape[1], 0), ">i2")
    embeddings = np.concatenate([_cells(dimension), _cells(vectors.astype(">f2"))], axis=1)
    rows = _binary_rows([_cells(numbers[:, :1]), _cells(numbers[:, 1:]), embeddings])
    driver = driver_of(connection.connection.driver_connection)
    source = BytesIO(_HEAD + rows + _END)
    with losses(driver):
        await_only(driver.copy_to_table("fact_vectors", source=source, columns=_VECTORS, format="binary"))


def _cells(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of each row of an array."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


def _binary_rows(columns: Sequence[NDArray[np.uint8]]) -> bytes:
    """Return rows in COPY's binary format: the number of cells, then each cell after its length."""
    count = len(columns[0])
    parts = [_cells(np.full(count, len(columns), ">i2"))]
    for cells in columns:
        parts += [_cells(np.full(count, cells.shape[1], ">i4")), cells]
    return np.concatenate(parts, axis=1).tobytes()
