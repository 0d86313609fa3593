# pyright: basic, reportMissingImports=false
"""Fits the tense of questions: 1 for what is true now, -1 for what was before, 0 for other questions."""

from __future__ import annotations

import torch
from data import Corpus
from encoder import Encoder

TENSES = {"current": 1.0, "former": -1.0}
FORMER_WEIGHT = 3.0
"""Questions about the past are rarer."""
RIDGE = 1.0
TRAINED, HELD_OUT = ("train", "lives", "languages"), ("valid lives", "valid languages")


@torch.no_grad()
def fit(encoder: Encoder, corpus: Corpus) -> None:
    """Fit a ridge regression on the vectors of questions, and report on held-out authors."""
    encoder.eval()
    rows = [
        (number, TENSES.get(kind, 0.0), bank.split in HELD_OUT)
        for bank in corpus.banks
        if bank.split in TRAINED + HELD_OUT
        for number, kind in zip(bank.questions.tolist(), bank.kinds, strict=True)
    ]
    numbers = torch.tensor([row[0] for row in rows], device=corpus.device)
    vectors = []
    for some in numbers.split(512):
        ids, mask = corpus.ids.padded(some)
        vectors.append(encoder(ids, mask, 1).pooled.double())
    given = torch.cat([torch.cat(vectors), torch.ones((len(rows), 1), device=corpus.device)], 1)
    tense, held_out = (torch.tensor([row[n] for row in rows], device=corpus.device).double() for n in (1, 2))
    weight = torch.where(tense < 0, FORMER_WEIGHT, 1.0) * (1 - held_out)
    ridge = RIDGE * torch.eye(given.shape[1], device=corpus.device, dtype=torch.float64)
    fitted = torch.linalg.solve(given.T @ (given * weight[:, None]) + ridge, given.T @ (tense * weight))
    found = given @ fitted
    for value in (1.0, 0.0, -1.0):
        part = found[(tense == value) & (held_out == 1)]
        print(f"tense {value:+.0f}: {part.mean():.2f} ± {part.std():.2f} of {len(part)}", flush=True)
    encoder.tense.weight.copy_(fitted[None, :-1].float())
    encoder.tense.bias.copy_(fitted[-1:].float())
