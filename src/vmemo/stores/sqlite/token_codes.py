"""Token vectors as the file holds them: three bits for each component, its sign and one of four magnitudes.

The magnitudes are relative to the largest component of a vector, and suit components that are distributed normally.
Vectors have length one, so no scale is stored. Packing what was unpacked gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vmemo.models.search import TokenTable, TokenVectors

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
    sizes = np.abs(tokens)
    peaks = np.maximum(sizes.max(axis=1, keepdims=True, initial=0), 1e-12)
    sizes /= peaks
    codes = np.zeros((len(tokens), tokens.shape[1] + -tokens.shape[1] % 8), np.uint8)
    codes[:, : tokens.shape[1]] = _magnitudes(sizes) | ((tokens < 0).view(np.uint8) << 2)
    # The bits that a byte has no space for are shifted out of it, and are in the next.
    a, b, c, d, e, f, g, h = np.ascontiguousarray(codes.reshape(-1, 8).T)
    packed = np.empty((len(a), 3), np.uint8)
    packed[:, 0] = a | (b << 3) | (c << 6)
    packed[:, 1] = (c >> 2) | (d << 1) | (e << 4) | (f << 7)
    packed[:, 2] = (f >> 1) | (g << 2) | (h << 5)
    return packed.tobytes()


def _magnitudes(relative: NDArray[np.float32]) -> NDArray[np.uint8]:
    found = np.zeros(relative.shape, np.uint8)
    for bound in _BOUNDS:
        found += relative >= bound
    return found


def unpacked_tokens(stored: Sequence[tuple[int, bytes] | None]) -> Sequence[TokenVectors | None]:
    """Return the token vectors of texts in order, from their width and packed vectors; None for a text without."""
    widths = {item[0] for item in stored if item is not None}
    if len(widths) > 1:
        return [None if item is None else unpacked_tokens([item])[0] for item in stored]
    if not widths:
        return [None] * len(stored)
    [width] = widths
    size = 3 * -(-width // 8)
    counts = [None if item is None else len(item[1]) // size for item in stored]
    return TokenTable(_unpacked(b"".join([item[1] for item in stored if item is not None]), width), counts)


def _unpacked(packed: bytes, width: int) -> TokenVectors:
    first, middle, last = np.frombuffer(packed, np.uint8).reshape(-1, 3).T.astype(np.uint16)
    # Numbers of the type that `take` works with, which it would convert others to.
    twelve = np.empty((len(first), 2), np.intp)
    twelve[:, 0] = first | ((middle & 15) << 8)
    twelve[:, 1] = (middle >> 4) | (last << 4)
    vectors = np.take(_DECODED, twelve, axis=0).reshape(-1, width + -width % 8)[:, :width]
    vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return vectors
