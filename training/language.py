"""Make the table of n-grams that identifies the language of a text, from the model of py3langid.

    pip install py3langid==0.4.0 && python training/language.py models/vmemo_models/language/ngrams.npz

py3langid walks an automaton of 39 MB over the bytes of a text, and counts the longest known n-gram that ends at each
byte. The table keeps those n-grams of Latin script as numbers, with their weights for languages in that script in
eight bits, so that the same sums need 3 MB and no time to load.
"""

from __future__ import annotations

import argparse
import io
import lzma
from collections import deque
from pathlib import Path

import numpy as np
import numpy.typing as npt
import py3langid

LANGUAGES = (
    "af az bs ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms nl no pl pt ro sk sl sq sr sv sw tl tr vi"
).split()
"""Languages in Latin script with many speakers; others are so rare that they are mostly mistakes."""
_LATIN_LEAD_BYTES = (*range(0xC3, 0xCA), 0xE1, 0xE2)
"""First bytes of letters with accents, of the additions for Vietnamese, and of quotation marks and dashes."""


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    packed = (Path(py3langid.__file__).parent / "data" / "model.npz.xz").read_bytes()
    with np.load(io.BytesIO(lzma.decompress(packed))) as model:
        ngrams = _ngrams(model["nextmove"].reshape(-1, 256), model["nextmove_row"])
        features, weights, priors = model["out_feat"], model["ptc"].astype(np.float32), model["pc"]
        classes: list[str] = model["classes"].tolist()
    states = [state for state, ngram in enumerate(ngrams) if ngram and _is_latin(ngram)]
    columns = [_column(language, classes) for language in LANGUAGES]
    keys = np.array([int.from_bytes(ngrams[state], "little") for state in states], np.uint64)
    # States without a feature shorten what ends there, and count for no language.
    rows = np.where((features[states] < 0)[:, None], 0, weights[features[states]][:, columns])
    rows -= rows.mean(axis=1, keepdims=True)
    scale = float(np.abs(rows).max()) / 127
    order = np.argsort(keys)
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        file,
        ngrams=keys[order],
        weights=(rows / scale).round().astype(np.int8)[order],
        scale=np.float32(scale),
        priors=priors[columns],
        languages=np.array(LANGUAGES),
    )


def _ngrams(moves: npt.NDArray[np.uint32], rows: npt.NDArray[np.uint16]) -> list[bytes]:
    """Return the n-gram of each state: the bytes of the shortest way to it."""
    ngrams: list[bytes | None] = [None] * len(rows)
    ngrams[0] = b""
    queue = deque([0])
    while queue:
        state = queue.popleft()
        for byte, following in enumerate(moves[rows[state]].tolist()):
            if ngrams[following] is None:
                ngrams[following] = (ngrams[state] or b"") + bytes([byte])
                queue.append(following)
    return [ngram or b"" for ngram in ngrams]


def _is_latin(ngram: bytes) -> bool:
    return all(byte < 0xC0 or byte in _LATIN_LEAD_BYTES for byte in ngram)


def _column(language: str, classes: list[str]) -> int:
    """Return the column of a language; Serbian has two, of which the second is for Latin script."""
    return max(number for number, name in enumerate(classes) if name == language)


if __name__ == "__main__":
    main()
