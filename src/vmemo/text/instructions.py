"""Standing instructions of a user to the assistant: their occasions, and rules for embedders that do not read.

The reader of the packaged encoder recognises instructions in all languages (`retain.reader`). With another embedder
these rules recognise plain ones in English: "Always give dates as MM/DD/YYYY", "Call me Ben". In doubt a sentence is
none: it stays a memory like any other.
"""

from __future__ import annotations

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns
from vmemo.text.tokens import term_set, terms

MAX_SENTENCE = 400
"""Characters of a sentence; a longer one says more than an instruction."""
_PATTERNS = read_patterns("instructions.txt")
_STANDING = LazyPattern("|".join(_PATTERNS["standing"]))
_ENDING = LazyPattern("|".join(_PATTERNS["ending"]))
_ONCE = LazyPattern("|".join(_PATTERNS["once"]))
_CUE = LazyPattern("|".join(_PATTERNS["cue"]))
"""Words of a sentence that ends an instruction, or replaces it."""


def is_standing(sentence: str) -> bool:
    """Return True if a sentence of a user is a standing instruction to the assistant, by a plain rule."""
    lower = _plain(sentence)
    return 0 < len(lower) <= MAX_SENTENCE and not lower.endswith("?") and _STANDING.match(lower) is not None


def ends_standing(sentence: str) -> bool:
    """Return True if a sentence of a user ends an earlier instruction, by a plain rule."""
    lower = _plain(sentence)
    return len(lower) <= MAX_SENTENCE and _ENDING.fullmatch(lower) is not None


def is_for_once(sentence: str) -> bool:
    """Return True for a request for once: .10 of 2,289 annotated requests are found, and .01 of 2,069 instructions."""
    return _ONCE.search(sentence.lower()) is not None


def cues_end(sentence: str) -> bool:
    """Return True if a sentence has words that often end an earlier instruction."""
    return _CUE.search(_plain(sentence)) is not None


def _plain(sentence: str) -> str:
    return " ".join(sentence.replace("’", "'").split()).lower()


# What instructions are about: the properties of an answer that they set, and their occasion.

_ASPECTS = tuple(LazyPattern("|".join(lines)) for name, lines in _PATTERNS.items() if name.startswith("aspect"))
"""Properties of an answer that have one value at a time: dates, times, units, currency, language, length, layout, name
and tone."""
_WHEN = LazyPattern(
    r"\b(?:when|whenever|every time|each time|any ?time|if|unless) (?:i|we|you) "
    r"((?:(?!\b(?:always|never|please|only)\b)[^,;.!]){1,120})"
)
_ASKING = "ask asking mention discuss talk say tell want you question about for help explain give answer"


def answer_aspects(text: str) -> frozenset[int]:
    """Return the numbers of the properties of an answer that an instruction sets."""
    lower = text.lower()
    return frozenset(number for number, aspect in enumerate(_ASPECTS) if aspect.search(lower))


def occasion_terms(text: str) -> frozenset[str]:
    """Return the terms of the subject on which an instruction applies: "when I ask about taxes"; empty for any."""
    match = _WHEN.search(text.lower())
    return frozenset(terms(match[1])) - term_set(_ASKING) if match else frozenset()
