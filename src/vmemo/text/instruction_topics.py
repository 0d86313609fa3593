"""Standing instructions that replace earlier ones: "use ISO dates from now on" after "give dates as MM/DD/YYYY"."""

from __future__ import annotations

from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import terms

_ASPECTS = tuple(
    LazyPattern(pattern)
    for pattern in (
        r"\b(?:iso|us|european|american|british)[ -]?(?:style )?dates?\b|\bdates? (?:as|in|the|like|with|format)\b|"
        r"\bdate format|\bmm/dd|\bdd/mm|\byyyy",
        r"\b(?:24|12)[- ]?h(?:ou)?rs?\b|\btime format|\b[ap]\.?m\b",
        r"\b(?:metric|imperial|units?|kilomet\w+|miles|celsius|fahrenheit)\b",
        r"\b(?:euros?|dollars?|pounds sterling|currenc(?:y|ies))\b",
        r"\bin (?:\w+ )?(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|chinese|japanese|"
        r"korean|arabic|turkish|hindi|swedish|danish|norwegian|finnish|greek|czech|ukrainian|hebrew)\b",
        r"\b(?:short(?:er)?|brief|concise|long(?:er)?|detailed|in detail|"
        r"(?:under|than|within|most) \w+ (?:words|sentences))\b",
        r"\b(?:bullets?|bullet points?|bulleted|lists)\b",
        r"\btables\b",
        r"\bmarkdown\b",
        r"\bemojis?\b",
        r"\b(?:call(?:ing)?|address|refer to) me\b|\bi go by\b",
        r"\b(?:formal|informal|casual|blunt|polite|friendly)\b",
    )
)
"""Properties of an answer that have one value at a time: dates, times, units, currency, language, length, layout, name
and tone."""
_WHEN = LazyPattern(
    r"\b(?:when|whenever|every time|each time|any ?time|if|unless) (?:i|we|you) "
    r"((?:(?!\b(?:always|never|please|only)\b)[^,;.!]){1,120})"
)
_MANNER = frozenset(terms("always never stop please do not any more only just from now on again"))
_ASKING = frozenset(
    terms("ask asking mention discuss talk say tell want you question about for help explain give answer")
)
SAME_OCCASION = 0.5
"""Share of the terms of two occasions that are the same one."""
SAME_WORDING = 0.75
"""Share of the terms of two instructions that say the same, or the opposite."""


class InstructionTopic(NamedTuple):
    """The occasion on which an instruction applies, the properties of an answer that it sets, and its other terms."""

    occasion: frozenset[str]
    aspects: frozenset[int]
    content: frozenset[str]


def instruction_topic(text: str) -> InstructionTopic:
    """Return the topic of an instruction."""
    lower = text.lower()
    aspects = frozenset(number for number, aspect in enumerate(_ASPECTS) if aspect.search(lower))
    return InstructionTopic(_occasion(text), aspects, frozenset(terms(text)) - _MANNER)


def replaces_instruction(new: InstructionTopic, old: InstructionTopic) -> bool:
    """Return True if an instruction is about the same as an earlier one: the same occasion, and the same property.

    What differs in any property stays beside the new one, where the newer of two takes precedence.
    """
    if not _similar(new.occasion, old.occasion, SAME_OCCASION):
        return False
    return bool(old.aspects and old.aspects <= new.aspects) or _similar(new.content, old.content, SAME_WORDING)


def occasion_terms(text: str) -> frozenset[str]:
    """Return the terms of the subject on which an instruction applies: "when I ask about taxes"; empty for any."""
    return _occasion(text) - _ASKING


def _occasion(text: str) -> frozenset[str]:
    match = _WHEN.search(text.lower())
    return frozenset(terms(match[1])) if match else frozenset()


def _similar(one: frozenset[str], other: frozenset[str], least: float) -> bool:
    """Return True if two sets of terms are both empty, or share this part of all their terms."""
    return (not one and not other) or len(one & other) >= least * len(one | other)
