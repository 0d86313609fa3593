"""Estimates if the words of a message hold nothing to remember: thanks, reactions, chat, single requests.

A logistic regression over the packaged reader's output, a few properties of the words, and the text's vector if the
packaged encoder computed it. `training/noise.py` trains it.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vmemo.models.search import Encoding, Reading

PLAIN, OTHER, REPLY = 0.65, 0.5, 0.3
"""Probability from which a user's short statement, a user's other words and the assistant's words are noise. They were
chosen on authors that were kept out; a short statement is the one most often taken for noise."""
SHORT = 40
"""Characters of short words."""
_LEAST = 0.001
"""Least probability by the reader: its certainty beyond this says nothing on other authors' texts."""


class _Weights(NamedTuple):
    numbers: NDArray[np.float64]
    vector: NDArray[np.float64]
    alone: NDArray[np.float64]
    """Of the numbers without a vector."""


@cache
def _weights() -> tuple[str, _Weights]:
    """Return the name of the encoder whose vectors are meant, and the weights."""
    read = json.loads(files("vmemo.retain").joinpath("noise.json").read_text(encoding="utf-8"))
    return read["encoder"], _Weights(*(np.array(read[name], np.float64) for name in _Weights._fields))


def noise_numbers(words: str, reading: Reading, *, by_agent: bool, to_agent: bool) -> list[float]:
    """Return the inputs of the regression without the vector; the last is 1."""
    noise = min(max(reading.noise, _LEAST), 1 - _LEAST)
    logit, length = math.log(noise / (1 - noise)), math.log1p(len(words))
    tags = reading.tags.max(axis=0, initial=0.0).tolist()
    asks, reply, people = "?" in words, float(by_agent), float(not by_agent and not to_agent)
    found = [logit, length, len(words) <= SHORT, asks, words.rstrip().endswith("?"), any(map(str.isdigit, words))]
    of_reply = [reply * each for each in (1, logit, length, asks, *tags[2:4])]
    return [*map(float, found), *tags, *of_reply, people, people * logit, people * length, 1.0]


def least_noise(words: str, *, by_agent: bool) -> float:
    """Return the probability from which words are noise."""
    plain = len(words) <= SHORT and "?" not in words
    return REPLY if by_agent else PLAIN if plain else OTHER


def is_noise(words: str, encoding: Encoding, embedder: str, *, by_agent: bool, to_agent: bool) -> bool:
    """Return True if words hold probably nothing to remember; without a reading of them, False."""
    if (reading := encoding.reading) is None:
        return False
    encoder, weights = _weights()
    numbers = noise_numbers(words, reading, by_agent=by_agent, to_agent=to_agent)
    with_vector = weights.numbers @ numbers + weights.vector @ encoding.vector if embedder == encoder else None
    logit = weights.alone @ numbers if with_vector is None else with_vector
    least = least_noise(words, by_agent=by_agent)
    return bool(logit >= math.log(least / (1 - least)))
