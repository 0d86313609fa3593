"""Standing instructions of a user to the assistant: their topics, and rules for embedders that do not read.

The reader of the packaged encoder recognises instructions in all languages (`retain.reader`). With another embedder
these rules recognise plain ones in English: "Always give dates as MM/DD/YYYY", "Call me Ben". In doubt a sentence is
none: it stays a memory like any other.
"""

from __future__ import annotations

from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns
from vmemo.text.tokens import term_set, terms

MAX_SENTENCE = 400
"""Characters of a sentence; a longer one says more than an instruction."""
_PATTERNS = read_patterns("instructions.txt")
_STANDING = LazyPattern("|".join(_PATTERNS["standing"]))
_ENDING = LazyPattern("|".join(_PATTERNS["ending"]))
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


def cues_end(sentence: str) -> bool:
    """Return True if a sentence has words that often end an earlier instruction."""
    return _CUE.search(_plain(sentence)) is not None


def _plain(sentence: str) -> str:
    return " ".join(sentence.replace("’", "'").split()).lower()


# Instructions that replace earlier ones: "use ISO dates from now on" after "give dates as MM/DD/YYYY".

_ASPECTS = tuple(LazyPattern("|".join(lines)) for name, lines in _PATTERNS.items() if name.startswith("aspect"))
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
