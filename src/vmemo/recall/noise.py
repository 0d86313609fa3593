"""Messages and facts that add nothing, which results leave out, and the assistant's long replies, which weigh less."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vmemo.models import Fact, FactId, Message, MessageId, QueryType
from vmemo.models.search import FactOutline
from vmemo.recall.budget import AnyFact, ScoredFact, by_score
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.noise import is_bare_question, is_empty_question, is_small_talk
from vmemo.text.tokens import terms

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
