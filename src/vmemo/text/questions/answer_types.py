"""The type by which a question is answered, which may differ from the one by which it is searched. English only."""

from __future__ import annotations

from vmemo.models import QueryType
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.questions.query_types import ADVICE, LIST, ORDINAL, TASTE, TIME_ASKED, UNIT, WORD, question_type

_ORDINAL_ONLY = LazyPattern(rf"\b{ORDINAL}")
_HOW_TO = LazyPattern(
    r"(?:^|[.?!,;:]\s+)(?:so,? |and |but )?how (?:to|do i|can i|could i|should i|do we|can we|should we)\b"
    r"|\bwhat steps (?:can|could|should|do) (?:i|we)\b|\b(?:best|right|proper) way to\b"
)
_WRITING = LazyPattern(
    r"(?:^|[.?!,;:]\s+|\b(?:can|could|would|will) you (?:please )?|\bplease )(?:write|draft|rewrite|translate)\b"
)
_CHOICE = LazyPattern(
    r"\b(?:what|which)\b[^.?!]{0,60}\b(?:would (?:please|suit|fit)|fits?|suits?) (?:him|her|them|me|us|[a-z'-]+)\b"
    r"|\b(?:what|which)\b[^.?!]{0,30}\bgoes (?:well )?with\b"
    r"|\bwhat (?:do|shall) (?:i|we) (?:make|cook|bake|wear|bring|buy|get|order|serve|give|pack|try|pick)\W*$"
)
_HYPOTHETICAL = LazyPattern(r"\b(?:would|might|could|should|will|shall|likely|probably)\b")
_AGE_OR_DELAY = LazyPattern(rf"\bhow (?:old|much (?:older|younger))\b|\bby how (?:many (?:{UNIT})|much time|long)\b")
_DIFFERENCE = LazyPattern(r"\bhow (?:much|many) (?:more|less|fewer)\b[^.?!]{1,120}\bthan\b")
_STATE = (
    "(?:be|was|were|am|is|are|drive|drove|own|owned|use|used|have|had|live|lived|work|worked|rent|rented|stay|plan|"
    "planned|call|study|studied|charge|charged|pay|paid|promise|promised|play|teach|want|cost|go|went|lead|led|run|see)"
)
_CHANGING = "(?:chang|switch|mov|slip|replac|renam|resch|postpon|updat|decid|drag)"
_FORMER_THING = (
    "(?:plans?|budget|deadline|date|prices?|rent|goal|target|ideas?|choice|name|title|address|estimate|version|schedule|"
    "job|employer|boss|manager|home|flat|address|team|school|design|offer|amount|number|size|colou?r|venue|time|rate)"
)
_FORMER_ASKED = LazyPattern(
    r"\b(?:origin|initi)ally\b|\bat first\b|\bto (?:begin|start) with\b|\b(?:formerly|previously)\b"
    r"|\bused to\b|\bdid [\w-]+ use to\b"
    rf"|\b(?:original|initial|former|previous|prior|earlier) (?:[\w-]+ )?{_FORMER_THING}\b"
    rf"|\b{_STATE}\b[^.?!]{{0,60}}?,? before (?:[\w'-]+ ){{1,4}}?{_CHANGING}\w*"
    rf"|\b(?:which|who|what|where|how many|how much)\b[^.?!]{{0,40}}?\b{_STATE}\b[^.?!]{{0,30}} before (?!or after)\w"
)
_JUDGEMENT_START = LazyPattern(r"\W*(?:why|would|could|should|can|may|might|is there|are there)\b")
_COURSE: frozenset[QueryType] = frozenset(("ordering", "summary", "change"))
_STILL_ASKED = LazyPattern(r"\b(?:now|currently|still|these days|today|instead|what became)\b")


def answer_type(question: str, type: QueryType) -> QueryType:
    """Return the type by which a question is answered, given the one by which it is searched.

    A time in a question narrows the search. It is answered as a question about time only if a time is asked for: "Why
    was the gate open on Monday?" is not. Ages are computed, ways to do something are explained, a choice for a person
    is advice, and a preference that was stated is a fact.
    """
    lowered = question.lower().replace("’", "'")
    if _AGE_OR_DELAY.search(lowered) and type not in ("assistant", "preference", *_COURSE):
        return "temporal"
    if type == "temporal" and not _asks_for_time(lowered):
        type = question_type(lowered, timed=False, filtered=False)
    if type == "preference":
        return _preference_type(lowered)
    if type == "multi-hop" and _DIFFERENCE.search(lowered):
        return "count"
    return "preference" if type == "factual" and _CHOICE.search(lowered) else type


def _preference_type(lowered: str) -> QueryType:
    """Return the type of a question about a preference: a stated one is looked up, and only a choice needs advice."""
    if _HOW_TO.search(lowered) or _WRITING.search(lowered):
        return "instruction"
    words = set(WORD.findall(lowered))
    if ADVICE.matches(lowered, words) or not TASTE.matches(lowered, words) or _HYPOTHETICAL.search(lowered):
        return "preference"
    return "multi-hop" if LIST.matches(lowered, words) else "factual"


def _asks_for_time(question: str) -> bool:
    if not TIME_ASKED.matches(question, set(WORD.findall(question))):
        return False
    # "the first lease that I could find" is a time only if one is asked for otherwise.
    plain = _ORDINAL_ONLY.sub(" ", question) if _JUDGEMENT_START.match(question) else question
    return TIME_ASKED.matches(plain, set(WORD.findall(plain)))


def asks_for_former_state(question: str) -> bool:
    """Return True if a question asks for what held before a change, and not for what holds now."""
    lowered = question.lower().replace("’", "'")
    return _FORMER_ASKED.search(lowered) is not None and _STILL_ASKED.search(lowered) is None
