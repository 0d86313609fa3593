"""The packaged revision model: logistic regressions over a few numbers of two statements, and of their claims."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from vmemo.errors import ModelCorrupt
from vmemo.models.search import ClaimPair, StatementPair
from vmemo_models import ModelFileError, RevisionFiles

MAX_DAYS = 400
"""Days between two statements from which more make no difference."""


def features(pairs: Sequence[StatementPair]) -> NDArray[np.float64]:
    """Return the numbers of each pair and their products, one row for each pair."""
    numbers = np.array([_numbers(pair) for pair in pairs], np.float64)
    count = numbers.shape[1]
    products = [numbers[:, [at]] * numbers[:, at:] for at in range(count)]
    return np.concatenate([numbers, *products], axis=1)


def _numbers(pair: StatementPair) -> tuple[float, ...]:
    return (
        pair.cosine,
        math.log1p(pair.shared),
        pair.shared / max(1, min(pair.earlier_terms, pair.later_terms)),
        math.log1p(pair.rare),
        math.log1p(min(max(0.0, pair.days), MAX_DAYS)),
        float(pair.days < 1),
        float(pair.rank),
        math.log1p(pair.earlier_terms),
        math.log1p(pair.later_terms),
        pair.lead,
    )


def _logistic(logits: NDArray[np.float64]) -> list[float]:
    return (1 / (1 + np.exp(-np.clip(logits, -30, 30)))).tolist()


class _Weights(BaseModel):
    """The bias, and the weight of each feature, of statements and of claims."""

    bias: float
    weights: list[float]
    claim_bias: float
    claim_weights: list[float]


class PackagedRevisionModel:
    """Implements the RevisionModel port with a packaged model, loaded at first use. Threads may share it."""

    def __init__(self, files: RevisionFiles) -> None:
        self._files = files

    @property
    def name(self) -> str:
        return self._files.name

    @property
    def encoder(self) -> str:
        return self._files.encoder

    async def score(self, pairs: Sequence[StatementPair]) -> list[float]:
        """Return for each pair the probability that the later statement makes the earlier one outdated."""
        return await asyncio.to_thread(self._score, pairs) if pairs else []

    async def score_claims(self, claims: Sequence[ClaimPair]) -> list[float]:
        """Return for each claim the probability that the later statement makes it outdated."""
        return await asyncio.to_thread(self._score_claims, claims) if claims else []

    def _score(self, pairs: Sequence[StatementPair]) -> list[float]:
        return _logistic(features(pairs) @ np.array(self._weights.weights) + self._weights.bias)

    def _score_claims(self, claims: Sequence[ClaimPair]) -> list[float]:
        numbers = np.array([claim.numbers for claim in claims], np.float64)
        return _logistic(numbers @ np.array(self._weights.claim_weights) + self._weights.claim_bias)

    @cached_property
    def _weights(self) -> _Weights:
        try:
            return _Weights.model_validate(json.loads(self._files.read("weights.json")))
        except ModelFileError as error:
            raise ModelCorrupt(
                f"The revision model {self.name} can't be used: {error}. Nothing was loaded. "
                "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
            ) from error
