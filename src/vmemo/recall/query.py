"""The query that the recall pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from vmemo.models import BankId, QuestionTense
from vmemo.models.requests import RecallRequest, ReflectRequest, RetrieveRequest
from vmemo.models.search import Scope

NODES: dict[Literal["low", "mid", "high"], int] = {"low": 100, "mid": 200, "high": 1000}
"""Candidates taken from each channel by budget."""
LEAST_RERANKED = 64


@dataclass(frozen=True, kw_only=True)
class Query:
    """A question, the facts that it may see, and the size of its result."""

    text: str
    scope: Scope
    nodes: int
    """Candidates taken from each channel."""
    max_tokens: int | None = None
    top_k: int | None = None
    recency_half_life: timedelta | None = None
    importance_weight: float = 0.0
    now: datetime | None = None
    """The time of the question, for words such as "last week"; the present by default."""
    explain: bool = False
    reflects: bool = False
    """The hits are evidence of reflect."""
    with_questions: bool = False
    """Also return messages that only ask, which belong to what a person brought up."""
    tense: QuestionTense | None = None
    """The tense of the question that this is a part of: former facts belong to a question about the past."""

    @property
    def reranked(self) -> int:
        """The number of candidates to rerank, at most."""
        return max(LEAST_RERANKED, self.nodes // 2)


def make_query(request: RecallRequest | RetrieveRequest | ReflectRequest, bank: BankId) -> Query:
    """Return the query of a request."""
    budget = "mid" if isinstance(request, RetrieveRequest) else request.budget
    return Query(
        text=request.query,
        scope=_scope(request, bank),
        nodes=budget if isinstance(budget, int) else NODES[budget],
        max_tokens=None if isinstance(request, RetrieveRequest) else request.max_tokens,
        top_k=request.top_k if isinstance(request, RetrieveRequest) else None,
        recency_half_life=request.recency_half_life,
        importance_weight=request.importance_weight,
        now=request.now,
        explain=request.explain,
        reflects=isinstance(request, ReflectRequest),
    )


def _scope(request: RecallRequest | RetrieveRequest | ReflectRequest, bank: BankId) -> Scope:
    return Scope(
        bank=bank,
        networks=frozenset(request.networks),
        tags=frozenset(request.tags),
        tags_match=request.tags_match,
        entities=frozenset(request.entities),
        metadata=request.metadata,
        occurred=request.occurred,
        at_time=request.at_time,
        known_at=request.known_at,
        include_expired=request.include_expired,
    )
