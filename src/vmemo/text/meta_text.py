"""Text that is no memory: lines that were recalled from memory, and extracted facts about the conversation itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from vmemo.models.recalled import INSTRUCTIONS, LEGEND, NOTHING
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns
from vmemo.text.tokens import terms

_MAX_CHARACTERS = 200
"""Longer facts are not about the conversation."""
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_RECALL_HEADING = re.compile(rf"## \d{{1,2}} (?:{_MONTHS}) \d{{4}}(?:: .*)?")
_ID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_RECALLED_LINE = re.compile(rf"- \[{_ID}\] \S")
_SHORTLY_RECALLED_LINE = re.compile(r"- \[[0-9a-f]{8}(?:-[0-9a-f]{6})?\] \S")
"""A recalled line below a heading; elsewhere, eight digits in brackets may be anything."""

_META_TEXT = LazyPattern("|".join(read_patterns("meta_text.txt")["meta"]), re.IGNORECASE)
_ROLE_TERMS = frozenset(("user", "assist", "agent", "tool", "system", "ai"))
_ENGLISH_WORDS = frozenset("the and is are of to my with have has it you for that this he she they we i".split())
_SPEAKER_PREFIX = re.compile(r"[^:\n]{1,60}: ")


def strip_recalled(text: str) -> str:
    """Return the message without lines that were recalled from memory, and without their headings."""
    lines = text.split("\n")
    removed = set(_recalled_lines(lines))
    if not removed:
        return text
    above_removed = False
    for at in range(len(lines) - 1, -1, -1):
        if at in removed:
            above_removed = True
        elif above_removed and _is_recall_heading(lines[at]):
            removed.add(at)
        elif lines[at].strip():
            above_removed = False
    kept = "\n".join(line for at, line in enumerate(lines) if at not in removed)
    return re.sub(r"\n{3,}", "\n\n", kept).strip()


def _recalled_lines(lines: Sequence[str]) -> Iterator[int]:
    """Yield the places of recalled lines and of the indented lines that continue them."""
    pattern, inside = _RECALLED_LINE, False
    for at, line in enumerate(lines):
        if _is_recall_heading(line):
            pattern, inside = _SHORTLY_RECALLED_LINE, False
        elif pattern.match(line.strip()) or _RECALLED_LINE.match(line.strip()) or line.strip() == NOTHING:
            inside = True
            yield at
        elif inside and line.startswith("  "):
            yield at
        elif line.strip():
            pattern, inside = _RECALLED_LINE, False


def _is_recall_heading(line: str) -> bool:
    return _RECALL_HEADING.fullmatch(line.strip()) is not None or line.startswith((LEGEND, INSTRUCTIONS))


def is_meta_text(text: str) -> bool:
    """Return True if a fact is about the conversation, the assistant's politeness or its instructions."""
    plain = " ".join(text.replace("’", "'").split()).strip(" .!\"'`*-")
    if len(plain) > _MAX_CHARACTERS:
        return False
    return not any(map(str.isalnum, plain)) or _META_TEXT.fullmatch(plain) is not None


def is_grounded(text: str, sources: Sequence[str], known: Sequence[str] = ()) -> bool:
    """Return True if a fact shares a term with its sources, or if they are in another language."""
    wanted = set(terms(text))
    stated = {term for source in (*sources, *known) for term in terms(source)}
    if (wanted - _ROLE_TERMS) & stated:
        return True
    messages = [_SPEAKER_PREFIX.sub("", source, count=1) for source in sources]
    has_letters = any(c.isalpha() for source in messages for c in source)
    if has_letters and _has_latin(text) and not any(map(_has_latin, messages)):
        return True
    return bool(wanted & stated) and _is_english(text) and not any(map(_is_english, messages))


def _has_latin(text: str) -> bool:
    return any(unicodedata.name(c, "").startswith("LATIN") for c in text if c.isalpha())


def _is_english(text: str) -> bool:
    return not _ENGLISH_WORDS.isdisjoint(re.findall(r"\w+", text.casefold()))
