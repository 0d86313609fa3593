"""Answering without a model: the best facts in their own words, dated and cited, and said to be just that."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.models import Fact, Hit
from vmemo.reports import Answer, Citation

MOST = 5
"""Facts that an extractive answer quotes."""
CLOSE = 0.6
"""Share of the best fact's score that another must reach to be quoted beside it."""


NO_MODEL = "no language model is configured"
"""Why an answer is extractive with the local engine."""


def answer(query: str, hits: Sequence[Hit], *, why: str = NO_MODEL) -> Answer:
    """The best facts as an answer; beliefs are marked as such, and an empty memory says that it is empty."""
    if not hits:
        text = f"Memory holds nothing about this. (Extractive answer: {why}.)"
        return Answer(query=query, text=text, extractive=True, found=False)
    chosen = [hit.fact for hit in hits[:MOST] if hit.score >= CLOSE * hits[0].score]
    lines = [f"- {_quoted(fact)}" for fact in chosen]
    opening = f"What memory holds closest to this (extractive: {why}, so nothing is inferred):"
    return Answer(
        query=query,
        text="\n".join([opening, *lines]),
        citations=tuple(Citation(fact=fact.id, text=fact.text, mentioned_at=fact.mentioned_at) for fact in chosen),
        facts=tuple(fact for fact in chosen if fact.network not in ("opinion", "observation")),
        opinions=tuple(fact for fact in chosen if fact.network == "opinion"),
        extractive=True,
    )


def _quoted(fact: Fact) -> str:
    kind = f"[{fact.network}] " if fact.network in ("opinion", "observation") else ""
    day = f"{fact.mentioned_at.day} {fact.mentioned_at:%B %Y}"
    return f"{day}: {kind}{fact.text} [{fact.id}]"
