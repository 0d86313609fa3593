"""Text of a fact for embedding."""

from __future__ import annotations

from datetime import datetime

from vmemo.text.temporal import annotate_likely

OWN_WORDS_ENGINES = ("local", "verbatim")
"""Engines whose facts are the words of a message."""
EDITED_BY_HAND = "user"
"""The engine of facts that were written with `update()`."""


def embedded_text(text: str, mentioned_at: datetime, engine: str = OWN_WORDS_ENGINES[0], *, after: str = "") -> str:
    """Return the text with its date in front, because the stored text has none, and with the likely dates of its times.

    The encoder was trained on these: a likely date serves a search, even where it is too uncertain to be stored. A
    model has dated the facts that it wrote, so their times are not resolved again. `after` is the line that a short
    line continues.
    """
    likely = annotate_likely(text, mentioned_at) if engine in OWN_WORDS_ENGINES else text
    return with_date(after_line(after, likely), mentioned_at)


def after_line(line: str, text: str) -> str:
    """Return a text with the line that it continues, if there is one, after its speaker."""
    speaker, _, words = text.partition(": ")
    return f"{speaker}: {line} {words}" if line else text


def with_date(text: str, mentioned_at: datetime) -> str:
    """Return the text with its date in front."""
    return f"{mentioned_at.day} {mentioned_at:%B %Y}. {text}"
