"""Parts of a message that are not its author's own words: code, quotations, and text that was pasted or forwarded.

Marks show some of them: quotation marks, tags, the head of a mail. Others follow a request, such as "Translate this:",
which an author also uses before own words: they are foreign for a standing instruction, which only the user may give.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, compress

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.names.lexicon import all_names, is_common_word, normalize_word
from vmemo.text.pattern_files import read_patterns
from vmemo.text.split import sentence_spans

MAX_OWN_WORDS = 2_000
"""Characters of a message; a longer one is mostly a document that was pasted."""
_MAX_READ = 4096
"""Texts whose own words stay in memory: each is compared with many others."""
_PATTERNS = read_patterns("own_words.txt")
_HEAD = LazyPattern("|".join(_PATTERNS["head"]), re.IGNORECASE | re.MULTILINE)
"""The head of a letter, a forwarded message or a commit, or the words before what somebody said."""
_PASTED = LazyPattern("|".join(_PATTERNS["pasted"]), re.IGNORECASE | re.MULTILINE)
"""The words before a text that was pasted; the reader itself sees other introductions, such as "she wrote:"."""
_PASTED_BEFORE = LazyPattern("|".join(_PATTERNS["pasted before"]), re.IGNORECASE)
"""A request about the text before it."""
_PERSONA = LazyPattern("|".join(_PATTERNS["persona"]))
"""The start of a part that the assistant is to play, or of a prompt that was pasted: "You are a travel agent."."""
_OPENING = 200
"""Characters at the start of a message."""
_FENCE = LazyPattern(r"^[ \t]{0,3}(?:```|~~~|\'\'\'|\"\"\")", re.MULTILINE)
_QUOTED_LINE = LazyPattern(r"^(?:[ \t]{0,8}[>|]| {4}|\t).*$", re.MULTILINE)
"""A line that is quoted, or of a table, or indented as code is."""
_QUOTATION = LazyPattern(r"[\"“„«][^\"“”„«»\n]{20,}[\"“”»]|[「『][^「」『』\n]{8,}[」』]")
"""Words in quotation marks; a short quotation is a word or a name."""
_TAG = LazyPattern(r"[<\[](/?)([A-Za-z][\w-]{0,30})(?:\s[^<>\[\]\n]{0,200})?[>\]]")
_LABEL = LazyPattern(
    r"^(?:\W{0,2}\d[\d/:., -]{2,30}(?:[AP]M)?\W{0,4})?([A-Z][\w'’.-]{1,30})(?: [A-Z][\w'’.-]{0,30}){0,2}: .*",
    re.MULTILINE,
)
"""A line of a conversation that was copied, "Omar: I moved.", or of a list of fields."""
_JOKE = LazyPattern("|".join(_PATTERNS["joke"]), re.IGNORECASE)


def begins_persona(text: str) -> bool:
    """Return True if a message opens with a part that the assistant is to play, or with a prompt that was pasted."""
    return (persona := _PERSONA.search(text)) is not None and persona.start() < _OPENING


def foreign_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a message that are quoted, code or pasted, or may be; they may overlap."""
    found = quoted_spans(text)
    starts = [match.end() for pattern in (_PASTED, _PERSONA) if (match := pattern.search(text))]
    starts += [label.start() for label in _LABEL.finditer(text)][-2:-1]
    if starts:
        found.append((min(starts), len(text)))
    if (asked := _PASTED_BEFORE.search(text)) is not None:
        found.append((0, asked.start()))
    return found


@lru_cache(maxsize=_MAX_READ)
def own_words(text: str) -> str:
    """Return what the author of a message states in earnest, without what is marked as another's words or as a joke."""
    return own_parts([text])[0]


def own_parts(parts: Sequence[str]) -> list[str]:
    """Return the author's own words in each of the parts that a message consists of."""
    text = "\n".join(parts)
    foreign = _merged(sorted((*quoted_spans(text), *_jokes(text))))
    if not foreign:
        return list(parts)
    own = bytearray(b"1") * len(text)
    for start, end in foreign:
        own[start:end] = bytes(end - start)
    ends = accumulate(len(part) + 1 for part in parts)
    spans = ((part, own[end - len(part) - 1 : end - 1]) for part, end in zip(parts, ends, strict=True))
    return ["".join(compress(part, kept)).strip() for part, kept in spans]


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, with those that overlap as one, so that each is looked at once per part."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def quoted_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a message that are marked as code, a quotation or forwarded text; they may overlap."""
    found = [match.span() for pattern in (_QUOTED_LINE, _QUOTATION) for match in pattern.finditer(text)]
    fences = list(_FENCE.finditer(text))
    ends = [*(fence.end() for fence in fences[1::2]), len(text)]
    found += zip((fence.start() for fence in fences[::2]), ends, strict=False)
    found += _tagged(text)
    found += [label.span() for label in _LABEL.finditer(text) if _is_name(label[1])]
    return [*found, (head.end(), len(text))] if (head := _HEAD.search(text)) else found


def _is_name(word: str) -> bool:
    plain = normalize_word(word)
    return plain in all_names() or not (word.isupper() or is_common_word(plain))


def _tagged(text: str) -> Iterator[tuple[int, int]]:
    """Yield what stands between a tag and the last one that closes it."""
    tags = list(_TAG.finditer(text))
    ends = {tag[2].lower(): tag.end() for tag in tags if tag[1]}
    for tag in tags:
        end = ends.get(tag[2].lower(), 0)
        if not tag[1] and end > tag.end():
            yield tag.start(), end


def _jokes(text: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences that are marked as jokes; a mark at the start is also about the sentence before it."""
    before = 0
    for start, end in sentence_spans(text) if _JOKE.search(text) else ():
        if (joke := _JOKE.search(text, start, end)) is not None:
            yield (start if text[start : joke.start()].strip() else before), end
        before = start
