"""The tense of a question: about the present, about the past, or for a state that is over. English only."""

from __future__ import annotations

from datetime import datetime

from vmemo.models import Interval, QuestionTense
from vmemo.text.lazy_regex import LazyPattern

_PAST_VERB = r"(?:did|didn't|was|wasn't|were|weren't|had|hadn't)"
_IRREGULAR = (
    "drove|stood|went|came|took|got|gave|made|said|told|sold|bought|ran|won|lost|led|held|kept|wrote|taught|paid|sang|sat"
    "|met|saw|knew|thought|found|left|began|brought|built|caught|chose|drew|ate|fell|flew|grew|heard|rode|sent|spoke|spent"
)
_PAST = LazyPattern(rf"\b{_PAST_VERB}\b|\w'd been\b")
_PRESENT = LazyPattern(
    r"\b(?:is|are|am|do|does|has|have|will|can|should)\b|\w'(?:re|m|ll|ve)\b"
    r"|\b(?:what|who|where|when|how|it|he|she|that|there)'s\b"
)
_PAST_SUBJECT = LazyPattern(
    rf"^(?:and |so )?(?:who|what|which)(?: [\w'-]{{1,30}}){{0,3}}? (?:{_IRREGULAR}|\w{{2,20}}ed)\b"
)
"""A question for the subject of a verb, which has no auxiliary."""
_NOT_HABIT = r"(?<!\bam )(?<!\bare )(?<!\bis )(?<!'m )(?<!'re )(?<!'s )(?<!\bget )(?<!\bgot )(?<!\bgetting )(?<!\bbe )"
_OWNER = r"(?:my|our|his|her|their|the|\w{1,30}'s)"
_FORMER = LazyPattern(
    "|".join(
        (
            rf"{_NOT_HABIT}\bused? to\b",
            r"\b(?:origin|initi)al(?:ly)?\b|\bat first\b|\bin the first place\b|\bto (?:begin|start) with\b",
            r"\b(?:former|previous|prior)(?:ly)?\b|\bback (?:then|when|in|at)\b",
            r"\bin (?:the past|(?:those|the old) days)\b",
            rf"\b{_OWNER} (?:old|ex)\b(?! (?:friend|people|man|woman|town|lady)s?\b)|\bex-\w",
            r"\bhow (?:did|has|have|had)\b.{0,80}\b(?:chang|evolv|develop|shift)(?:ed?)?\b",
            rf"\bwhat(?:'s| has| have| had)? (?:\w{{1,20}} ){{0,4}}changed\b|\bchanges? (?:to|of|in) {_OWNER}\b",
            rf"\b(?:switch|chang|mov)(?:e|ed|ing)? (?:away )?from\b|\bhistory of {_OWNER}\b",
            r"\bover (?:time|the years)\b|\bearlier (?:plan|version|idea|value|date|address|name|job|choice)s?\b",
            r"\bno longer\b.{0,60}\b(?:which|what|who|where)\b|\b(?:which|what|who|where)\b.{0,60}\bno longer\b",
            # These words ask for a former state if the verb is in the past.
            rf"\b{_PAST_VERB}\b.{{0,120}}\b(?:before|until|till|first|once|earlier|up to|instead)\b",
            rf"\b(?:before|until|till|first|once|earlier)\b.{{0,80}}\b{_PAST_VERB}\b",
        )
    )
)


def question_tense(text: str, during: Interval | None, now: datetime) -> QuestionTense:
    """Return the tense of a question about the time `during`."""
    lowered = text.lower().replace("’", "'")
    if _FORMER.search(lowered) is not None:
        return "former"
    if _PAST.search(lowered) is not None:
        return "past"
    # A recurring time, as in "When does the Friday boat leave?", is not over.
    if _PRESENT.search(lowered) is not None:
        return "present"
    over = during is not None and is_over(during, now)
    return "past" if over or _PAST_SUBJECT.search(lowered) is not None else "present"


def is_over(during: Interval, now: datetime) -> bool:
    """Return True if an interval has ended."""
    return during.end is not None and during.end <= now
