"""Corrections in words: a message that takes back what its speaker said before. English."""

from __future__ import annotations

import re

from vmemo.text.lazy_regex import LazyPattern

_CORRECTION = LazyPattern(
    r"(?:^|[.!?\n] )\W{0,3}(?:(?:oh|oops|ah|no|wait|sorry|and|also|actually|hang on|hold on)\W{1,3}){0,3}"
    r"(?:(?:a )?correction\b|scratch that\b|strike that\b|i meant\b|i misspoke\b|i mistyped\b|make that\b)"
    r"|\bsorry,? i (?:said|wrote|typed|meant)\b"
    r"|\bi (?:said|wrote|typed) [^.!?\n]{1,60}(?:,|but) i meant\b"
    r"|\b(?:cancel|ignore|forget) what i (?:just )?(?:said|wrote|told you)\b",
    re.IGNORECASE,
)
"""Words in which a speaker corrects or cancels an own statement, at the start of a message or unmistakable."""


def is_correction(text: str) -> bool:
    """Return True if a speaker says in words that an own earlier statement is wrong or no longer applies."""
    return _CORRECTION.search(text.replace("’", "'")) is not None
