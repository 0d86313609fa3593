"""Reranking: a closer look at the candidates that could still make it into the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from vmemo.errors import RerankFailed, VmemoError
from vmemo.models import Fact, FactId
from vmemo.models.search import TokenVectors
from vmemo.ports import Reranker, Store
from vmemo.recall.fuse import Fused
from vmemo.recall.query import Query

LATE = 1.0
"""What late interaction weighs beside the fused score, whose best is about 1.5."""
CROSS = 1.0
"""What another reranker weighs."""
ONE_THREAD = 1 << 18
"""Multiplications up to which a product is left to one thread."""
MOST_READ = 50
"""Candidates whose texts a reranker is given at most: it takes a model pass for each."""
_INSTEAD = 'Nothing was changed; recall works without it: reranker="none".'


@dataclass(frozen=True)
class Looked:
    """What a reranker thought of the candidates that it looked at; some may have nothing to be compared by."""

    ids: Sequence[FactId] = ()
    scores: Mapping[FactId, float] = field(default_factory=dict[FactId, float])
    weight: float = 0.0

    def and_also(self, more: Looked) -> Looked:
        """Together with a later look."""
        return Looked([*self.ids, *more.ids], {**self.scores, **more.scores}, self.weight)


@dataclass(frozen=True)
class Reranked:
    """Candidates in their new order, and what the reranker thought of those it looked at."""

    candidates: Sequence[Fused]
    scores: Mapping[FactId, float] = field(default_factory=dict[FactId, float])
    looked_at: int = 0


async def by_tokens(query: Query, candidates: Sequence[Fused], asked: TokenVectors, store: Store) -> Looked:
    """Late interaction: for each token of the question its best match among a fact's, added up."""
    ids = [candidate.id for candidate in pool(candidates, query, LATE, query.reranked)]
    stored = await store.token_vectors(query.scope.bank, ids)
    # A few hundred candidates take less time than a hop to another thread and back.
    scores = zip(ids, late_scores(asked, stored), strict=True)
    return Looked(ids, {id: score for id, score in scores if score is not None}, LATE)


async def by_reading(query: Query, candidates: Sequence[Fused], reranker: Reranker, store: Store) -> Looked:
    """Another reranker, given each candidate's text with its date and what was said before it."""
    ids = [candidate.id for candidate in pool(candidates, query, CROSS, min(MOST_READ, query.reranked))]
    loaded = await store.load(query.scope.bank, ids)
    texts = {fact.id: shown(fact) for fact in loaded.facts}
    known = [id for id in ids if id in texts]
    given = await _read(query.text, [texts[id] for id in known], reranker) if known else []
    return Looked(ids, dict(zip(known, given, strict=True)), CROSS)


async def _read(question: str, texts: Sequence[str], reranker: Reranker) -> list[float]:
    try:
        answer = await reranker.rerank(question, texts)
        scores = np.asarray(answer, np.float64)
    except VmemoError:
        raise
    # Anyone's reranker may stand here, so nothing is known about what it raises or returns.
    except Exception as error:
        raise RerankFailed(
            f"The reranker {reranker.name!r} failed on {len(texts)} texts: {error!r}. {_INSTEAD}"
        ) from error
    if scores.shape != (len(texts),) or not np.isfinite(scores).all():
        raise RerankFailed(
            f"The reranker {reranker.name!r} gave something else than one finite number for each of {len(texts)} "
            f"texts. {_INSTEAD}"
        )
    return scores.tolist()


def shown(fact: Fact) -> str:
    """A fact as a reranker reads it."""
    before = f" (after: {fact.context})" if fact.context else ""
    return f"{fact.mentioned_at.day} {fact.mentioned_at:%B %Y}. {fact.text}{before}"


def pool(candidates: Sequence[Fused], query: Query, weight: float, most: int) -> Sequence[Fused]:
    """The candidates worth a look: those that fit, and those that reranking could lift over the last of them."""
    if not candidates:
        return []
    fitting = len(candidates)
    if query.max_tokens is not None:
        used = accumulate(candidate.tokens for candidate in candidates)
        fitting = sum(1 for total in used if total <= query.max_tokens)
    if query.top_k is not None:
        fitting = min(fitting, query.top_k)
    least = candidates[max(0, min(fitting, len(candidates)) - 1)].score - weight
    return [candidate for candidate in candidates[:most] if candidate.score >= least]


def late_scores(query: TokenVectors, documents: Sequence[TokenVectors | None]) -> list[float | None]:
    """Late interaction of a query with documents; None for a document without token vectors."""
    known = [document for document in documents if document is not None and len(document)]
    if not known:
        return [None] * len(documents)
    starts = np.cumsum([0, *map(len, known)])[:-1]
    likeness = _product(np.concatenate(known), np.ascontiguousarray(query.T))
    sums = iter(np.maximum.reduceat(likeness, starts, axis=0).sum(axis=1).tolist())
    return [next(sums) if document is not None and len(document) else None for document in documents]


def _product(rows: TokenVectors, columns: TokenVectors) -> TokenVectors:
    """The matrix product, in parts so small that the library multiplies each at once in this thread.

    Waking its other threads would take longer than the product itself, and far longer while processors are busy.
    """
    size = max(1, ONE_THREAD // max(1, columns.size))
    product = np.empty((len(rows), columns.shape[1]), np.float32)
    for start in range(0, len(rows), size):
        np.matmul(rows[start : start + size], columns, out=product[start : start + size])
    return product


def reordered(candidates: Sequence[Fused], looked: Looked) -> Reranked:
    """Candidates by fused score and normalised reranking score.

    One that was looked at without being comparable counts as an average one; others keep their fused score.
    """
    if not looked.scores:
        return Reranked(candidates)
    known = np.array(list(looked.scores.values()))
    average = float(known.mean())
    ground = average - 2 * float(known.std())
    share = looked.weight / max(float(known.max()) - ground, 1e-6)
    points = dict.fromkeys(looked.ids, share * (average - ground))
    points.update((id, share * max(0.0, score - ground)) for id, score in looked.scores.items())
    lifted = [Fused(id, score + points.get(id, 0.0), tokens) for id, score, tokens in candidates]
    lifted.sort(key=lambda candidate: candidate.score, reverse=True)
    return Reranked(lifted, looked.scores, len(looked.ids))
