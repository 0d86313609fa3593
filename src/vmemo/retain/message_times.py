"""Times of messages: read in every message, and written only into what a person said."""

from __future__ import annotations

from vmemo.models import Message
from vmemo.text.own_words import MAX_OWN_WORDS
from vmemo.text.temporal import AnnotatedText, annotate, find_statement_times


def annotate_message(message: Message, chunk: str, *, southern: bool = False) -> AnnotatedText:
    """Return a chunk of a message with its times, and with dates written into it if they are a person's own words.

    Text written by a model is kept as it is, and so is a long one, which is mostly a document that was pasted.
    """
    if message.role == "user" and len(message.content) <= MAX_OWN_WORDS:
        return annotate(chunk, message.timestamp, southern=southern)
    return AnnotatedText(chunk, find_statement_times(chunk, message.timestamp, southern=southern))
