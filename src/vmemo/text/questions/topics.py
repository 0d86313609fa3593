"""The topic of a request for an order, a summary or a number, without the words of the request. English only."""

from __future__ import annotations

import re

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import STOP_WORDS

MAX_ASPECTS = 3
MAX_LISTED = 6
"""Items of a list that are searched for one by one."""
_SAY = (
    r"(?:br(?:ing|ought|inging) up|mention(?:ed|ing|s)?|discuss(?:ed|ing)?|talk(?:ed|ing)? about|cover(?:ed|ing)?|"
    r"rais(?:e|ed|ing)|ask(?:ed|ing)?(?: you)? about|t(?:ell|old) you about|introduc(?:e|ed|ing)|describ(?:e|ed|ing)|"
    r"shar(?:e|ed|ing)|address(?:ed|ing)?|touch(?:ed|ing)? (?:up)?on|spoke about|refer(?:red)? to)"
)
_NOUN = r"(?:summary|overview|recap|rundown|synopsis|outline|timeline|chronology|account|picture)"
_TALKS = r"(?:conversations?|chats?|sessions?|discussions?|messages?|exchanges?|talks?)"
_WHO = r"(?:i|we|you|he|she|they)(?:'ve|'d| have| had| first)?"
_REQUEST = LazyPattern(
    r"\b(?:mention|name|list|give|use|include)\b[^.?!]{0,20}\b(?:only|exactly|just|no more than)\b[^.?!]{0,60}"
    r"|\b(?:can|could|would|will) you (?:please )?|\bi(?:'d| would) like(?: you)? (?:to )?|\bplease\b"
    r"|\b(?:list|give|tell|show|walk|take|provide|put|sum|bring|catch|write|outline|describe|trace|lay out|recount|"
    r"reconstruct|arrange|sort|rank|summari[sz]e|recap|review|trace)(?: (?:me|us))?(?: (?:with|through|up))?"
    r"(?: (?:to speed )?on)?\b(?! of\b)"
    rf"|\b(?:(?:a|an|the) )?(?:(?:brief|short|quick|full|complete|concise|comprehensive|detailed|overall|thorough|"
    rf"general|high-level|clear) ){{0,2}}{_NOUN}\b(?: (?:of|on|about|for))?"
    r"|\b(?:in )?(?:(?:what|which|the|chronological) ){1,3}(?:order|sequence)\b(?: (?:in which|that|of))?|\bin order\b"
    r"|\bfrom (?:first|earliest|oldest) to (?:last|latest|newest)\b|\bchronological(?:ly)?\b"
    rf"|\b(?:did|do|have|had) {_WHO} (?:first )?{_SAY}\b|\b{_WHO} (?:first )?{_SAY}\b"
    rf"|\b(?:across|throughout|over|during|in|from) (?:all )?(?:of )?(?:our|my|the|these|different|several|past|"
    rf"previous) (?:\w+ )?{_TALKS}\b|\b(?:so far|over time|up to now|until now|to date)\b"
    r"|\b(?:the )?(?:different|various|several|main|key) (?:aspects|parts|topics|things|points|elements|areas|issues|"
    r"concerns|subjects) (?:of|about|related to|regarding|concerning|around|in|with|for)\b"
    r"|\bhow (?:ha(?:s|ve|d)|did|do(?:es)?)\b|\b(?:changed?|evolved?|shift(?:ed)?)\b"
    r"|\bhow (?:many|much)(?: (?:different|distinct|separate|new|more|total|time|money))?\b|\bin total\b|\baltogether\b"
    r"|\b(?:the )?(?:total )?(?:number|amount|sum) of\b|\boverall\b|\ball told\b|\bcombined\b"
    rf"|\bhow\b|\bwhat {_WHO} (?:learned|learnt|know|said|did)(?: about)?\b",
    re.IGNORECASE,
)
_ASPECTS = LazyPattern(
    r"[,;]? (?:including|covering|such as|especially|with a focus on|focus(?:ing|ed) on) ", re.IGNORECASE
)
_LISTED = LazyPattern(r":\s+([^:]{3,600})$")
"""The items of "Put these in order: the flood, the fair, the launch"."""
_SEPARATOR = LazyPattern(r",? and |, ", re.IGNORECASE)
_WORD = LazyPattern(r"[^\W_]+")


def topics(question: str) -> tuple[str, ...]:
    """Return the topic of a request, and one query for each aspect that it lists: "including costs and dates".

    If it lists the items themselves, they are the queries.
    """
    asked = question.partition("?")[0]
    if listed := _LISTED.search(asked):
        items = [item for each in _SEPARATOR.split(listed[1]) if _has_content(item := each.strip(" ,;.!"))]
        return tuple(items[:MAX_LISTED]) if len(items) > 1 else ()
    listing = _ASPECTS.search(asked)
    topic = _plain(asked[: listing.start()] if listing else asked)
    if not _has_content(topic):
        return ()
    aspects = [_plain(each) for each in _SEPARATOR.split(asked[listing.end() :])] if listing else []
    return (topic, *(f"{topic}: {each}" for each in aspects[:MAX_ASPECTS] if _has_content(each)))


def _plain(text: str) -> str:
    return " ".join(_REQUEST.sub(" ", text).split()).strip(" ,;:.?!")


def _has_content(text: str) -> bool:
    return any(word.lower() not in STOP_WORDS for word in _WORD.findall(text))
