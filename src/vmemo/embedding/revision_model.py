"""The packaged revision model: a logistic regression over features of two statements."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from operator import mul
from typing import NamedTuple

from pydantic import TypeAdapter

from vmemo.errors import ModelCorrupt
from vmemo.models.search import StatementPair
from vmemo.text.change_features import BOTH, EARLIER, LATER, StatementCues, examine, of_both
from vmemo_models import ModelFileError, RevisionFiles

_WEIGHTS = TypeAdapter(dict[str, float])
_BIAS = "bias"
MAX_EXAMINED = 8192
"""Statements whose properties stay in memory, about 1.5 kB each."""
MAX_SUMS = 1024
"""Sets of cues whose weights stay in memory: most statements share theirs with others."""


class _Examined(NamedTuple):
    """A statement's properties, and the sums of the weights of those that do not depend on the other statement."""

    cues: StatementCues
    as_earlier: float
    as_later: float


class PackagedRevisionModel:
    """Implements the RevisionModel port with a packaged model, loaded at first use. Threads may share it."""

    def __init__(self, files: RevisionFiles) -> None:
        self._files = files
        # A statement is compared with many others, in its own batch and in later ones.
        self._examined = lru_cache(maxsize=MAX_EXAMINED)(self._examine)
        self._sums = lru_cache(maxsize=MAX_SUMS)(self._sums_of_weights)

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
        bias, weights = self._weights[_BIAS], [self._weights[name] for name in BOTH]
        scores: list[float] = []
        for pair in pairs:
            earlier, later = self._examined(pair.earlier), self._examined(pair.later)
            both = of_both(earlier.cues, later.cues, days=pair.days, cosine=pair.cosine)
            logit = bias + earlier.as_earlier + later.as_later + sum(map(mul, weights, both))
            scores.append(1 / (1 + math.exp(-logit)))
        return scores

    def _examine(self, text: str) -> _Examined:
        cues = examine(text)
        return _Examined(cues, *self._sums(cues.cues))

    def _sums_of_weights(self, cues: frozenset[str]) -> tuple[float, float]:
        """Return the sums of the weights of cues, as those of the earlier statement and of the later one."""
        # The sum does not depend on the order of the set.
        earlier, later = (math.fsum(of[cue] for cue in cues if cue in of) for of in self._weights_of_cues)
        return earlier, later

    @cached_property
    def _weights_of_cues(self) -> tuple[dict[str, float], dict[str, float]]:
        """The weights of cues of the earlier statement, and of the later one."""
        weights = self._weights
        return {cue: weights[f"earlier {cue}"] for cue in EARLIER}, {cue: weights[f"later {cue}"] for cue in LATER}

    @cached_property
    def _weights(self) -> Mapping[str, float]:
        try:
            return _WEIGHTS.validate_python(json.loads(self._files.read("weights.json")))
        except ModelFileError as error:
            raise ModelCorrupt(
                f"The revision model {self.name} can't be used: {error}. Nothing was loaded. "
                "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
            ) from error
