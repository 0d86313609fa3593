"""Weighing and packing: what results leave out or rank lower, weights of scores, and the token budget."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Generic, NamedTuple, Protocol, TypeVar

from vmemo.models import EpisodeId, Fact, FactId, Hit, Message, MessageId, QueryType
from vmemo.models.recalled import MIN_TRUNCATED
from vmemo.models.search import FactOutline
from vmemo.ports import TokenCounter
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.noise import is_bare_question, is_empty_question, is_small_talk
from vmemo.text.tokens import terms

AnyFact = TypeVar("AnyFact", Fact, FactOutline)


class ScoredFact(NamedTuple, Generic[AnyFact]):
    """A loaded candidate. It becomes a hit only if it is returned, because weighing makes many more of them."""

    fact: AnyFact
    score: float
    verbatim: bool = False
    """It is a message in its own words."""

    @property
    def id(self) -> FactId:
        """The fact's id."""
        return self.fact.id

    @property
    def tokens(self) -> int:
        """The tokens of the fact's text."""
        return self.fact.tokens

    def times(self, factor: float) -> ScoredFact[AnyFact]:
        """Return it with its score multiplied by a factor."""
        return ScoredFact(self.fact, self.score * factor, self.verbatim)


def by_score(found: Iterable[ScoredFact[AnyFact]]) -> list[ScoredFact[AnyFact]]:
    """Return candidates by score, best first."""
    return sorted(found, key=lambda each: each.score, reverse=True)


def weigh(
    found: Sequence[ScoredFact[AnyFact]], now: datetime, *, half_life: timedelta | None, importance_weight: float
) -> list[ScoredFact[AnyFact]]:
    """Return candidates by weighted score: a score halves with each half-life since the fact was mentioned."""
    return by_score(
        each.times(_recency(each.fact, now, half_life) * _importance(each.fact, importance_weight)) for each in found
    )


def spread_over_episodes(
    found: Sequence[ScoredFact[AnyFact]], share: float, revised: Set[FactId]
) -> list[ScoredFact[AnyFact]]:
    """Return candidates by score; one keeps a share of it for each better one of its episode but the first.

    What is said in reply to a statement often completes it, so two facts of an episode count in full. Facts
    that replace each other keep their scores, and with them their order.
    """
    seen: Counter[EpisodeId] = Counter()
    weighed: list[ScoredFact[AnyFact]] = []
    for each in found:
        if not each.fact.episodes:
            weighed.append(each)
            continue
        episode = each.fact.episodes[0]
        weighed.append(each if each.id in revised else each.times(share ** max(0, seen[episode] - 1)))
        seen[episode] += 1
    return by_score(weighed)


def _recency(fact: Fact | FactOutline, now: datetime, half_life: timedelta | None) -> float:
    if half_life is None:
        return 1.0
    age = max(now - fact.mentioned_at, timedelta(0))
    return 0.5 ** (age / half_life)


def _importance(fact: Fact | FactOutline, weight: float) -> float:
    return 1.0 - weight + weight * fact.importance


class HasTokens(Protocol):
    """Something with a token count."""

    @property
    def tokens(self) -> int: ...


Item = TypeVar("Item", bound=HasTokens)


def first_fitting(candidates: Sequence[Item], max_tokens: int | None, top_k: int | None) -> Sequence[Item]:
    """Return the first candidates whose tokens fit together, and the next one, which can be truncated."""
    chosen = candidates[:top_k]
    if max_tokens is None:
        return chosen
    used = accumulate(candidate.tokens for candidate in chosen)
    return chosen[: next((place for place, total in enumerate(used, start=1) if total > max_tokens), len(chosen))]


def truncate_last(hits: Sequence[Hit], max_tokens: int | None, count: TokenCounter) -> list[Hit]:
    """Return hits of which all but the last fit; that one is truncated to what is left, or left out."""
    if max_tokens is None or not hits or sum(hit.tokens for hit in hits) <= max_tokens:
        return list(hits)
    *whole, last = hits
    left = max_tokens - sum(hit.tokens for hit in whole)
    truncated = last.truncate(left, count) if left >= MIN_TRUNCATED or not whole else None
    return whole if truncated is None else [*whole, truncated]


REPLY_WEIGHT = 0.8
"""Factor of the scores of the assistant's long replies, unless the question asks what the assistant said."""
LONG_REPLY = 80
"""Tokens from which a reply of the assistant, or a part of one, is long; shorter ones have their full score."""
MORE = 2
"""Times the budget in which others are looked for that take the place of such messages and replies."""
_ASKED = LazyPattern(r"\b(?:asked|wondered|questions?)\b|\b(?:did|does|do) [\w']+ (?:\w+ )?ask\b", re.IGNORECASE)
"""A question about questions."""


def is_left_out(message: Message, question: str, *, with_questions: bool = False) -> bool:
    """Return True for a message that states nothing; questions are left in if the question is about them.

    `with_questions` also leaves in those that name what they are about.
    """
    if message.state == "raw":
        # It was retained to be recalled verbatim.
        return False
    if is_small_talk(message.content):
        return True
    if is_empty_question(message.content):
        return _ASKED.search(question) is None
    return not with_questions and is_bare_question(message.content) and _ASKED.search(question) is None


def facts_for_lines(found: Sequence[ScoredFact[Fact]], question: str) -> list[ScoredFact[Fact]]:
    """Return candidates with each verbatim message replaced by the best one that says the same: a fact drawn from it.

    A message stays if it has words of the question that its facts lack.
    """
    if not any(each.verbatim for each in found):
        return list(found)
    drawn: dict[MessageId, list[ScoredFact[Fact]]] = {}
    for each in found:
        if not each.verbatim:
            for message in each.fact.messages:
                drawn.setdefault(message, []).append(each)
    asked = set(terms(question))
    placed: dict[FactId, ScoredFact[Fact]] = {}
    for each in found:
        facts = drawn.get(MessageId(each.fact.id), ()) if each.verbatim else ()
        said = {term for other in facts for term in terms(other.fact.text)}
        if facts and asked & set(terms(each.fact.text)) <= said:
            best = facts[0]._replace(score=max(each.score, facts[0].score))
            placed.setdefault(best.fact.id, best)
        else:
            placed.setdefault(each.fact.id, each)
    return list(placed.values())


def without_rests(found: Sequence[ScoredFact[AnyFact]]) -> list[ScoredFact[AnyFact]]:
    """Return candidates without what still holds of a former fact that is among them: the former fact says that too."""
    if not any(each.fact.is_rest for each in found):
        return list(found)
    ids = {each.id for each in found}
    return [each for each in found if not (each.fact.is_rest and each.fact.supersedes in ids)]


def weighs_less(fact: Fact | FactOutline, type: QueryType) -> bool:
    """Return True for a long reply of the assistant, or a part of one, unless the question asks what it said."""
    is_reply = type != "assistant" and fact.network == "experience" and fact.engine == "local"
    return is_reply and fact.tokens >= LONG_REPLY


def weigh_replies(found: Sequence[ScoredFact[AnyFact]], type: QueryType) -> list[ScoredFact[AnyFact]]:
    """Return candidates by score, best first, with those of long replies multiplied by their weight."""
    return by_score(each.times(REPLY_WEIGHT) if weighs_less(each.fact, type) else each for each in found)
