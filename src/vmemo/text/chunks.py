"""Splitting of long text into overlapping chunks at sentence boundaries."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

CHUNK_SIZE = 1600
CHUNK_OVERLAP = 320
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|\n+|[。！？]")


def split_text(text: str, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[str]:
    """Return chunks of at most `size` characters; each repeats whole sentences, up to `overlap`, of the one before."""
    text = text.strip()
    if len(text) <= size:
        return [text] if text else []
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    chunks: list[str] = []
    start = 0
    while start < len(text):
        end = _chunk_end(text, ends, start, size)
        chunks.append(text[start:end].strip())
        if end >= len(text):
            break
        start = _next_start(text, ends, start, end, overlap)
    return [chunk for chunk in chunks if chunk]


def _chunk_end(text: str, ends: list[int], start: int, size: int) -> int:
    """Return the last sentence end in the second half of the chunk, or else its last space, or else the limit."""
    limit = start + size
    if limit >= len(text):
        return len(text)
    half = start + size // 2
    fitting = bisect_right(ends, limit) - 1
    if fitting >= 0 and ends[fitting] > half:
        return ends[fitting]
    space = text.rfind(" ", half, limit)
    return space + 1 if space > 0 else limit


def _next_start(text: str, ends: list[int], start: int, end: int, overlap: int) -> int:
    """Return the first sentence start within the overlap, or else a word start, always after this chunk's start."""
    earliest = max(end - overlap, start + 1)
    inside = bisect_left(ends, earliest)
    if inside < len(ends) and ends[inside] < end:
        return ends[inside]
    space = text.find(" ", earliest, end)
    return space + 1 if space > 0 else earliest
