"""Division of a text into statements that can be true or outdated on their own. English."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.noise import is_small_talk

_SENTENCE_END = LazyPattern(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|\n|;(?=\s)")
_ABBREVIATION = LazyPattern(r"(?:^|[\s(.])(?:[A-Za-z]|Mr|Mrs|Ms|Dr|St|Mt|vs|etc|approx|No)\.$")
_ABBREVIATION_CHARS = 8
_PRONOUN = r"(?:I|i|we|he|she|they|it|you|there)(?:['’]\w{1,3})?\s[a-z]"
_OWNED = r"(?:my|our|his|her|their|the)\s(?:[\w'’-]{1,30}\s){1,4}?(?:is|are|was|were|has|have|had|will|can|does|did)\b"
_CLAUSE = LazyPattern(rf"(?<!\s),?\s(?:and|but|so|while|though)\s(?={_PRONOUN}|{_OWNED})")
"""A conjunction before a clause with a subject and a verb of its own."""


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


def join_statements(text: str, kept: Sequence[StatementSpan], dropped: Sequence[StatementSpan]) -> str:
    """Return a text without some of its statements; what stands between two kept ones stays as it is."""
    pieces: list[list[str]] = []
    end: int | None = None
    held = set(kept)
    for each in sorted([*kept, *dropped]):
        if each not in held:
            end = None
        elif end is None:
            pieces.append([text[each.start : each.end]])
        else:
            pieces[-1].append(text[end : each.end])
        end = each.end if each in held else None
    cleaned = ["".join(piece).strip().rstrip(";,") for piece in pieces]
    ended = [piece if piece.endswith((".", "!", "?", "…")) else f"{piece};" for piece in cleaned[:-1]]
    return " ".join([*ended, *cleaned[-1:]])
