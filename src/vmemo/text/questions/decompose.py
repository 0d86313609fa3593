"""The questions of a text, and the searches they fall into: alternatives, ends of a span, clauses, people, chains.

Each rule knows one shape of question and gives nothing when it is not met exactly: a wrong split costs a search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import STOP_WORDS

MAX_PARTS = 4
AUX = "did|do|does|is|are|was|were|has|have|had|will|would|can|could|should|am"
_OPENING = (
    r"\W*(?:(?:hey|hi|hello|so|ok|okay|well|and|but|also|please|sorry|now|by the way|btw)\b[,!]?\s+)*"
    r"(?:(?:(?:can|could|would|will) you (?:please )?(?:tell|remind) me|do you (?:happen to )?(?:know|remember|recall)"
    r"|(?:please )?(?:tell|remind) me|i(?:'m| am)? (?:wonder|wondering|forgot|forget|want to know|don't remember)"
    r"|i(?:'d| would) like to know)[,:]?\s+)?"
)
"""What people say before they come to the question."""

_Rule: TypeAlias = Callable[[str], Iterable[str]]
_NAME = r"(?-i:[^\W\d_a-z][\w-]*)"
_OWNER = rf"(?:my|his|her|their|our|{_NAME}'s)"
_PERSON = rf"(?:(?:my|his|her|their|our|your) [\w-]+|{_NAME}(?: {_NAME})?)"
_RELATION = (
    r"(?:(?:best|older|younger|elder|new|old|former|late|ex|twin|half)[ -])?(?:(?:grand|god|step)?(?:mother|father|"
    r"son|daughter|parents?|child)|mom|mum|dad|sister|brother|sibling|kid|husband|wife|partner|spouse|boyfriend|"
    r"girlfriend|fianc(?:é|e)e?|uncle|aunt|cousin|nephew|niece|grand(?:ma|pa)|friend|roommate|flatmate|neighbou?r|boss|"
    r"manager|colleague|co-?worker|teacher|coach|mentor|doctor|dentist|vet|therapist|trainer|landlord|lawyer|employer|"
    r"dog|cat|puppy|kitten|horse|pet|team|company|school|band)(?:-in-law)?"
)
_ATTRIBUTE = "name|age|colou?r|title|rest|end|start|beginning|date|kind|type|sort|size|number|address|lot|picture|photo"


def _compiled(pattern: str) -> LazyPattern:
    return LazyPattern(pattern, re.IGNORECASE)


_ABBREVIATED = r"(?:(?<=\b[A-Za-z])|(?<=\b[DMS][rst])|(?<=Mrs)|(?<=Prof)|(?<=vs))\."
_SENTENCE = LazyPattern(rf"(?:[^.?!\n]+|[.!](?=\w)|{_ABBREVIATED})+[.?!]*\s*")
_MARK = LazyPattern("[?？؟]")
_HEAD = _compiled(
    rf"{_OPENING}(?:(?:who|whom|whose|which|where|why)\b|what\b(?! an?\b)|whats\b|when(?:'s| (?:{AUX}))\b"
    rf"|how(?:'s|\ (?:{AUX}|many|much|often|long|old|far|soon|recently|frequently|big|tall|well|come))\b"
    r"|(?:in|at|on|for|to|with|from|by|since|until) (?:what|which|whom|when)\b"
    r"|(?:did|does|is|are|was|were|has|can|could|should|would|didn't|doesn't|isn't|aren't|wasn't|weren't|hasn't)\s\w"
    r"|(?:do|have|had|will|may|am)\ (?:i|you|we|they|he|she|it|my|his|her|our|their|the|any|there)\b"
    r"|(?:remind me (?!to\b)|give me|show me|tell me (?!about\b)|list|name|count|compare|put (?:these|in order))\b)",
)
_WORD = LazyPattern(r"[^\W_]+")
_OPENED = _compiled(_OPENING)
_PRONOUN = _compiled(r"\b(?:he|him|his|she|her)\b")
_OWN = _compiled(r"\b(?:i|my|we|our|he|him|his|she|her)\b")
_LEANS = _compiled(r"\b(?:it|its|that|this|those|these|each|ones?|latter|former|there|then|they|them|afterwards?)\b")
_ASKING = _compiled(
    rf"(?:(?:in|on|at|for|to|with|from)\s+)?(?:who|whom|which|what|where)\s+(?:ones?\s+)?(?:(?:{AUX})\s+)?"
)
_LISTED = _compiled(r"\s*,?\s+(?:and|or)\s+|\s*,\s+")
_CHOICE = _compiled(
    r"\b(?P<head>(?:who|which|what)\b[^,:?]{0,150}\b(?:first|last|earlier|later|earliest|more|most|less|least|better|"
    r"worse|[a-z]{2,}er)\b[^,:?]{0,60})[,:]\s+(?P<items>[^?;]{1,300}\bor\b[^?;]{1,200})"
)
_OR_FIRST = _compiled(rf"(?:{AUX})\s+(?P<a>[^,?]+?)\s+or\s+(?P<b>[^,?]+?)\s+(?:first|earlier|later)\W*$")
_STOP = rf"(?=\W*$|\s+(?:{AUX})\s)"
_SPAN = (
    _compiled(
        r"\b(?:days|weeks|months|years|hours|minutes|long|time|passed|elapsed?|gap|interval|differences?)\b[^?]{0,40}"
        rf"\bbetween\s+(?P<a>[^?]+?),?\s+and\s+(?P<b>[^?]+?){_STOP}"
    ),
    _compiled(
        r"\bhow (?:many (?:days|weeks|months|years|hours|minutes)|long|soon|much time)(?: \w+)?\s+(?:before|after)\s+"
        rf"(?P<a>[^?]+?),?\s+(?:{AUX})\s+(?P<b>[^?]+)"
    ),
    _compiled(r"\b(?:passed|elapsed|been|it)\s+since\s+(?P<a>[^?]+?),?\s+when\s+(?P<b>[^?]+)"),
    _compiled(rf"^(?:{AUX})\s+(?P<a>[^?,]+?)\s+before or after\s+(?P<b>[^?]+)"),
    _compiled(r"^how (?:does|do|did)\s+(?P<a>[^?]+?)\s+compare (?:to|with)\s+(?P<b>[^?]+)"),
)
_CLAUSE = _compiled(
    r",?\s+and\s+(?=(?:(?:also|then|in|on|at|by|for|to|from)\s+)?(?:who|what|where|when|why|which|how)\b)"
)
_ASKED = _compiled(r"(?:who|whom|whose|what|where|when|why|which|how)\b")
_ALIKE = _compiled(r"\b(?:both|in common|each|shares?|the same|alike)\b")
_TOGETHER = _compiled(
    rf"^(?P<topic>[^?,]*?)\b(?:{AUX})\s+(?:both\s+)?"
    rf"(?P<items>{_PERSON}(?:, {_PERSON}){{0,2}},? and {_PERSON})\b(?P<rest>[^?]*)"
)
_BOTH_AFTER = _compiled(rf"^(?P<topic>[^?]*?)\b(?:{AUX})\s+(?P<items>[\w-]+ and [\w-]+)(?= both\b)(?P<rest>[^?]*)")
_BOTH_OF = _compiled(
    rf"^(?P<head>[^?]*?(?<!\w)(?!(?:{AUX})\b)\w+)\s+both\s+(?P<a>[^?,:]{{1,60}}?)\s+and\s+(?P<b>[^?,]+)"
)
_FILLING = _compiled(r"\b(?:both|each|have (?:\w+ )?in common|in common|shares?|the same|alike)\b")
_KINDS = _compiled(
    rf"\bhow many\s+(?P<items>[\w-]+(?: [\w-]+){{0,2}}(?:, [\w-]+(?: [\w-]+)?){{0,2}},? (?:and|or) "
    rf"[\w-]+(?: [\w-]+){{0,2}}?)\s+(?:{AUX})\s+(?P<rest>[^?]+)"
)
_PLURAL = _compiled(r"(?:.*\s)?(?:[^\W\d_]{2,}(?<![sui])s|people|children|men|women)")
_SPENT = _compiled(
    rf"\bhow much\b(?:\s+money)?\s+(?:{AUX})\s+(?P<head>[^?]+?\s(?:on|for|from))\s+(?P<a>[^?]+?)\s+and\s+"
    r"(?:on |for )?(?P<b>[^?]+?)\s+(?:in total|altogether|combined|together|overall|in all)\W*$"
)
_CHAINS = (
    _compiled(rf"\b(?P<whole>(?:the|an?) (?!(?:{_ATTRIBUTE})\b)[\w-]+ of (?P<inner>{_NAME}'s {_RELATION}))\b"),
    _compiled(rf"\b(?P<whole>(?:the|an?) {_RELATION} of (?P<inner>{_OWNER} {_RELATION}))\b"),
    _compiled(rf"(?<![\w'])(?P<whole>(?P<inner>{_OWNER} {_RELATION})(?:'s {_RELATION})+)\b"),
    _compiled(
        r"\b(?:does|did|do|has|have|had|where|how \w+ (?:is|was)|(?<!name )(?<!title )of)\s+(?P<whole>(?:the|an?)\s+"
        rf"(?:person|man|woman|guy|girl|one|city|town|country|place|company|{_RELATION})\s+(?:who|that|whom|whose|where)"
        r"\b[^?]+)"
    ),
)


def question_sentences(text: str) -> list[re.Match[str]]:
    """The sentences that ask, with or without a question mark."""
    return [found for found in _SENTENCE.finditer(text) if _MARK.search(found[0]) or _HEAD.match(found[0])]


def decompose(questions: Sequence[str], text: str, times: Sequence[str]) -> tuple[str, ...]:
    """Up to four searches that stand for the questions of a text, or none. What only names a time is no search."""
    if len(questions) > 1:
        return _checked(questions, text, times) if all(map(_stands_alone, questions)) else ()
    for question in questions:
        bare = _OPENED.sub("", question, count=1)
        for rule in _RULES:
            if parts := _checked(list(rule(bare)), text, times):
                return parts
        return _only([part for part in _chain(bare) if _is_search(part, text, times)])
    return ()


def _checked(parts: Sequence[str], text: str, times: Sequence[str]) -> tuple[str, ...]:
    """The parts if there are several and all of them can be searched for."""
    tidy = _named([_tidy(part) for part in parts])
    kept = _only(tidy) if all(_is_search(part, text, times) for part in tidy) else ()
    return kept if len(kept) > 1 else ()


def _only(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple({part.casefold(): part for part in parts}.values())[:MAX_PARTS]


def _named(parts: Sequence[str]) -> list[str]:
    """Parts that stand alone: "what is her job" after "Where does Ana live" is about Ana."""
    if not parts or len(names := _names(parts[0])) != 1:
        return list(parts)
    return [f"{part} {names[0]}" if _PRONOUN.search(part) and not _names(part) else part for part in parts]


def _names(part: str) -> list[str]:
    return [word for word in _WORD.findall(part)[1:] if word[0].isupper() and word.lower() not in STOP_WORDS]


def _tidy(part: str) -> str:
    return " ".join(_OPENED.sub("", part, count=1).split()).strip(" ,;:.?!")


def _is_search(part: str, text: str, times: Sequence[str]) -> bool:
    """Whether a part has a name, or two words and one that tells something."""
    words = _WORD.findall(part)
    telling = [word for word in words if word.lower() not in STOP_WORDS]
    if part.casefold() == _tidy(text).casefold() or any(part in time for time in times):
        return False
    return bool(telling) and (len(words) > 1 or telling[0][0].isupper())


def _choice(question: str) -> Iterable[str]:
    """Which of two or more: "Which came first, the trip to Oslo or the new job?"."""
    if match := _CHOICE.search(question):
        asked = _ASKING.sub("", match["head"], count=1)
        items = _LISTED.split(_CLAUSE.split(match["items"])[0])
        return [item if " " in item.strip() else f"{item.strip(' .!')} {asked}" for item in items]
    match = _OR_FIRST.match(question)
    return match.group("a", "b") if match else ()


def _span(question: str) -> Iterable[str]:
    """The two ends of a stretch of time, or the two sides of a comparison."""
    return next((match.group("a", "b") for shape in _SPAN if (match := shape.search(question))), ())


def _clauses(question: str) -> Iterable[str]:
    """Two questions in one: "Where does she work and who is her boss?"."""
    parts = _CLAUSE.split(question)
    if len(parts) < 2 or not _ASKED.match(parts[0]):
        return ()
    inner = {word.lower() for word in _WORD.findall(parts[0])[1:]}
    # "the man who moved and who married" goes on with the same clause; it is no second question.
    repeated = any(part.split()[0].lower() in inner for part in parts[1:])
    return () if repeated or not all(map(_stands_alone, parts)) else parts


def _stands_alone(clause: str) -> bool:
    """Whether a clause can be searched for without the one before it, as "and how much was it" can't."""
    words = [word for word in _WORD.findall(clause) if word.lower() not in STOP_WORDS]
    return bool(_names(clause)) or (_LEANS.search(clause) is None and (len(words) > 1 or bool(_OWN.search(clause))))


