"""Statements that answer a yes-or-no question: the one that affirms it and the one that denies it. English only."""

from __future__ import annotations

import re

from vmemo.text.lazy_regex import LazyPattern

_QUESTION = LazyPattern(
    r"\W*(?:(?:so|and|but|ok|okay|well),? )?(?P<verb>have|has|did|was|were|am|is|are|do|does|had) "
    r"(?P<subject>i|we|he|she|it|they|(?:my|our|his|her|their|the) [\w'-]+|[\w'-]+(?: and [\w'-]+)?) "
    r"(?:(?:ever|really|actually|already) )?(?P<rest>[^?]{3,300})",
    re.IGNORECASE,
)


def opposite_statements(question: str) -> tuple[str, ...]:
    """Return "I never swam" and its like for "Did I ever swim?", or nothing if the question is of another form.

    The statement that affirms is as near to the question as the question itself, so it is not searched for again.
    """
    match = _QUESTION.match(" ".join(question.split()))
    if match is None:
        return ()
    verb = match["verb"].lower()
    auxiliary = f"{verb} " if verb in ("have", "has", "had", "was", "were", "am", "is", "are") else ""
    denial = "not" if verb in ("am", "is", "are") else "never"
    return (f"{match['subject']} {auxiliary}{denial} {match['rest'].strip(' .!,;')}",)
