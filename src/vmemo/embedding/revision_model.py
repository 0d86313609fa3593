"""The packaged revision model: a logistic regression over features of two statements."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from pydantic import TypeAdapter

from vmemo.errors import ModelCorrupt
from vmemo.models.search import StatementPair
from vmemo.text.change_features import change_features, examine
from vmemo_models import ModelFileError, RevisionFiles

_WEIGHTS = TypeAdapter(dict[str, float])
_BIAS = "bias"


class PackagedRevisionModel:
    """Implements the RevisionModel port with a packaged model, loaded at first use. Threads may share it."""

    def __init__(self, files: RevisionFiles) -> None:
        self._files = files

    @property
    def name(self) -> str:
        """The model's name."""
        return self._files.name

    @property
    def encoder(self) -> str:
        """The name of the encoder whose cosines the model takes."""
        return self._files.encoder

    async def score(self, pairs: Sequence[StatementPair]) -> list[float]:
        """Return for each pair the probability that the later statement makes the earlier one outdated."""
        return await asyncio.to_thread(self._score, pairs) if pairs else []

    def _score(self, pairs: Sequence[StatementPair]) -> list[float]:
        cues = {text: examine(text) for pair in pairs for text in (pair.earlier, pair.later)}
        return [
            _probability(
                self._weights,
                change_features(cues[pair.earlier], cues[pair.later], days=pair.days, cosine=pair.cosine),
            )
            for pair in pairs
        ]

    @cached_property
    def _weights(self) -> Mapping[str, float]:
        try:
            return _WEIGHTS.validate_python(json.loads(self._files.read("weights.json")))
        except ModelFileError as error:
            raise ModelCorrupt(
                f"The revision model {self.name} can't be used: {error}. Nothing was loaded. "
                "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
            ) from error


def _probability(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    logit = weights[_BIAS] + sum(weights[name] * value for name, value in features.items())
    return 1 / (1 + math.exp(-logit))
