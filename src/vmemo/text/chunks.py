"""Cutting long text into overlapping pieces that end where sentences end."""

from __future__ import annotations

import re

CHUNK_SIZE = 1600
CHUNK_OVERLAP = 320
_SENTENCE_END = re.compile(r"(?:[.!?…]+[\"'”’)\]]*|[。！？])(?=\s|$)|\n+|[。！？]")


def split_text(text: str, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[str]:
    """Pieces of at most `size` characters, each repeating up to `overlap` of the one before from a sentence's start."""
    text = text.strip()
    if len(text) <= size:
        return [text] if text else []
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = _end(text, ends, start, size)
        pieces.append(text[start:end].strip())
        if end >= len(text):
            break
        start = _start(text, ends, start, end, overlap)
    return [piece for piece in pieces if piece]


def _end(text: str, ends: list[int], start: int, size: int) -> int:
    """The last sentence end in the second half of the piece, or else the last space there, or else the limit."""
    limit = start + size
    if limit >= len(text):
        return len(text)
    half = start + size // 2
    fitting = [end for end in ends if half < end <= limit]
    if fitting:
        return fitting[-1]
    space = text.rfind(" ", half, limit)
    return space + 1 if space > 0 else limit


def _start(text: str, ends: list[int], start: int, end: int, overlap: int) -> int:
    """Where the next piece begins: a sentence inside the overlap, or else a word, and always past this start."""
    earliest = max(end - overlap, start + 1)
    inside = [at for at in ends if earliest <= at < end]
    if inside:
        return inside[0]
    space = text.find(" ", earliest, end)
    return space + 1 if space > 0 else earliest
