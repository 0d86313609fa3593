"""Messages and facts that add nothing, which results leave out, and the assistant's long replies, which weigh less."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vmemo.models import Fact, FactId, Hit, Message, MessageId, QueryType
from vmemo.models.setting_groups import FusionSettings
from vmemo.text.bare_questions import is_bare_question, is_empty_question
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.noise import is_small_talk
from vmemo.text.tokens import terms

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


def facts_for_lines(hits: Sequence[Hit], question: str) -> list[Hit]:
    """Return hits with each verbatim message replaced by the best of them that says the same: a fact drawn from it.

    A message stays if it has words of the question that its facts lack.
    """
    if not any(hit.verbatim for hit in hits):
        return list(hits)
    drawn: dict[MessageId, list[Hit]] = {}
    for hit in hits:
        if not hit.verbatim:
            for message in hit.fact.messages:
                drawn.setdefault(message, []).append(hit)
    asked = set(terms(question))
    placed: dict[FactId, Hit] = {}
    for hit in hits:
        facts = drawn.get(MessageId(hit.fact.id), ()) if hit.verbatim else ()
        said = {term for each in facts for term in terms(each.fact.text)}
        if facts and asked & set(terms(hit.fact.text)) <= said:
            best = facts[0].model_copy(update={"score": max(hit.score, facts[0].score)})
            placed.setdefault(best.fact.id, best)
        else:
            placed.setdefault(hit.fact.id, hit)
    return list(placed.values())


def without_rests(hits: Sequence[Hit]) -> list[Hit]:
    """Return hits without what still holds of a former fact that is among them: the former fact says that too."""
    ids = {hit.id for hit in hits}
    return [hit for hit in hits if not (hit.fact.is_rest and hit.fact.supersedes in ids)]


def weighs_less(fact: Fact, type: QueryType, settings: FusionSettings) -> bool:
    """Return True for a long reply of the assistant, or a part of one, unless the question asks what it said."""
    if settings.reply == 1 or type == "assistant":
        return False
    return fact.network == "experience" and fact.engine == "local" and fact.tokens >= settings.reply_tokens


def weigh_replies(hits: Sequence[Hit], type: QueryType, settings: FusionSettings) -> list[Hit]:
    """Return hits by score, best first, with those of long replies multiplied by their weight."""
    weighed = [
        hit.model_copy(update={"score": hit.score * settings.reply}) if weighs_less(hit.fact, type, settings) else hit
        for hit in hits
    ]
    return sorted(weighed, key=lambda hit: hit.score, reverse=True)
