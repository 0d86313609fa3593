"""ONNX models written byte by byte, because the tests need no package that writes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Values = np.ndarray[tuple[int, ...], np.dtype[np.float32 | np.int64]]
FLOAT, INT32, INT64, BOOL = 1, 6, 7, 9


def onnx_model(
    nodes: Sequence[bytes], constants: Sequence[tuple[str, Values]], inputs: Sequence[bytes], outputs: Sequence[bytes]
) -> bytes:
    """Return a model of a graph."""
    graph = b"".join(field(1, item) for item in nodes) + field(2, b"net")
    graph += b"".join(field(5, tensor(name, values)) for name, values in constants)
    graph += b"".join(field(11, item) for item in inputs) + b"".join(field(12, item) for item in outputs)
    return number(1, 8) + field(8, field(1, b"") + number(2, 13)) + field(7, graph)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def number(key: int, value: int) -> bytes:
    return varint(key << 3) + varint(value)


def field(key: int, content: bytes) -> bytes:
    return varint(key << 3 | 2) + varint(len(content)) + content


def node(operator: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    written = b"".join(field(1, name.encode()) for name in inputs) + field(2, output.encode())
    written += field(4, operator.encode())
    for name, value in attributes.items():
        written += field(5, field(1, name.encode()) + number(3, value) + number(20, 2))
    return written


def tensor(name: str, values: Values) -> bytes:
    kind = INT64 if values.dtype.kind == "i" else FLOAT
    shape = b"".join(number(1, size) for size in values.shape)
    return shape + number(2, kind) + field(8, name.encode()) + field(9, values.tobytes())


def port(name: str, kind: int, rank: int) -> bytes:
    shape = b"".join(field(1, field(2, f"{name}_{axis}".encode())) for axis in range(rank))
    return field(1, name.encode()) + field(2, field(1, number(1, kind) + field(2, shape)))
