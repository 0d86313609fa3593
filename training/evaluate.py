# pyright: basic, reportMissingImports=false
"""How good an encoder is on conversations that it was not trained on."""

from __future__ import annotations

import json
import time

import numpy as np
import torch
from data import Bank, Corpus
from encoder import Encoder
from scoring import Scored, score
from torch import Tensor

POOL = 200
TENSE = 0.3


def normalised(values: Tensor) -> Tensor:
    """Scale from two standard deviations below the mean (0) to the best (1), as recall's fusion does."""
    baseline = values.mean(1, keepdim=True) - 2 * values.std(1, keepdim=True)
    return ((values - baseline) / (values.amax(1, keepdim=True) - baseline).clamp_min(1e-6)).clamp_min(0)


def order(found: Scored, tense: float) -> np.ndarray:
    """Return the documents in recall's order: fused, then the first of them reranked."""
    fused = normalised(found.pooled) + 0.5 * found.words
    top = fused.topk(min(POOL, fused.shape[1]), 1).indices
    extra = normalised(found.late.gather(1, top))
    return (fused.scatter_add(1, top, extra) + tense * found.tense).argsort(1, descending=True).cpu().numpy()


def judge(bank: Bank, ranked: np.ndarray, questions: range) -> list[dict[str, float]]:
    """Return measures of each question."""
    judged = []
    for number in questions:
        row, turns = ranked[number], bank.turns[number]
        used = np.cumsum(bank.tokens[row])
        place = np.array([np.flatnonzero(np.isin(row, documents))[0] for documents in turns])
        kind = bank.kinds[number]
        good = (used[place] <= 300).all() if kind == "multi" else place.min() < 3
        judged.append(
            {"recall@10": (place < 10).mean(), "evidence@1000": (used[place] <= 1000).mean(),
             "first": float(place.min() == 0), "three": float(place.min() < 3), kind: float(good)}
        )  # fmt: skip
    return judged


@torch.no_grad()
def report(name: str, encoder: Encoder, corpus: Corpus) -> None:
    """Print what an encoder reaches."""
    began = time.time()
    encoder.eval()
    lines = {}
    for split in ("locomo", "valid", "valid lives", "valid languages"):
        own: list[dict[str, float]] = []
        cross: list[dict[str, float]] = []
        for bank in (b for b in corpus.banks if b.split == split):
            with torch.autocast("cuda", torch.bfloat16, enabled=corpus.device == "cuda"):
                (found,), _ = score(encoder, corpus, [bank])
            if found is None:
                continue
            ranked = order(found, TENSE if bank.place is not None else 0.0)
            own += judge(bank, ranked, range(bank.foreign))
            cross += judge(bank, ranked, range(bank.foreign, len(bank.questions)))
        lines[split] = _means(own)
        if cross:
            lines["cross"] = _means(cross)
    lines["reader"] = read(encoder, corpus)
    print("REPORT", name, f"{time.time() - began:.0f}s")
    for split, values in lines.items():
        print("   ", split, json.dumps({k: round(float(v), 3) for k, v in values.items()}), flush=True)
    encoder.train()


def _means(judged: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for row in judged for name in row)
    wanted = {"recall@10", "evidence@1000", "first", "three", "current", "former", "multi", "advice"}
    return {name: np.mean([row[name] for row in judged if name in row]) for name in names if name in wanted}


def read(encoder: Encoder, corpus: Corpus) -> dict[str, float]:
    """Return the average precision of the reader's noise and tags, by token, on held-out authors."""
    rows = [n for b in corpus.banks if b.split.startswith("valid ") and b.labelled for n in b.documents.tolist()]
    rows = torch.tensor(rows, device=corpus.device)
    rows = rows[corpus.ids.lengths[rows].argsort()]
    noise, tags = [], []
    for some in rows.split(256):
        ids, mask = corpus.ids.padded(some)
        with torch.autocast("cuda", torch.bfloat16, enabled=corpus.device == "cuda"):
            found, empty = encoder.read(encoder(ids, mask, 0), mask)
        noise.append(torch.stack([empty, corpus.noise[some]], 1).cpu().numpy())
        index = (corpus.tags.starts[some][:, None] + torch.arange(mask.shape[1], device=mask.device))[mask]
        tags.append(torch.stack([found[mask], corpus.tags.flat[index].float()], 2).cpu().numpy())
    every = np.concatenate(tags)
    names = ("wish", "end", "person", "date", "change")
    result = {"noise": average_precision(*np.concatenate(noise).T)}
    for number, name in enumerate(names):
        known = every[:, number, 1] >= 0
        result[name] = average_precision(*every[known, number].T)
    return result


def average_precision(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the average precision."""
    right = labels[np.argsort(-scores, kind="stable")]
    return float((right * np.cumsum(right) / np.arange(1, len(right) + 1)).sum() / max(1, right.sum()))
