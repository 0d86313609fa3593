"""Sub-queries of a question. Each rule matches one form of question exactly: a wrong sub-query costs a search."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import STOP_WORDS

MAX_PARTS = 4
_AUX = "did|do|does|is|are|was|were|has|have|had|will|would|can|could|should|am"
_OPENING = (
    r"\W*(?:(?:hey|hi|hello|so|ok|okay|well|and|but|also|please|now|by the way)\b[,!]?\s+)*"
    r"(?:(?:(?:can|could|would|will) you (?:please )?(?:tell|remind) me|do you (?:happen to )?(?:know|remember|recall)"
    r"|(?:please )?(?:tell|remind) me|i (?:wonder|forgot|forget|want to know|don't remember))[,:]?\s+)?"
)
"""Greetings and phrases before the question itself."""
_ABBREVIATED = r"(?:(?<=\b[A-Za-z])|(?<=\b[DMS][rst])|(?<=Mrs)|(?<=Prof)|(?<=vs))\."
_SENTENCE = LazyPattern(rf"(?:[^.?!\n]+|[.!](?=\w)|{_ABBREVIATED})+[.?!]*\s*")
_QUESTION = LazyPattern(
    rf"(?i){_OPENING}(?:(?:who|whom|whose|which|where|why)\b|what\b(?! an?\b)|when(?:'s| (?:{_AUX}))\b"
    rf"|how(?:'s|\ (?:{_AUX}|many|much|often|long|old|far|soon|recently|frequently|come))\b"
    r"|(?:in|at|on|for|to|with|from|by|since|until) (?:what|which|whom|when)\b"
    r"|(?:did|does|is|are|was|were|has|can|could|should|would)\s\w"
    r"|(?:do|have|had|will|may|am)\ (?:i|you|we|they|he|she|it|my|his|her|our|their|the|any|there)\b"
    r"|(?:remind me (?!to\b)|give me|show me|tell me (?!about\b)|list|name|count|compare)\b)|[^?？؟]*[?？؟]"
)
_OPENING_PHRASE = LazyPattern(rf"(?i){_OPENING}")
_WORD = LazyPattern(r"[^\W_]+")
_DEPENDENT = LazyPattern(r"(?i)\b(?:its?|that|this|those|these|each|ones?|there|then|they|them)\b")
_PRONOUN = LazyPattern(r"(?i)\b(?:he|him|his|she|her)\b")
_CLAUSE = LazyPattern(r"(?i),? and (?=(?:(?:in|on|at|by|for) )?(?:who|what|where|when|why|which|how)\b)")
_TWO = LazyPattern(
    r"(?i)\b(?:(?:first|last|earlier|later)[,:] (?=.{3,120} or )|"
    r"(?:days|weeks|months|years|long|time|passed|gap|differences?)\b[^?;,]{0,40}\bbetween )"
)
"""The beginning of a question about two events, which "or" or "and" separates."""
_JOINED = (
    LazyPattern(
        rf"(?i)^how many (?P<one>[\w-]{{2,30}}s) and (?P<other>[\w-]{{2,30}}s) (?:{_AUX}) (?P<rest>.{{3,120}})"
    ),
    LazyPattern(
        rf"(?i)^(?:what|which|where|who)\b[^,]{{0,60}}? (?:{_AUX}) (?P<one>[\w-]{{2,30}}) and (?P<other>[\w-]{{2,30}}) "
        r"(?:both|share|have)\b(?P<rest>.{0,120})"
    ),
)
"""Two things that are counted, or two persons who share something."""
_SEPARATOR = LazyPattern(r"(?i),? (?:or|and) ")


def question_sentences(text: str) -> list[re.Match[str]]:
    """Return the sentences that are questions, with or without a question mark."""
    return [found for found in _SENTENCE.finditer(text) if _QUESTION.match(found[0])]


def decompose(questions: Sequence[str], times: Sequence[str]) -> tuple[str, ...]:
    """Return up to four sub-queries: the questions of a text, the clauses of one, or the two events that it names.

    A part that only names a time is not one.
    """
    parts = questions if len(questions) > 1 else [part for question in questions for part in _divide(question)]
    tidy = {(part := _tidy(each)).casefold(): part for each in parts}
    kept = [part for part in tidy.values() if not any(part in time for time in times)]
    alone = len(kept) == len(tidy) > 1 and all(map(_stands_alone, kept))
    return tuple(_with_name(kept)[:MAX_PARTS]) if alone else ()


def _with_name(parts: Sequence[str]) -> list[str]:
    """Add the name to parts with a pronoun: "what is her job" after "Where does Ana live" is about Ana."""
    names = _names(parts[0])
    added = f" {names[0]}" if len(names) == 1 else ""
    return [part + added if _PRONOUN.search(part) and not _names(part) else part for part in parts]


def _names(part: str) -> list[str]:
    return [word for word in _WORD.findall(part)[1:] if word[0].isupper() and word.lower() not in STOP_WORDS]


def _divide(question: str) -> Sequence[str]:
    bare = _tidy(question.partition("?")[0])
    if len(clauses := _CLAUSE.split(bare)) > 1:
        return clauses
    for form in _JOINED:
        if joined := form.search(bare):
            return [f"{joined[name]} {joined['rest']}" for name in ("one", "other")]
    found = _TWO.search(bare)
    middle = _SEPARATOR.search(bare, found.end()) if found else None
    return (bare[found.end() : middle.start()], bare[middle.end() :]) if found and middle else ()


def _tidy(part: str) -> str:
    return " ".join(_OPENING_PHRASE.sub("", part, count=1).split()).strip(" ,;:.?!")


def _stands_alone(part: str) -> bool:
    """Return True if a part is clear without the others: it has a name, or several words and no pronoun."""
    words = _WORD.findall(part)
    content = [word for word in words if word.lower() not in STOP_WORDS]
    is_name = len(words) == 1 and bool(content) and words[0][0].isupper()
    return is_name or bool(_names(part)) or (bool(content) and len(words) > 1 and _DEPENDENT.search(part) is None)
