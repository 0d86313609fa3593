"""A recall in progress, for tests of its stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from vmemo.models import BankId, Interval, QueryType
from vmemo.models.requests import RecallRequest
from vmemo.models.search import Encoding, Scope, StageTimer, StoredTokens, TokenVectors
from vmemo.models.settings import Settings
from vmemo.ports import Store
from vmemo.recall.fuse import token_matches
from vmemo.recall.run import RecallRun
from vmemo.settings import build
from vmemo.text.questions import QueryAnalysis

BANK = BankId("bank")
QUESTION = Encoding(np.ones(2, np.float32))


def a_run(  # noqa: PLR0913 - each is a part of a recall
    *,
    settings: Settings | None = None,
    store: object = None,
    scope: Scope | None = None,
    type: QueryType = "general",
    parts: Sequence[str] = (),
    encodings: Sequence[Encoding] = (QUESTION,),
    during: Interval | None = None,
    nodes: int = 300,
    max_tokens: int | None = None,
    top_k: int | None = None,
) -> RecallRun:
    """Return a recall of the question "Which?" before its search."""
    context = build(":memory:", llm=None, embedder=None, reranker=None, settings=settings)
    return RecallRun(
        request=RecallRequest(query="Which?"),
        context=context if store is None else replace(context, store=cast("Store", store)),
        analysis=QueryAnalysis(type=type, during=during, parts=tuple(parts)),
        timer=StageTimer(),
        encodings=encodings,
        during=during,
        scope=scope or Scope(bank=BANK),
        nodes=nodes,
        max_tokens=max_tokens,
        top_k=top_k,
    )


def late_interaction(question: TokenVectors, texts: Sequence[TokenVectors | None]) -> NDArray[np.float64]:
    """Return the sum of the best matches of the question's tokens for each text."""
    known = [None if text is None else StoredTokens(text, np.ones(len(text), np.float32)) for text in texts]
    return token_matches(question, known).sum(axis=1).astype(np.float64)
