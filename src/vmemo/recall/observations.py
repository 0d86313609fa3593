"""The place of observations in a recall: a share of the budget of their own, so that they never displace facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from vmemo.models import Hit, Network
from vmemo.recall.query import Query
from vmemo.text.questions import asks_for_profile

RECALL_SHARE = 0.2
"""Share of the budget that observations may take if the question asks for a profile or a summary."""
REFLECT_SHARE = 0.05
"""Their share in questions to reflect, whatever they ask for."""
_OBSERVATIONS: frozenset[Network] = frozenset(("observation",))
_FACTS: frozenset[Network] = frozenset(("world", "experience"))


def observation_query(query: Query) -> Query | None:
    """Return the query for observations within their share; None if they have none in this recall.

    They have one if the question asks for a profile or a summary, and in reflect. A query for observations without
    facts has no share to keep: its whole budget is theirs.
    """
    if _is_unlimited(query) or not _networks(query) >= _OBSERVATIONS:
        return None
    share = REFLECT_SHARE if query.reflects else 0.0
    if asks_for_profile(query.text):
        share = max(share, RECALL_SHARE)
    tokens = None if query.max_tokens is None else int(share * query.max_tokens)
    count = None if query.top_k is None else int(share * query.top_k)
    if not share or tokens == 0 or count == 0:
        return None
    # A profile that was updated or lost its support is no state of its own: the facts behind it are former ones.
    scope = replace(query.scope, networks=_OBSERVATIONS, former=None)
    return replace(query, scope=scope, max_tokens=tokens, top_k=count)


def beside_observations(query: Query, observed: Sequence[Hit]) -> Query:
    """Return the query for everything else, in what the observations leave of the budget."""
    if _is_unlimited(query):
        return query
    left = None if query.max_tokens is None else query.max_tokens - sum(hit.tokens for hit in observed)
    count = None if query.top_k is None else query.top_k - len(observed)
    scope = replace(query.scope, networks=_networks(query) - _OBSERVATIONS)
    return replace(query, scope=scope, max_tokens=left, top_k=count)


def _networks(query: Query) -> frozenset[Network]:
    return query.scope.networks or frozenset(get_args(Network))


def _is_unlimited(query: Query) -> bool:
    """Return True if the query names networks, but none of facts."""
    return bool(query.scope.networks) and query.scope.networks.isdisjoint(_FACTS)
