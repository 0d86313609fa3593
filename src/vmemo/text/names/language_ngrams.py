"""Identification of languages in Latin script by naive Bayes over the n-grams of a text's bytes."""

from __future__ import annotations

import io
import math
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from vmemo_models import LANGUAGES

_LONGEST = 6
"""Bytes of the longest n-gram."""
_Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Table:
    ngrams: npt.NDArray[np.uint64]
    """N-grams as little-endian numbers, in ascending order."""
    weights: npt.NDArray[np.int8]
    """Logarithmic probabilities of each n-gram in each language, divided by `scale`."""
    scale: float
    priors: _Floats
    languages: tuple[str, ...]


def identify_language(text: str) -> tuple[str, float]:
    """Return the code of the most likely language, and its probability."""
    table = _table()
    content = unicodedata.normalize("NFC", text.lower() if text.isupper() else text).encode("utf-8", "surrogatepass")
    rows, counts = np.unique(_rows(content, table.ngrams), return_counts=True)
    known = rows >= 0
    scores = np.log1p(counts[known]) @ (table.weights[rows[known]] * np.float32(table.scale)) + table.priors
    # The square root of the length keeps probabilities of short and long texts comparable.
    likelihoods = np.exp((scores - scores.max()) / math.sqrt(max(1, len(content))))
    best = int(likelihoods.argmax())
    return table.languages[best], float(likelihoods[best] / likelihoods.sum())


def _rows(content: bytes, ngrams: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """Return for each byte the row of the longest n-gram that ends there, or -1."""
    octets = np.frombuffer(content, np.uint8).astype(np.uint64)
    rows = np.full(len(octets), -1, np.intp)
    keys = octets.copy()
    for length in range(1, min(_LONGEST, len(octets)) + 1):
        if length > 1:
            keys = (keys[1:] << np.uint64(8)) | octets[: len(keys) - 1]
        places = np.searchsorted(ngrams, keys)
        found = ngrams[np.minimum(places, len(ngrams) - 1)] == keys
        rows[length - 1 :][found] = places[found]
    return rows


@cache
def _table() -> _Table:
    with np.load(io.BytesIO(LANGUAGES.read("ngrams.npz"))) as file:
        return _Table(
            ngrams=file["ngrams"],
            weights=file["weights"],
            scale=float(file["scale"]),
            priors=file["priors"],
            languages=tuple(file["languages"].tolist()),
        )
