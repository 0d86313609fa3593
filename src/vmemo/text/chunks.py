"""Splitting of long text at its structure: paragraphs, list items, code blocks and sentences. Chunks never overlap."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

CHUNK_SIZE = 1600
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|\n+|[。！？]")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_LIST_ITEM = re.compile(r"\s*+(?:[-*+•‣·]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s")
_HEADING = re.compile(r"\s*+(?:#{1,6}\s|\*\*[^*\n]++\*\*:?\s*+$|[^.!?\n]{1,80}(?<=:)\s*+$)")


def split_text(text: str, size: int = CHUNK_SIZE) -> list[str]:
    """Return the chunks of a text in order, each of at most `size` characters; together they hold all of its words.

    A chunk ends between two paragraphs, list items or blocks of code if possible, else after a sentence or a word. A
    heading, or a line that ends with a colon, stays with the line that follows it.
    """
    text = text.strip()
    if len(text) <= size:
        return [text] if text else []
    chunks: list[str] = []
    start = end = 0
    for next_end in _part_ends(text, size):
        if next_end - start > size:
            chunks.append(text[start:end])
            start = end
        end = next_end
    chunks.append(text[start:])
    return [chunk for chunk in map(str.strip, chunks) if chunk]


def _part_ends(text: str, size: int) -> Iterator[int]:
    """Yield the ends of blocks; those longer than `size` are divided after sentences, or else words."""
    sentences = [match.end() for match in _SENTENCE_END.finditer(text)]
    start = 0
    for end in _block_ends(text):
        while end - start > size:
            start = _sentence_end(text, sentences, start, size)
            yield start
        start = end
        yield end


def _block_ends(text: str) -> Iterator[int]:
    """Yield the ends of paragraphs, list items and fenced code."""
    offset = 0
    fence, after_blank, after_heading = "", False, True
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        opens = mark is not None and not fence
        if not fence and not after_heading and (after_blank or opens or _LIST_ITEM.match(line)):
            yield offset
        offset += len(line)
        blank = not line.strip()
        # A blank line after a heading or a list's introduction does not separate it from what follows.
        after_heading = not fence and (after_heading if blank else _HEADING.match(line) is not None)
        after_blank = blank
        if opens and mark is not None:
            fence = mark[1]
        elif mark is not None and mark[1] == fence:
            fence, after_blank = "", True
    yield len(text)


def _sentence_end(text: str, ends: list[int], start: int, size: int) -> int:
    """Return the last sentence end in the second half of a chunk, or else its last space, or else the limit."""
    limit, half = start + size, start + size // 2
    fitting = bisect_right(ends, limit) - 1
    if fitting >= 0 and ends[fitting] > half:
        return ends[fitting]
    space = text.rfind(" ", half, limit)
    return space + 1 if space > 0 else limit