def _people(question: str) -> Iterable[str]:
    """One search for each of those who are compared: "What do Ana and Ben both like to cook?"."""
    if _ALIKE.search(question) is None:
        return ()
    if match := _TOGETHER.match(question) or _BOTH_AFTER.match(question):
        topic = _ASKING.sub("", match["topic"] + " ", count=1).strip()
        rest = _FILLING.sub(" ", match["rest"])
        return [f"{item} {topic} {rest}" for item in _LISTED.split(match["items"])]
    match = _BOTH_OF.match(question)
    if match is None:
        return ()
    head = _ASKING.sub("", match["head"] + " ", count=1).strip()
    return [f"{head} {match[side]}" for side in ("a", "b")]


def _kinds(question: str) -> Iterable[str]:
    """One search for each kind of thing that is counted: "How many plants and books did I buy?"."""
    if match := _KINDS.search(question):
        items = _LISTED.split(match["items"])
        return [f"{item} {match['rest']}" for item in items] if all(map(_PLURAL.fullmatch, items)) else ()
    match = _SPENT.search(question)
    return [f"{match['head']} {match[side]}" for side in ("a", "b")] if match else ()


def _chain(question: str) -> Iterable[str]:
    """Who or what must be known first: "What breed is the dog of Tom's sister?"."""
    for shape in _CHAINS:
        if match := shape.search(question):
            return [_tidy(part) for part in match.groupdict().values()]
    return ()


_RULES: tuple[_Rule, ...] = (_choice, _span, _clauses, _people, _kinds)
