"""Division of a text into statements that can be true or outdated on their own, and of a long text into chunks."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.small_talk import is_small_talk

# Statements: sentences and clauses.

_SENTENCE_END = LazyPattern(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|\n|;(?=\s)|(?<![。！？।؟])[。！？।؟]++[」』”’）]*+")
_ABBREVIATION = LazyPattern(r"(?:^|[\s(.])(?:[A-Za-z]|Mr|Mrs|Ms|Dr|St|Mt|vs|etc|approx|No)\.$")
_ABBREVIATION_CHARS = 8
_PRONOUN = r"(?:I|i|we|he|she|they|it|you|there)(?:['’]\w{1,3})?\s[a-z]"
_OWNED = r"(?:my|our|his|her|their|the)\s(?:[\w'’-]{1,30}\s){1,4}?(?:is|are|was|were|has|have|had|will|can|does|did)\b"
_CLAUSE = LazyPattern(rf"(?<!\s),?\s(?:and|but|so|while|though)\s(?={_PRONOUN}|{_OWNED})")
"""A conjunction before a clause with a subject and a verb of its own."""


_CLAIM_END = LazyPattern(
    r"(?<=\S),\s|\s[-–—]\s|:\s|(?<!\s),?\s(?:and|but|so|while|though)\s"
    r"(?=(?:I|i|we|he|she|they|it|you|there|my|our|his|her|their|the)\b)"
)
"""Places inside a sentence where another claim may begin."""
_CLAIM_WORDS = LazyPattern(r"\S++\s++\S++\s++\S")
"""The least words of a claim: three."""


class StatementSpan(NamedTuple):
    """A sentence or clause of a text, and its place in it."""

    start: int
    end: int
    text: str


def split_statements(text: str) -> list[StatementSpan]:
    """Return the sentences of a text, and the clauses of those that join several; small talk is left out."""
    found: list[StatementSpan] = []
    for start, end in sentence_spans(text):
        for clause in _CLAUSE.finditer(text, start, end):
            found.append(_statement(text, start, clause.start()))
            start = clause.end()
        found.append(_statement(text, start, end))
    return [each for each in found if any(map(str.isalnum, each.text)) and not is_small_talk(each.text)]


def claim_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each part of a text that may become outdated on its own: clauses of a few words."""
    found: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        for border in _CLAIM_END.finditer(text, start, end):
            before, after = text[start : border.start()].strip(), _CLAIM_WORDS.match(text, border.end())
            if after is not None and after.end() <= end and _CLAIM_WORDS.match(before) is not None:
                found.append((start, border.start()))
                start = border.end()
        found.append((start, end))
    trimmed = ((end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())) for start, end in found)
    return [(start, end) for start, end in trimmed if any(map(str.isalnum, text[start:end]))]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence and line of a text."""
    ends = [
        match.end()
        for match in _SENTENCE_END.finditer(text)
        if match[0] != "." or not _ABBREVIATION.search(text, max(0, match.end() - _ABBREVIATION_CHARS), match.end())
    ]
    return list(zip([0, *ends], [*ends, len(text)], strict=True))


def _statement(text: str, start: int, end: int) -> StatementSpan:
    return StatementSpan(start, end, text[start:end].strip().rstrip(";"))


# Chunks of a long text. They never overlap.

_CHUNK_SIZE = 1600
_CHUNK_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|\n+|[。！？]")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_LIST_ITEM = re.compile(r"\s*+(?:[-*+•‣·]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s")
_HEADING = re.compile(r"\s*+(?:#{1,6}\s|\*\*[^*\n]++\*\*:?\s*+$|[^.!?\n]{1,80}(?<=:)\s*+$)")


def split_text(text: str, size: int = _CHUNK_SIZE) -> list[str]:
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
    sentences = [match.end() for match in _CHUNK_SENTENCE_END.finditer(text)]
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
