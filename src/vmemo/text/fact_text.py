"""Text of a fact for embedding."""

from __future__ import annotations

from datetime import datetime

from vmemo.text.temporal import annotate_likely


def embedded_text(text: str, mentioned_at: datetime) -> str:
    """Return the text with its date in front, because the stored text has none, and with the likely dates of its times.

    The encoder was trained on these: a likely date serves a search, even where it is too uncertain to be stored.
    """
    return f"{mentioned_at.day} {mentioned_at:%B %Y}. {annotate_likely(text, mentioned_at)}"
