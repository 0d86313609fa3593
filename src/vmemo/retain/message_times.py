"""Times of messages: read in every message, and written only into what a person said."""

from __future__ import annotations

from vmemo.models import Message
from vmemo.text.own_words import MAX_OWN_WORDS
from vmemo.text.temporal import DatedText, date_text


def annotate_message(message: Message, chunk: str, *, southern: bool = False) -> DatedText:
    """Return a chunk of a message with its times, and with dates written into it if they are a person's own words.

    Text written by a model is kept as it is, and so is a long one, which is mostly a document that was pasted.
    """
    dated = date_text(chunk, message.timestamp, southern=southern)
    own_words = message.role == "user" and len(message.content) <= MAX_OWN_WORDS
    return dated if own_words else dated._replace(certain=chunk)
