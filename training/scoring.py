# pyright: basic, reportMissingImports=false
"""Scores of questions and documents of whole banks by one encoder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from data import Bank, Corpus
from encoder import Encoder, Outputs
from torch import Tensor

GROUP = 24_000
"""Tokens that are encoded together."""


@dataclass(frozen=True)
class Scored:
    """Scores of questions (rows) and documents (columns) of a bank."""

    asked: Tensor
    documents: Tensor
    pooled: Tensor
    late: Tensor
    words: Tensor
    tense: Tensor
    """The question's tense times the document's place in time."""
    evidence: Tensor


def matches(query: Tensor, tokens: Tensor, own: Tensor) -> Tensor:
    """Return the best match of each token of queries in each document."""
    best = []
    for some in query.split(max(1, 120_000_000 // max(1, query.shape[1] * own.numel()))):
        similarity = torch.einsum("qik,djk->qdij", some, tokens)
        best.append(similarity.masked_fill(~own[None, :, None, :], -1.0).amax(-1))
    return torch.cat(best)


def groups(lengths: np.ndarray, most: int = GROUP) -> list[np.ndarray]:
    """Return places of texts of similar length to encode together."""
    found, group = [], []
    for place in np.argsort(lengths, kind="stable").tolist():
        if group and lengths[place] * (len(group) + 1) > most:
            found.append(np.array(group))
            group = []
        group.append(place)
    return [*found, np.array(group)]


def score(
    encoder: Encoder, corpus: Corpus, banks: Sequence[Bank], *, chance: random.Random | None = None, questions: int = 0
) -> tuple[list[Scored | None], list[tuple[Tensor, Tensor, Outputs]]]:
    """Score questions of banks, at most so many of each, and return the encoded documents as well."""
    device = corpus.device
    lengths = corpus.lengths
    asked = []
    for bank in banks:
        rows = list(range(len(bank.questions)))
        asked.append(chance.sample(rows, min(len(rows), questions)) if chance else rows)
    numbers = np.concatenate([bank.questions[rows] for bank, rows in zip(banks, asked, strict=True)]).astype(np.int64)
    query = torch.from_numpy(numbers).to(device)
    q_ids, q_mask = corpus.ids.padded(query)
    made = encoder(q_ids, q_mask, 1)
    shares = made.attention.masked_fill(~q_mask, -1e4).softmax(-1)
    documents = np.concatenate([bank.documents for bank in banks])
    outputs, where = [], np.zeros((len(documents), 2), np.int64)
    for group in groups(lengths[documents]):
        rows = torch.from_numpy(documents[group]).to(device)
        ids, mask = corpus.ids.padded(rows)
        where[group, 0], where[group, 1] = len(outputs), np.arange(len(group))
        outputs.append((rows, mask, encoder(ids, mask, 0), mask & corpus.content[ids]))
    found: list[Scored | None] = []
    q_start = d_start = 0
    for bank, rows in zip(banks, asked, strict=True):
        places = where[d_start : d_start + len(bank.documents)]
        d_start += len(bank.documents)
        q_part = slice(q_start, q_start + len(rows))
        q_start += len(rows)
        if not rows:
            found.append(None)
            continue
        pooled, late, order = [], [], []
        for number in np.unique(places[:, 0]):
            inside = np.flatnonzero(places[:, 0] == number)
            at = torch.from_numpy(places[inside, 1]).to(device)
            _, _, encoded, own = outputs[number]
            pooled.append(made.pooled[q_part] @ encoded.pooled[at].T)
            best = matches(made.tokens[q_part], encoded.tokens[at], own[at])
            late.append((best * shares[q_part][:, None, :]).sum(-1))
            order.append(inside)
        back = torch.from_numpy(np.argsort(np.concatenate(order))).to(device)
        evidence = torch.zeros((len(rows), len(bank.documents)), dtype=torch.bool, device=device)
        for row, question in enumerate(rows):
            evidence[row, bank.evidence[question]] = True
        place = torch.zeros(len(bank.documents)) if bank.place is None else torch.from_numpy(bank.place).float() - 0.5
        found.append(
            Scored(
                query[q_part], torch.from_numpy(bank.documents).to(device), torch.cat(pooled, 1)[:, back],
                torch.cat(late, 1)[:, back], torch.from_numpy(bank.words[rows]).to(device),
                made.tense[q_part][:, None] * place.to(device), evidence,
            )
        )  # fmt: skip
    return found, [(rows, mask, encoded) for rows, mask, encoded, _ in outputs]


def listwise(logits: Tensor, evidence: Tensor) -> Tensor:
    """Return the mean loss of relevant documents against all irrelevant ones."""
    wrong = logits.masked_fill(evidence, -1e4).logsumexp(1, keepdim=True)
    losses = F.softplus(wrong - logits)
    return ((losses * evidence).sum(1) / evidence.sum(1).clamp_min(1)).mean()
