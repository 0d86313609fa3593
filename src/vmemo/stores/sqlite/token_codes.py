"""Token vectors as the file holds them: three bits for each component, its sign and one of four magnitudes.

The magnitudes are relative to the largest component of a vector, and suit components that are distributed normally.
Vectors have length one, so no scale is stored. Packing what was unpacked gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vmemo.models.search import TokenVectors

K = TypeVar("K", int, str)
MAGNITUDES = np.array([0.1, 0.31, 0.56, 0.9], np.float32)
_BOUNDS = (MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2
_VALUES = np.concatenate([MAGNITUDES, -MAGNITUDES])
"""The component of each code."""
_FOUR = np.array([0, 3, 6, 9], np.uint16)
"""The bits by which the codes of four components are shifted."""
_DECODED = _VALUES[(np.arange(1 << 12, dtype=np.uint16)[:, None] >> _FOUR) & np.uint16(7)]
"""The four components of each twelve bits."""


def packed_tokens(texts: Sequence[TokenVectors]) -> list[bytes]:
    """Return the token vectors of each text as stored: three bytes for each eight components of a row, filled up."""
    if len({tokens.shape[1] for tokens in texts}) > 1:
        return [packed for tokens in texts for packed in packed_tokens([tokens])]
    if not texts:
        return []
    packed, size = _packed(np.concatenate(texts)), 3 * -(-texts[0].shape[1] // 8)
    ends = (np.cumsum([len(tokens) for tokens in texts]) * size).tolist()
    return [packed[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _packed(tokens: TokenVectors) -> bytes:
    peaks = np.maximum(np.abs(tokens).max(axis=1, keepdims=True, initial=0), 1e-12)
    codes = np.zeros((len(tokens), tokens.shape[1] + -tokens.shape[1] % 8), np.uint16)
    codes[:, : tokens.shape[1]] = _magnitudes(np.abs(tokens) / peaks) + 4 * (tokens < 0)
    filled = codes.reshape(-1, 2, 4)
    low, high = (filled << _FOUR).sum(axis=2, dtype=np.uint16).T
    return np.stack([low & 255, (low >> 8) | ((high & 15) << 4), high >> 4], axis=1).astype(np.uint8).tobytes()


def _magnitudes(relative: NDArray[np.float32]) -> NDArray[np.uint16]:
    found = np.zeros(relative.shape, np.uint16)
    for bound in _BOUNDS:
        found += relative >= bound
    return found


def unpacked_tokens(rows: Iterable[tuple[K, int, bytes]]) -> dict[K, TokenVectors]:
    """Return token vectors by the key of their row, from rows of the key, the width and the packed vectors."""
    given = list(rows)
    found: dict[K, TokenVectors] = {}
    for width in {width for _, width, _ in given}:
        # All rows are decoded at once: one conversion of a megabyte beats two hundred of a few kilobytes.
        stored = [(key, packed) for key, each, packed in given if each == width]
        vectors = _unpacked(b"".join([packed for _, packed in stored]), width)
        start, size = 0, 3 * -(-width // 8)
        for key, packed in stored:
            end = start + len(packed) // size
            found[key] = vectors[start:end]
            start = end
    return found


def _unpacked(packed: bytes, width: int) -> TokenVectors:
    first, middle, last = np.frombuffer(packed, np.uint8).reshape(-1, 3).T.astype(np.uint16)
    twelve: NDArray[np.uint16] = np.empty((len(first), 2), np.uint16)
    twelve[:, 0] = first | ((middle & 15) << 8)
    twelve[:, 1] = (middle >> 4) | (last << 4)
    vectors = np.take(_DECODED, twelve, axis=0).reshape(-1, width + -width % 8)[:, :width]
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors / lengths[:, None]
