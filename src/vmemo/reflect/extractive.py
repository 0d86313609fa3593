"""Answering without a model: the best facts in their own words, dated and cited, and said to be just that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vmemo.models import Fact, Hit
from vmemo.models.results import Answer, Citation
from vmemo.reflect.date_math import dated

MOST = 5
"""Facts that an extractive answer quotes."""
CLOSE = 0.6
"""Share of the best fact's score that another must reach to be quoted beside it."""


NO_MODEL = "no language model is configured"
"""Why an answer is extractive with the local engine."""


def answer(query: str, hits: Sequence[Hit], *, why: str = NO_MODEL, asked: datetime | None = None) -> Answer:
    """The best facts as an answer; beliefs are marked as such, and an empty memory says that it is empty.

    For a question about time, `asked` is its day, from which the distances are told.
    """
    if not hits:
        text = f"Memory holds nothing about this. (Extractive answer: {why}.)"
        return Answer(query=query, text=text, extractive=True, found=False)
    chosen = [hit.fact for hit in hits[:MOST] if hit.score >= CLOSE * hits[0].score]
    lines = [f"- {_quoted(fact, asked)}" for fact in chosen]
    opening = f"What memory holds closest to this (extractive: {why}, so nothing is inferred and no opinion is formed):"
    return Answer(
        query=query,
        text="\n".join([opening, *lines]),
        citations=tuple(map(citation, chosen)),
        facts=of_networks(chosen, "world", "experience"),
        observations=of_networks(chosen, "observation"),
        opinions=of_networks(chosen, "opinion"),
        extractive=True,
    )


def citation(fact: Fact) -> Citation:
    """A fact as an answer cites it."""
    return Citation(fact=fact.id, network=fact.network, text=fact.text, mentioned_at=fact.mentioned_at)


def of_networks(facts: Sequence[Fact], *networks: str) -> tuple[Fact, ...]:
    """Those of the facts that are in some networks."""
    return tuple(fact for fact in facts if fact.network in networks)


def _quoted(fact: Fact, asked: datetime | None) -> str:
    kind = f"[{fact.network}] " if fact.network in ("opinion", "observation") else ""
    day = f"{fact.mentioned_at.day} {fact.mentioned_at:%B %Y}" if asked is None else dated(fact, asked)
    return f"{day}: {kind}{fact.text} [{fact.id}]"
