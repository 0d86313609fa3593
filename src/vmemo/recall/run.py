"""One recall in progress: its request, what its stages have computed, and the share of observations in the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from vmemo.models import Channel, Hit, Interval, Network, utc_now
from vmemo.models.requests import RecallRequest, ReflectRequest, RetrieveRequest
from vmemo.models.search import Encoding, Scope, StageTimer
from vmemo.ports import Context
from vmemo.recall.llm_time_resolver import LLMResolvedTime
from vmemo.text.questions import QueryAnalysis, asks_for_profile

# Chosen on conversations of two authors whom the encoder was not trained on.
SUFFICIENT = 0.5
"""Share of the best score that a hit of a precise recall needs at least."""
RELEVANT = 0.38
"""That of a context, which may show more than an answer needs."""
RecallQuery: TypeAlias = RecallRequest | RetrieveRequest | ReflectRequest
"""The requests that search: the caller's question, filters, weights and limits."""
NODES: Mapping[Literal["low", "mid", "high"], int] = {"low": 100, "mid": 200, "high": 1000}
"""Candidates taken from each channel by budget."""
LEAST_RERANKED = 64
RECALL_SHARE = 0.2
"""Share of the budget that observations may take if the question asks for a profile or a summary."""
REFLECT_SHARE = 0.05
"""Their share in questions to reflect, whatever they ask for."""
_FACTS: frozenset[Network] = frozenset(("world", "experience"))


def nodes_of(request: RecallQuery) -> int:
    """Return the number of candidates that a request takes from each channel."""
    budget = "mid" if isinstance(request, RetrieveRequest) else request.budget
    return budget if isinstance(budget, int) else NODES[budget]


@dataclass(frozen=True, kw_only=True)
class RecallRun:
    """The request, the analysis and the encodings of its question, the facts that it may see, and its limits."""

    request: RecallQuery
    context: Context
    analysis: QueryAnalysis
    timer: StageTimer
    encodings: Sequence[Encoding]
    during: Interval | None
    scope: Scope
    nodes: int
    max_tokens: int | None
    top_k: int | None
    resolved: LLMResolvedTime | None = None
    share: float = SUFFICIENT
    """Share of the best score that a hit needs at least, if the recall is precise."""
    banks: int = 1
    """Banks that share the budget."""
    with_questions: bool = False
    """Also return messages that only ask, which belong to what a person brought up."""

    @property
    def text(self) -> str:
        return self.request.query

    @property
    def question(self) -> Encoding:
        return self.encodings[0]

    @property
    def now(self) -> datetime:
        return self.request.now or utc_now()

    @property
    def channels(self) -> AbstractSet[Channel]:
        return self.context.settings.channels

    @property
    def weights(self) -> Mapping[Channel, float]:
        settings = self.context.settings
        return {**settings.channel_weights, **settings.channel_weights_by_type.get(self.analysis.type, {})}

    @property
    def reranked(self) -> int:
        """The number of candidates to rerank, at most."""
        return max(LEAST_RERANKED, self.nodes // 2)


def for_observations(run: RecallRun) -> RecallRun | None:
    """Return the search for observations within their share of the budget; None if they have none in this recall.

    They have one if the question asks for a profile or a summary, and in reflect, so that they never displace facts. A
    request for observations without facts has no share to keep: its whole budget is theirs.
    """
    if _is_unlimited(run) or "observation" not in _networks(run):
        return None
    share = REFLECT_SHARE if isinstance(run.request, ReflectRequest) else 0.0
    if asks_for_profile(run.text):
        share = max(share, RECALL_SHARE)
    share /= run.banks
    tokens = None if run.max_tokens is None else int(share * run.max_tokens)
    count = None if run.top_k is None else int(share * run.top_k)
    if not share or tokens == 0 or count == 0:
        return None
    # A profile that was updated or lost its support is no state of its own: the facts behind it are former ones.
    scope = run.scope.replace(networks=("observation",), former=None)
    return replace(run, scope=scope, max_tokens=tokens, top_k=count)


def beside_observations(run: RecallRun, observed: Sequence[Hit]) -> RecallRun:
    """Return the search for everything else, in what the observations leave of the budget."""
    if _is_unlimited(run):
        return run
    left = None if run.max_tokens is None else run.max_tokens - sum(hit.tokens for hit in observed)
    count = None if run.top_k is None else run.top_k - len(observed)
    others = tuple(network for network in _networks(run) if network != "observation")
    return replace(run, scope=run.scope.replace(networks=others), max_tokens=left, top_k=count)


def _networks(run: RecallRun) -> tuple[Network, ...]:
    return run.scope.networks or get_args(Network)


def _is_unlimited(run: RecallRun) -> bool:
    """Return True if the request names networks, but none of facts."""
    return bool(run.scope.networks) and _FACTS.isdisjoint(run.scope.networks)
