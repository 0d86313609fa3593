"""Names that a text sets apart: a person is not called by two names in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SENTENCE = re.compile(r"[^.!?\n]+")


def names_apart(text: str, names: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return for each name the longer names that contain it and stand beside it in one sentence, casefolded.

    "Alice met Alice Cooper" is about two people, and so is "Alice: I met Alice Cooper". In "I met Alice Cooper. Alice
    sings." the short name may repeat the long one.
    """
    folded = [name.casefold() for name in names]
    longer = {name: [other for other in folded if _contains(other, name.casefold())] for name in names}
    if not any(longer.values()):
        return dict.fromkeys(names, frozenset())
    speaker, _, words = text.casefold().partition(": ")
    sentences: Sequence[str] = _SENTENCE.findall(words or speaker)
    return {name: frozenset(_beside(name.casefold(), longer[name], speaker, sentences)) for name in names}


def _contains(long: str, short: str) -> bool:
    return long != short and f" {short} " in f" {long} "


def _beside(short: str, longer: Sequence[str], speaker: str, sentences: Sequence[str]) -> Iterator[str]:
    if not longer:
        return
    alone = re.compile(rf"(?<!\w){re.escape(short)}(?!\w)")
    for sentence in sentences:
        rest = sentence
        for name in sorted(longer, key=len, reverse=True):
            rest = rest.replace(name, " ")
        if speaker == short or alone.search(rest):
            yield from (name for name in longer if name in sentence)
