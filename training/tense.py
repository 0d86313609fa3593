"""Fits the tense of questions: 1 for what is true now, -1 for what was before, 0 for other questions.

    python training/tense.py PACK WEIGHTS.npz EXPORTED.onnx

Ridge regression on the pooled vectors of the questions of annotated conversations, by the exported encoder. The weights
are written into WEIGHTS.npz, which is then exported again.
"""

from __future__ import annotations

import asyncio
import lzma
import pickle
import sys
from pathlib import Path

import numpy as np

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo_models import DEEP, ENCODER

TENSES = {"current": 1.0, "former": -1.0}
FORMER_WEIGHT = 3.0
"""Questions about the past are rarer."""
RIDGE = 1.0


def main() -> None:
    """Fit, report on held-out authors, and write."""
    pack, path, network = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]).name
    with lzma.open(pack, "rb") as file:
        banks = [bank for bank in pickle.load(file)["banks"] if bank["split"] not in ("hop", "locomo", "valid")]
    rows = [
        (text, TENSES.get(kind, 0.0), bank["split"].startswith("valid"))
        for bank in banks
        for texts in (bank["questions"], bank.get("english_questions") or [])
        for text, kind in zip(texts, bank["kinds"], strict=False)
        if text
    ]
    embedder = PackagedEmbedder(ENCODER if network == ENCODER.network else DEEP)
    vectors = np.asarray(asyncio.run(embedder.embed([row[0] for row in rows], "query")), np.float64)
    given = np.concatenate([vectors, np.ones((len(rows), 1))], 1)
    tense, held_out = (np.array([row[n] for row in rows]) for n in (1, 2))
    weight = np.where(tense < 0, FORMER_WEIGHT, 1.0)
    own = given[~held_out]
    normal = own.T @ (own * weight[~held_out, None]) + RIDGE * np.eye(given.shape[1])
    fitted = np.linalg.solve(normal, own.T @ (tense * weight)[~held_out])
    found = given[held_out] @ fitted
    for value in (1.0, 0.0, -1.0):
        part = found[tense[held_out] == value]
        print(f"{value:+.0f}: {part.mean():.2f} ± {part.std():.2f} of {len(part)}")
    weights = dict(np.load(path))
    weights["tense.weight"], weights["tense.bias"] = (
        fitted[None, :-1].astype(np.float16),
        fitted[-1:].astype(np.float16),
    )
    np.savez(path, **weights)


if __name__ == "__main__":
    main()
