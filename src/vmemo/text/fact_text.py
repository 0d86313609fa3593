"""The text that is embedded for a fact."""

from __future__ import annotations

from datetime import datetime


def embedded_text(text: str, mentioned_at: datetime) -> str:
    """The stored text carries no date of its own, so the day is put before it."""
    return f"{mentioned_at.day} {mentioned_at:%B %Y}. {text}"
