"""Judgements of a recall: does a question ask for advice, and do the facts that were found hold the answer.

Both are logistic regressions in the vector space of the packaged encoder; with another embedder there are none. The
first also steers a request for advice towards constraints: allergies, diets, fears, budgets, other people's limits.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vmemo.errors import ModelCorrupt
from vmemo.models.search import Encoding, Vector
from vmemo.ports import BankReader, Embedder
from vmemo.recall.fuse import token_matches
from vmemo.recall.rank import Candidates
from vmemo.text.tokens import terms
from vmemo_models import ANSWERABLE, ModelFileError

ALIGNED = 8
"""Best candidates whose tokens are aligned with those of the question."""
READ = 5
"""Best facts in which the question's terms are looked up."""
STEERING = 0.75
"""Length of the direction of constraints that is added to the vector of a question for advice."""
LEAST_ADVICE = 0.1
"""Probability from which a question counts as one for advice: of two held-out authors all that ask for it, and .04 of
the others."""
SHARPNESS = 8.0
SIGNALS = ("asks", "aligned", "unaligned", "worst", "cosine", "cosine_of_three", "terms", "terms_of_one")
"""The numbers from which `answerable` is computed, in the order of its weights."""


class AnswerWeights(NamedTuple):
    """Linear models; the last number of each is its bias."""

    advice: NDArray[np.float64]
    """Of a question's vector: it asks for advice, a plan or a choice."""
    constraint: NDArray[np.float64]
    """Of a fact's vector: it is a constraint that bears on advice."""
    asks: NDArray[np.float64]
    """Of a question's vector: questions of this kind are answered by what people say."""
    answerable: NDArray[np.float64]
    """Of the signals: the facts hold the answer."""
    related: NDArray[np.float64]
    """Of the signals without the first: the facts have to do with the question."""


class AnswerEstimate(NamedTuple):
    """The judgement of the facts that a recall found."""

    answerable: float
    """The probability that they hold the answer."""
    related: float
    """The probability that they are about the question at all."""
    lead: float
    """Similarity with the tokens of the question by which the best aligned one leads the second."""
    signals: tuple[float, ...]


@cache
def _weights() -> AnswerWeights:
    try:
        with np.load(io.BytesIO(ANSWERABLE.read("weights.npz"))) as arrays:
            return AnswerWeights(*(arrays[name].astype(np.float64) for name in AnswerWeights._fields))
    except ModelFileError as error:
        raise ModelCorrupt(
            f"The model {ANSWERABLE.name} can't be used: {error}. Nothing was loaded. "
            "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
        ) from error


def answer_weights(embedder: Embedder) -> AnswerWeights | None:
    """Return the packaged models, or None if they are not for this embedder."""
    return _weights() if embedder.name == ANSWERABLE.encoder else None


def constraint_direction(weights: AnswerWeights) -> Vector:
    """Return the unit vector to which facts are near that are constraints."""
    return _unit(weights.constraint[:-1])


def towards_constraints(question: Vector, embedder: Embedder) -> Vector | None:
    """Return the vector of a question for advice moved towards constraints; None for other questions."""
    weights = answer_weights(embedder)
    if weights is None or _probability(weights.advice, question) < LEAST_ADVICE:
        return None
    return _unit(question + STEERING * constraint_direction(weights))


class AnswerEvidence(NamedTuple):
    """The best candidates of a bank as a judgement needs them, the best first."""

    any_found: bool
    aligned: NDArray[np.float64]
    """For each of the best facts with token vectors, the similarity of each token of the question to its best match."""
    texts: Sequence[str]
    cosines: Sequence[float]


def answer_evidence(
    question: Encoding, found: Candidates, texts: Mapping[int, str], reader: BankReader, embedder: Embedder
) -> AnswerEvidence:
    """Read what a judgement of the best candidates needs beside the `texts` of loaded facts; nothing without models."""
    best = found.ordered.numbers[:ALIGNED]
    semantic = [each.ranking.scores[:3].tolist() for each in found.rankings if each.channel == "semantic"]
    cosines: list[float] = semantic[0] if semantic else []
    if answer_weights(embedder) is None or question.tokens is None:
        return AnswerEvidence(bool(len(best)), np.zeros((0, 0)), (), cosines)
    numbers = best[best > 0].tolist()
    compared = {number: place for place, number in enumerate(found.late.numbers[: len(found.late.matches)])}
    if numbers and compared.keys() >= set(numbers):
        matches = found.late.matches[[compared[number] for number in numbers]]
    else:
        matches = token_matches(question.tokens, reader.token_vectors(numbers))
    lengths = np.maximum(np.linalg.norm(question.tokens, axis=1), 1e-9)
    aligned = (matches[~np.isnan(matches).any(axis=1)] / lengths).astype(np.float64)
    unread = [number for number in numbers[:READ] if number not in texts]
    if unread:
        texts = {**texts, **{number: fact.text for number, fact in reader.load(unread).facts.items()}}
    read = [texts[number] for number in numbers[:READ] if number in texts] if len(aligned) else []
    return AnswerEvidence(bool(len(best)), aligned, read, cosines)


def judge(question: Encoding, text: str, evidence: AnswerEvidence, embedder: Embedder) -> AnswerEstimate | None:
    """Return the judgement of the best candidates; None without the packaged models or token vectors."""
    weights = answer_weights(embedder)
    if weights is None or question.tokens is None:
        return None
    if not len(evidence.aligned):
        return None if evidence.any_found else AnswerEstimate(0.0, 0.0, 0.0, ())
    similarities, cosines = evidence.aligned, evidence.cosines
    lengths = np.linalg.norm(question.tokens, axis=1)
    share = lengths / lengths.sum()
    fits = similarities @ share
    best = similarities[int(fits.argmax())]
    second, first = np.sort(fits)[-2:] if len(fits) > 1 else (0.0, 0.0)
    heavy = share > 0.5 / len(share)
    values = (
        question.vector @ weights.asks[:-1] + weights.asks[-1],
        share @ similarities.max(0),
        np.log(share @ np.exp(-SHARPNESS * best)),
        best[heavy].min(),
        cosines[0] if cosines else 0.0,
        np.mean(cosines) if cosines else 0.0,
        *_shared_terms(text, evidence.texts),
    )
    signals = tuple(map(float, values))
    return AnswerEstimate(
        _probability(weights.answerable, signals),
        _probability(weights.related, signals[1:]),
        float(first - second),
        signals,
    )


def _shared_terms(question: str, texts: Sequence[str]) -> tuple[float, float]:
    """Return the shares of the question's terms that all texts have together, and that one of them has."""
    asked, said = set(terms(question)), [set(terms(text)) for text in texts]
    if not asked or not said:
        return 0.0, 0.0
    return len(asked.intersection(set[str]().union(*said))) / len(asked), max(len(asked & s) for s in said) / len(asked)


def _probability(weights: NDArray[np.float64], values: Sequence[float] | NDArray[np.float32]) -> float:
    logit = float(np.dot(weights[:-1], np.asarray(values, np.float64)) + weights[-1])
    return float(1 / (1 + np.exp(-np.clip(logit, -30, 30))))


def _unit(vector: NDArray[np.float64] | NDArray[np.float32]) -> Vector:
    return (vector / max(float(np.linalg.norm(vector)), 1e-9)).astype(np.float32)
