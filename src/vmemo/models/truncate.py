"""Truncation of text to a number of tokens."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

TRUNCATED = " […]"
"""The end of a truncated text."""
MIN_TRUNCATED = 16
"""Tokens that must be left for a truncated fact, unless it is the only one."""
MIN_SHARE = 0.25
"""Share of the tokens that whole sentences must use; if they use less, the text is cut after a word."""
MAX_TOKEN_LENGTH = 8
"""Characters per token that are considered at most; English text has about four."""
_SENTENCE_END = re.compile(
    r"(?<!\bMr)(?<!\bDr)(?<!\bMs)(?<!\bSt)(?<!\bMrs)(?<!\n\d)(?<!\n\d\d)(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|(?=\n)|[。！？]"
)
_PHRASE_END = re.compile(r"(?<=\S)(?!\s\d)(?!(?<=\d)\s[a-z])(?=\s|$)")
"""The end of a word, but not one between a number and its unit, or inside a date."""
_WORD_END = re.compile(r"(?<=\S)(?=\s|$)")


def truncate(text: str, max_tokens: int, count: Callable[[str], int]) -> str | None:
    """Return the start of a text that fits into `max_tokens` with a mark at its end, or None if no word fits.

    The text is cut at the end of a sentence or line; if whole sentences use too little of the tokens, after a word, if
    possible not between a number and what belongs to it.
    """
    text = text.removesuffix(TRUNCATED)
    start = text[: max_tokens * MAX_TOKEN_LENGTH]
    for ends, least in ((_SENTENCE_END, max_tokens * MIN_SHARE), (_PHRASE_END, 0.0), (_WORD_END, 0.0)):
        cut = _longest(start, [match.end() for match in ends.finditer(start)], max_tokens, count)
        if cut is not None and count(cut) >= least:
            return cut
    return None


def _longest(text: str, ends: Sequence[int], max_tokens: int, count: Callable[[str], int]) -> str | None:
    """Return the text up to the last of the ends that fits, with the mark."""
    fitting = bisect_right(ends, max_tokens, key=lambda end: count(_cut(text, end)))
    # A longer text may have fewer tokens, so the search can end a little too far.
    cuts = (_cut(text, end) for end in reversed(ends[:fitting]))
    return next((cut for cut in cuts if count(cut) <= max_tokens), None)


def _cut(text: str, end: int) -> str:
    return text[:end].rstrip() + TRUNCATED
