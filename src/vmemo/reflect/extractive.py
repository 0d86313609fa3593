"""Extractive answers: the best facts, quoted with dates and citations, without an LLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from vmemo.models import Fact, Hit, QueryType
from vmemo.models.results import Answer, Citation
from vmemo.reflect.date_math import describe_times

MAX_FACTS = 5
MIN_SCORE_SHARE = 0.6
"""Share of the best fact's score that a fact must reach to be quoted."""
MIN_GATHERED_SHARE = 0.25
"""The same for facts that are quoted in the order in which they were said, which should be complete."""
MAX_QUOTED_TOKENS = 576
"""Tokens of those facts: twelve short lines, or six longer ones."""
NO_LLM = "no language model is configured"
_CLOSEST = "The closest facts in memory"
_SAID_IN_ORDER = "What was said about this, in the order in which it was said"
IN_ORDER: Mapping[QueryType, str] = {
    "ordering": _SAID_IN_ORDER,
    "summary": _SAID_IN_ORDER,
    "change": _SAID_IN_ORDER,
    "contradiction": f"{_SAID_IN_ORDER}; statements may contradict each other",
}
"""Headings by the types of questions whose facts are quoted in the order in which they were said."""


def extractive_answer(
    query: str,
    hits: Sequence[Hit],
    *,
    reason: str = NO_LLM,
    asked_at: datetime | None = None,
    type: QueryType = "general",
) -> Answer:
    """Return the best facts as an answer that gives the `reason` for quoting them, or all facts of a type in order.

    With `asked_at`, for questions about time, each fact shows its distance from that date.
    """
    if not hits:
        text = f"Memory holds nothing about this. (Extractive answer: {reason}.)"
        return Answer(query=query, text=text, extractive=True, found=False)
    best = [hit for hit in hits[:MAX_FACTS] if hit.score >= MIN_SCORE_SHARE * hits[0].score]
    quoted = hits if type in IN_ORDER else best
    facts = [hit.fact for hit in quoted]
    heading = f"{IN_ORDER.get(type, _CLOSEST)} (extractive: {reason}, so nothing is inferred and no opinion is formed):"
    marks = (f"{n}." if type == "ordering" else "-" for n in range(1, len(quoted) + 1))
    lines = (f"{mark} {_quote(hit, asked_at)}" for mark, hit in zip(marks, quoted, strict=True))
    return Answer(
        query=query,
        text="\n".join([heading, *lines]),
        citations=tuple(map(citation_of, facts)),
        facts=facts_in(facts, "world", "experience"),
        observations=facts_in(facts, "observation"),
        opinions=facts_in(facts, "opinion"),
        extractive=True,
    )


def citation_of(fact: Fact) -> Citation:
    """Return the citation of a fact."""
    return Citation(fact=fact.id, network=fact.network, text=fact.text, mentioned_at=fact.mentioned_at)


def facts_in(facts: Sequence[Fact], *networks: str) -> tuple[Fact, ...]:
    """Return the facts of these networks."""
    return tuple(fact for fact in facts if fact.network in networks)


def _quote(hit: Hit, asked_at: datetime | None) -> str:
    fact, note = hit.fact, f" ({hit.status_note})" if hit.status_note else ""
    network = f"[{fact.network}] " if fact.network in ("opinion", "observation") else ""
    day = f"{fact.mentioned_at.day} {fact.mentioned_at:%B %Y}"
    return f"{day if asked_at is None else describe_times(fact, asked_at)}{note}: {network}{fact.text} [{fact.id}]"
