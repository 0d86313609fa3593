# pyright: basic, reportMissingImports=false
"""Reads int8 ONNX networks back into floats, without the onnx package: a file is a plain protocol buffer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

GRAPH, NODE, INITIALIZER = 7, 1, 5
INPUT, NODE_NAME, OPERATOR = 1, 3, 4
DIMS, TYPE, FLOATS, INTEGERS, NAME, RAW = 1, 2, 4, 5, 8, 9
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 10: np.float16}


def fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield field numbers and values, integers or bytes, of one message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _tensor(data: memoryview) -> tuple[str, np.ndarray]:
    parts: dict[int, list[Any]] = {}
    for number, value in fields(data):
        parts.setdefault(number, []).append(value)
    (kind,), (name,) = parts[TYPE], parts[NAME]
    shape = _integers(parts.get(DIMS, []))
    if RAW in parts:
        values = np.frombuffer(bytes(parts[RAW][0]), DTYPES[kind])
    elif FLOATS in parts:
        values = np.frombuffer(b"".join(map(bytes, parts[FLOATS])), np.float32)
    else:
        values = np.array(_integers(parts.get(INTEGERS, [])), np.int64).astype(DTYPES[kind])
    return bytes(name).decode(), values.reshape(shape)


def _integers(values: list[int | memoryview]) -> list[int]:
    """Return repeated integers, packed or single."""
    return [n for value in values for n in ([value] if isinstance(value, int) else _packed(value))]


def _packed(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _node(data: memoryview) -> tuple[str, str, list[str]]:
    kind = name = ""
    inputs = []
    for number, value in fields(data):
        if number == INPUT:
            inputs.append(bytes(value).decode())
        elif number == NODE_NAME:
            name = bytes(value).decode()
        elif number == OPERATOR:
            kind = bytes(value).decode()
    return kind, name, inputs


def matrix_name(node: str) -> str:
    """Return BERT's name of the matrix that a node multiplies by."""
    if (found := re.fullmatch(r"/(encoder/layer\.\d+/.+)/MatMul_quant", node)) is None:
        raise ValueError(f"{node} is not a product with a matrix of a layer")
    return found[1].replace("/", ".") + ".weight"


def read(path: Path) -> dict[str, np.ndarray]:
    """Return float weights by BERT's usual names, and a trained encoder's heads; matrices are (inputs, outputs)."""
    (graph,) = (value for number, value in fields(memoryview(path.read_bytes())) if number == GRAPH)
    parts = list(fields(graph))
    tensors = dict(_tensor(value) for number, value in parts if number == INITIALIZER)
    weights = {name: value for name, value in tensors.items() if value.dtype == np.float32 and "scale" not in name}
    kept = re.compile(r"(embeddings|encoder)\.|(token|attention)_head$")
    weights = {name: value for name, value in weights.items() if kept.match(name)}
    for table in ("word", "position", "token_type"):
        name = f"embeddings.{table}_embeddings.weight"
        weights[name] = _dequantised(tensors, name)
    for kind, name, inputs in (_node(value) for number, value in parts if number == NODE):
        if kind == "MatMulInteger":
            weights[matrix_name(name)] = _dequantised(tensors, inputs[1].removesuffix("_quantized"))
    return weights


def _dequantised(tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    values = tensors[f"{name}_quantized"].astype(np.float32) - tensors[f"{name}_zero_point"].astype(np.float32)
    return values * tensors[f"{name}_scale"].astype(np.float32)


JOINED = {"query_key_value": ("query", "key", "value")}
"""Products that the exported network computes as one."""


def packaged(path: Path) -> dict[str, np.ndarray]:
    """Return the state of an `Encoder` from a network that `export.py` wrote; the table of words is beside it."""
    (graph,) = (value for number, value in fields(memoryview(path.read_bytes())) if number == GRAPH)
    stored = dict(_tensor(value) for number, value in fields(graph) if number == INITIALIZER)
    folder = path.parent
    with np.load(folder / "tokens.npz") as arrays:
        table = np.load(folder / "words.npy").astype(np.float32) * arrays["step"].astype(np.float32)[:, None]
    state = {"words.weight": table, "positions.weight": stored["positions"].astype(np.float32)}
    for name, value in stored.items():
        head, _, part = name.rpartition(".")
        layer, _, product = head.rpartition(".")
        if name.startswith("integers") or "." not in name or part in ("steps", "zero"):
            continue
        if ".rounders." in name and part == "shrink":
            state[name] = value.astype(np.float32)
            continue
        if ".rounders." in name:
            low = -stored[f"{head}.zero"].astype(np.float32) * value
            state |= {f"{head}.low": low.reshape(()), f"{head}.high": (low + 255 * value).reshape(())}
            continue
        known = value.astype(np.float32)
        if f"{head}.steps" in stored:
            known = known * stored[f"{head}.steps"] if part == "weight" else known
            names = JOINED.get(product, (product,))
            for own, each in zip(names, np.split(known, len(names), axis=-1), strict=True):
                state[f"{layer}.{own}.{part}"] = each.T if part == "weight" else each
        else:
            state[name] = known.T if part == "weight" and head != "segments" and known.ndim == 2 else known
    return state
