"""BERT's uncased WordPiece tokenizer. A marker such as "[CLS]" in a text is plain text.

Hand-made, because the package tokenizers installs 38 MB with huggingface_hub and its network code.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

MAX_WORD = 100
"""Characters of a word; a longer one is unknown, as in BERT."""
_CHUNK = 4096
_MAX_NORMALIZED = 16_384
_MAX_WORDS = 32_768
_DROPPED = frozenset({"Cc", "Cf", "Co", "Cs"})
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Encodes texts as token ids, which are line numbers of the vocabulary. Threads may share it."""

    def __init__(self, vocabulary: Sequence[str], *, max_tokens: int) -> None:
        self._ids = {token: number for number, token in enumerate(vocabulary)}
        self._unknown = [self._ids["[UNK]"]]
        self._start = self._ids["[CLS]"]
        self._end = self._ids["[SEP]"]
        self._max_ids = max_tokens - 2
        self._longest = max(map(len, vocabulary))
        self._normalized = _Normalized()
        self._words: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Return the text's ids between start and end marker, truncated to `max_tokens`."""
        ids = [self._start]
        full = self._max_ids + 1
        for word in self._split(text):
            ids += self._words.get(word) or self._look_up(word)
            if len(ids) >= full:
                del ids[full:]
                break
        ids.append(self._end)
        return ids

    def _split(self, text: str) -> Iterator[str]:
        """Yield the words in order, chunk by chunk: of a long text, only the beginning is used."""
        unfinished = ""
        for start in range(0, len(text), _CHUNK):
            spaced = unfinished + text[start : start + _CHUNK].translate(self._normalized)
            words = spaced.split()
            unfinished = ""
            if words and not spaced[-1].isspace():
                unfinished = words.pop()[: MAX_WORD + 1]
            yield from words
        if unfinished:
            yield unfinished

    def _look_up(self, word: str) -> list[int]:
        pieces = self._pieces(word) if len(word) <= MAX_WORD else self._unknown
        if len(self._words) >= _MAX_WORDS:
            self._words.clear()
        self._words[word] = pieces
        return pieces

    def _pieces(self, word: str) -> list[int]:
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end = min(len(word), start + self._longest)
            while (found := self._ids.get(word[start:end] if start == 0 else f"##{word[start:end]}")) is None:
                end -= 1
                if end == start:
                    return self._unknown
            pieces.append(found)
            start = end
        return pieces


class _Normalized(dict[int, str]):
    """A table for `str.translate` of BERT's normalization, whose rules depend on one character each."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _MAX_NORMALIZED:
            self.clear()
        normalized = self[code] = _normalize(chr(code))
        return normalized


def _normalize(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character == "\ufffd" or unicodedata.category(character) in _DROPPED:
        return ""
    if character.isspace():
        return " "
    plain = "".join(map(_lower, unicodedata.normalize("NFD", character)))
    code = ord(character)
    if any(first <= code <= last for first, last in _IDEOGRAPHS):
        return f" {plain} "
    return plain


def _lower(character: str) -> str:
    if unicodedata.category(character) == "Mn":
        return ""
    return "".join(f" {lower} " if _is_punctuation(lower) else lower for lower in character.lower())


def _is_punctuation(character: str) -> bool:
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
