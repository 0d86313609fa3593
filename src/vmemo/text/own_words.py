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
_PERSONA = LazyPattern(
    r"(?:^|(?<=[.!?:;]\s)|(?<=\n))\W{0,4}(?:(?:[Pp]lease|[Nn]ow|[Hh]i|[Ss]o|[Oo]k(?:ay)?|[Tt]oday),? )?"
    r"(?:(?:[Yy]ou are|[Yy]ou['’]re|[Yy]ou will be)(?: now| going to be)? (?:(?:an?|the|my) (?:[a-z-]+ )?"
    r"(?!(?:great|good|big|huge|real|true)\b|star\b|help|gem\b|genius|angel|legend|lifesaver|best|friend\b|treasure|"
    r"champion)[a-zA-Z-]{4,}|[A-Z]\w+[,.])"
    r"|(?:I want you to |I['’]d like you to |[Ll]et['’]s )?(?:[Aa]ct as|[Aa]ct like|[Pp]retend|[Rr]ole-?play|"
    r"[Ii]magine (?:that )?you|[Pp]lay the role|[Tt]ake the role|[Aa]s an? [^,.\n]{3,60}, (?:you|always|never)\b)"
    r"|\[?(?:[Rr]ole|[Pp]ersona|[Ss]ystem|SYSTEM|ROLE|TASK|[Tt]ask|[Ii]nstructions?|[Rr]ules)\]?(?::|(?<=\])) )"
)
"""The start of a part that the assistant is to play, or of a prompt that was pasted: "You are a travel agent."."""
_OPENING = 200
"""Characters at the start of a message."""
_FENCE = LazyPattern(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_QUOTED_LINE = LazyPattern(r"^[ \t]{0,8}(?:>|\|).*$", re.MULTILINE)
_QUOTATION = LazyPattern(r"[\"“][^\"“”\n]{20,}[\"”]")
"""Words in quotation marks; a short quotation is a word or a name."""


def begins_persona(text: str) -> bool:
    """Return True if a message opens with a part that the assistant is to play, or with a prompt that was pasted."""
    return (persona := _PERSONA.search(text)) is not None and persona.start() < _OPENING


def foreign_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a message that are quoted, code or pasted; they may overlap."""
    found = [match.span() for pattern in (_QUOTED_LINE, _QUOTATION) for match in pattern.finditer(text)]
    fences = [match.start() for match in _FENCE.finditer(text)]
    found += zip(fences[::2], [*fences[1::2], len(text)], strict=False)
    starts = [match.end() for pattern in (_PASTED, _PERSONA) if (match := pattern.search(text))]
    return [*found, (min(starts), len(text))] if starts else found
