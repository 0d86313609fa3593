"""Standing instructions of a user to the assistant: their topics, and rules for embedders that do not read.

The reader of the packaged encoder recognises instructions in all languages (`retain.reader`). With another embedder
these rules recognise plain ones in English: "Always give dates as MM/DD/YYYY", "Call me Ben". In doubt a sentence is
none: it stays a memory like any other.
"""

from __future__ import annotations

from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import term_set, terms

MAX_SENTENCE = 400
"""Characters of a sentence; a longer one says more than an instruction."""
_VERB = (
    "(?:answer|reply|respond|give|show|list|include|add|use|write|format|put|keep|explain|provide|tell|mention|cite|"
    "convert|speak|talk|ask|check|confirm|warn|remind|recommend|suggest|start|begin|end|skip|avoid|be|make|round|"
    "translate|summari[sz]e|spell|state|limit|describe|call me|address me)"
)
"""Acts of an assistant; "wear a helmet" is advice to somebody."""
_OPENING = r"(?:(?:please|also|and|but|ok|okay|so|remember to|make sure to|be sure to|thanks|yes|no)[,:!.]? ){0,3}"
_ALWAYS = r"(?:always|never|don't ever|do not ever)"
_FROM_NOW = r"(?:from now on|going forward|in future|henceforth|as a rule|at all times|every time)"
_WHENEVER = r"(?:when|whenever|every time|each time|if) (?:i|we|you) "
_STANDING = LazyPattern(
    rf"{_OPENING}(?:(?:you )?(?:should|must) )?{_ALWAYS} (?:please |only )?{_VERB}\b"
    rf"|{_OPENING}{_FROM_NOW},? (?:please |only |{_ALWAYS} )?(?:don't |do not |stop )?\w"
    rf"|{_OPENING}(?:don't |do not |{_ALWAYS} )?{_VERB}\b.{{0,200}}\b(?:{_FROM_NOW}|any ?more)\b"
    rf"|{_OPENING}(?:for|in|on|about) [^,]{{2,60}}, {_ALWAYS} {_VERB}\b"
    rf"|{_OPENING}{_WHENEVER}[^,]{{1,120}}, (?:please )?(?:(?:don't|do not|{_ALWAYS}) )?{_VERB}\b"
    rf"|{_OPENING}(?:{_ALWAYS} )?{_VERB}\b.{{0,200}}\b{_WHENEVER}(?:ask|say|mention|paste|write|answer|reply)"
    rf"|{_OPENING}keep (?:(?:all|your|the) ){{0,3}}(?:answers|replies|responses)\b"
    rf"|{_OPENING}(?:call me|address me as) (?!(?:at|on|if|when|before|after|back|later|tomorrow)\b)"
    r"|i(?:'d| would)? (?:prefer|rather) (?:(?:[\w-]+ ){0,3}(?:answers|replies|responses)|you)\b"
)
_ENDING = LazyPattern(
    rf"{_OPENING}(?:forget|drop|scrap|ignore|cancel) (?:the|my|that|about|what i said)\b[^,;:]{{0,80}}"
    r"\b(?:rules?|requests?|wish|instructions?|formats?|limits?|said|asked)\b[^,;:]{0,40}"
    rf"|{_OPENING}you (?:can|may) (?:stop|drop|leave off|leave out)\b[^;:]{{0,120}}"
    rf"|{_OPENING}you (?:don't|do not|no longer) (?:need|have) to {_VERB}\b[^;:]{{0,120}}"
)
_CUE = LazyPattern(
    r"\b(?:forget|scrap|drop|reverse|repeal|undo|lifted|cancelled|rescinded|suspended|no longer|no more|any ?more|"
    r"again|after all|instead|has to go|can go|(?:can|may|so) stop|is (?:over|gone|history))\b"
)
"""Words of a sentence that ends an instruction, or replaces it."""


def is_standing(sentence: str) -> bool:
    """Return True if a sentence of a user is a standing instruction to the assistant, by a plain rule."""
    lower = _plain(sentence)
    return 0 < len(lower) <= MAX_SENTENCE and not lower.endswith("?") and _STANDING.match(lower) is not None


def ends_standing(sentence: str) -> bool:
    """Return True if a sentence of a user ends an earlier instruction, by a plain rule."""
    lower = _plain(sentence)
    return len(lower) <= MAX_SENTENCE and _ENDING.fullmatch(lower) is not None


def cues_end(sentence: str) -> bool:
    """Return True if a sentence has words that often end an earlier instruction."""
    return _CUE.search(_plain(sentence)) is not None


def _plain(sentence: str) -> str:
    return " ".join(sentence.replace("’", "'").split()).lower()


# Instructions that replace earlier ones: "use ISO dates from now on" after "give dates as MM/DD/YYYY".

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
_MANNER_WORDS = "always never stop please do not any more only just from now on again"
_ASKING = "ask asking mention discuss talk say tell want you question about for help explain give answer"
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
    return InstructionTopic(_occasion(text), aspects, frozenset(terms(text)) - term_set(_MANNER_WORDS))


def replaces_instruction(new: InstructionTopic, old: InstructionTopic) -> bool:
    """Return True if an instruction is about the same as an earlier one: the same occasion, and the same property.

    What differs in any property stays beside the new one, where the newer of two takes precedence.
    """
    if not have_same_occasion(new, old):
        return False
    return bool(old.aspects and old.aspects <= new.aspects) or _similar(new.content, old.content, SAME_WORDING)


def have_same_occasion(new: InstructionTopic, old: InstructionTopic) -> bool:
    """Return True if two instructions apply on the same occasion, or both on any."""
    return _similar(new.occasion, old.occasion, SAME_OCCASION)


def occasion_terms(text: str) -> frozenset[str]:
    """Return the terms of the subject on which an instruction applies: "when I ask about taxes"; empty for any."""
    return _occasion(text) - term_set(_ASKING)


def _occasion(text: str) -> frozenset[str]:
    match = _WHEN.search(text.lower())
    return frozenset(terms(match[1])) if match else frozenset()


def _similar(one: frozenset[str], other: frozenset[str], least: float) -> bool:
    """Return True if two sets of terms are both empty, or share this part of all their terms."""
    return (not one and not other) or len(one & other) >= least * len(one | other)
