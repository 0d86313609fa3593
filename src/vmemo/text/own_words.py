"""Parts of a message that are not its author's own words: code, quotations, and text that was pasted or forwarded."""

from __future__ import annotations

import re

from vmemo.text.lazy_regex import LazyPattern

MAX_OWN_WORDS = 2_000
"""Characters of a message; a longer one is mostly a document that was pasted."""
_PASTED = LazyPattern(
    # An introduction: what follows is somebody's text.
    r"\b(?:says?|said|reads?|wrote|writes?|states?|stated|told me|following|below|text|e-?mail|message|article|prompt|"
    r"page|document|letter|post|review|note|instructions|here(?: i|'|’)s)\b[^.!?:\n]{0,60}:(?=\s)"
    # The head of a letter, a forwarded message or a document.
    r"|^(?:dear\b|subject:|from:|to:|sent:|re:|fwd?:|begin forwarded|-{3,}|={3,}|#{1,6} |chapter \w+|abstract\b)",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = LazyPattern(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_QUOTED_LINE = LazyPattern(r"^[ \t]{0,8}(?:>|\|).*$", re.MULTILINE)
_QUOTATION = LazyPattern(r"[\"“][^\"“”\n]{20,}[\"”]")
"""Words in quotation marks; a short quotation is a word or a name."""


def foreign_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a message that are quoted, code or pasted; they may overlap."""
    found = [match.span() for pattern in (_QUOTED_LINE, _QUOTATION) for match in pattern.finditer(text)]
    fences = [match.start() for match in _FENCE.finditer(text)]
    found += zip(fences[::2], [*fences[1::2], len(text)], strict=False)
    pasted = _PASTED.search(text)
    return [*found, (pasted.end(), len(text))] if pasted else found
