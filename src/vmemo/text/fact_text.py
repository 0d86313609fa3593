"""Text of a fact for embedding."""

from __future__ import annotations

from datetime import datetime

from vmemo.models.facts import COMPUTED_DATE


def embedded_text(text: str, mentioned_at: datetime) -> str:
    """Return the text with its date in front, because the stored text has none.

    The encoder was trained on computed dates without the equals sign that sets them apart for readers.
    """
    return f"{mentioned_at.day} {mentioned_at:%B %Y}. {text.replace(COMPUTED_DATE, ' (')}"
