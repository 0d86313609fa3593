"""Scores of a bank's documents by the encoder, and the quality of the resulting ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from batching import groups, rows
from bert import Encoder
from torch import Tensor

SPANS = (500, 1000, 2000)
BEFORE = 0.8
POOL = 200
"""Candidates that are reranked."""


@dataclass(frozen=True)
class Scores:
    """For each question (row) and document (column): cosine, late interaction, words."""

    pooled: Tensor
    late: Tensor
    words: Tensor
    window: Tensor
    """Late interaction with the turn before as well, whose matches count a little less."""


def score(
    encoder: Encoder, bank: dict, dropped: Tensor, *, context: bool, questions: Sequence[int] | None = None
) -> Scores:
    """Score all questions of a bank, or some, against all its documents."""
    device = str(dropped.device)
    asked = list(range(len(bank["questions"]))) if questions is None else list(questions)
    texts = [bank["questions"][n] for n in asked]
    none = torch.zeros_like(dropped)
    query = rows(texts, [np.zeros(0, np.uint16)] * len(texts), none, device)
    q_pooled, q_tokens, attention = encoder(query.ids, query.segments, query.mask)
    weights = attention.masked_fill(~query.own, -1e4).softmax(-1)
    documents, contexts = bank["documents"], bank["contexts"]
    seconds = contexts if context else [text[:0] for text in contexts]
    lengths = [len(a) + len(b) for a, b in zip(documents, seconds, strict=True)]
    pooled, matches, order = [], [], []
    for group in groups(lengths):
        part = rows([documents[n] for n in group], [seconds[n] for n in group], dropped, device)
        vectors, tokens, _ = encoder(part.ids, part.segments, part.mask)
        pooled.append(q_pooled @ vectors.T)
        matches.append(_matches(q_tokens, tokens, part.own))
        order += group
    back = torch.from_numpy(np.argsort(order)).to(device)
    words = torch.from_numpy(bank["words"][asked].astype(np.float32)).to(device)
    best = torch.cat(matches, 1)[:, back]
    follows = torch.tensor([len(text) > 0 for text in contexts], device=device)
    before = torch.cat([best[:, :1], best[:, :-1]], 1).masked_fill(~follows[None, :, None], -1.0)
    late = (best * weights[:, None, :]).sum(-1)
    window = (torch.maximum(best, BEFORE * before) * weights[:, None, :]).sum(-1)
    return Scores(torch.cat(pooled, 1)[:, back], late, words, window)


def _matches(query: Tensor, tokens: Tensor, own: Tensor) -> Tensor:
    """Return the best match of each query token in each document."""
    best = []
    for some in query.split(max(1, 60_000_000 // max(1, query.shape[1] * own.numel()))):
        similarity = torch.einsum("qik,djk->qdij", some, tokens)
        best.append(similarity.masked_fill(~own[None, :, None, :], -1.0).amax(-1))
    return torch.cat(best)


def normalised(values: Tensor) -> Tensor:
    """Scale from two standard deviations below the mean (0) to the best (1), as recall's fusion does."""
    baseline = values.mean(1, keepdim=True) - 2 * values.std(1, keepdim=True)
    return ((values - baseline) / (values.amax(1, keepdim=True) - baseline).clamp_min(1e-6)).clamp_min(0)


def order(scores: Scores, pooled: float, words: float, late: float, window: float = 0.0) -> np.ndarray:
    """Return the documents in recall's order: fused, then the first of them reranked."""
    fused = pooled * normalised(scores.pooled) + words * scores.words
    top = fused.topk(min(POOL, fused.shape[1]), 1).indices
    extra = late * normalised(scores.late.gather(1, top)) + window * normalised(scores.window.gather(1, top))
    return fused.scatter_add(1, top, extra).argsort(1, descending=True).cpu().numpy()


def judge(bank: dict, ranked: np.ndarray) -> list[tuple[str, list[float]]]:
    """Return each question's kind, recall@10, and the share of evidence within 500, 1,000 and 2,000 tokens."""
    tokens, judged = np.array(bank["tokens"]), []
    for row, turns, kind in zip(ranked, bank["turns"], bank["kinds"], strict=True):
        used = np.cumsum(tokens[row])
        # The rank of a turn is that of the first document that contains it.
        place = np.array([np.flatnonzero(np.isin(row, documents))[0] for documents in turns])
        judged.append((kind, [float(np.mean(part)) for part in (place < 10, *(used[place] <= n for n in SPANS))]))
    return judged


def mean(judged: Sequence[tuple[str, list[float]]]) -> np.ndarray:
    """Return the means over all questions."""
    return np.array([values for _, values in judged]).mean(0).round(4)


def listwise(logits: Tensor, evidence: Tensor) -> Tensor:
    """Return the loss of each relevant document against all irrelevant ones."""
    wrong = logits.masked_fill(evidence, -1e4).logsumexp(1, keepdim=True)
    losses = F.softplus(wrong - logits)
    return (losses * evidence).sum(1) / evidence.sum(1)
