"""Choosing what fits: by tokens or by count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar


class Sized(Protocol):
    """Something with a token count."""

    @property
    def tokens(self) -> int: ...


Item = TypeVar("Item", bound=Sized)


def pack(candidates: Iterable[Item], max_tokens: int | None, top_k: int | None) -> list[Item]:
    """The first candidates whose tokens fit together. One that does not fit is passed over for the next."""
    return list(_fitting(candidates, max_tokens, top_k))


def _fitting(candidates: Iterable[Item], max_tokens: int | None, top_k: int | None) -> Iterator[Item]:
    left, taken = max_tokens, 0
    for candidate in candidates:
        if top_k is not None and taken >= top_k:
            return
        if left is not None and candidate.tokens > left:
            continue
        taken += 1
        if left is not None:
            left -= candidate.tokens
        yield candidate
