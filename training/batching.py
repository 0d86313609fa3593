"""Rows of token ids as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

GROUP_TOKENS = 32_768


@dataclass(frozen=True)
class Rows:
    """Padded ids. `own` marks the tokens whose vectors are kept: no padding, punctuation, separator or context."""

    ids: Tensor
    segments: Tensor
    mask: Tensor
    own: Tensor


def rows(first: Sequence[np.ndarray], second: Sequence[np.ndarray], dropped: Tensor, device: str) -> Rows:
    """Return texts as rows; `second` is the second segment of each."""
    length = max(len(a) + len(b) for a, b in zip(first, second, strict=True))
    length += -length % 8
    ids, segments, own = (np.zeros((len(first), length), np.int64) for _ in range(3))
    mask = np.zeros((len(first), length), np.bool_)
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        ids[row, : len(a)], ids[row, len(a) : len(a) + len(b)] = a, b
        segments[row, len(a) : len(a) + len(b)] = 1
        mask[row, : len(a) + len(b)], own[row, : len(a)] = True, 1
    tensors = [torch.from_numpy(part).to(device, non_blocking=True) for part in (ids, segments, mask, own)]
    kept = (tensors[3] > 0) & ~dropped[tensors[0]]
    return Rows(tensors[0], tensors[1], tensors[2], kept)


def groups(lengths: Sequence[int], most: int = GROUP_TOKENS) -> Iterator[list[int]]:
    """Yield indexes of rows of similar length, so that there is little padding."""
    group: list[int] = []
    for index in np.argsort(lengths, kind="stable").tolist():
        if group and lengths[index] * (len(group) + 1) > most:
            yield group
            group = []
        group.append(index)
    if group:
        yield group
