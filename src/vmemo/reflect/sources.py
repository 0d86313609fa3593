"""The messages that facts come from: who said them, and at which place of the conversation."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from vmemo.models import Fact, FactId, Hit, Message, MessageId, Role

LoadMessages = Callable[[Sequence[MessageId]], Awaitable[Sequence[Message]]]
_FIRST_PERSON = re.compile(r"\b(?:I|i(?!\.)|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself|[Ww]e|[Oo]urs?|[Uu]s)\b")
_MATCHED = 60
"""Characters of a part of a message that find its place in the message."""


@dataclass(frozen=True, slots=True)
class Source:
    """The first message that states a fact."""

    place: tuple[datetime, datetime, int]
    """The time and the record of the message, and the offset of the fact's words in it: the order of what was said."""
    message: MessageId | None = None
    role: Role | None = None
    speaker: str | None = None
    content: str = ""
    """The whole message."""


async def load_sources(hits: Sequence[Hit], load: LoadMessages) -> Mapping[FactId, Source]:
    """Return the source of each hit."""
    ids = list(dict.fromkeys(id for hit in hits for id in hit.fact.messages))
    messages = {message.id: message for message in await load(ids)} if ids else {}
    return {hit.id: _source(hit.fact, messages) for hit in hits}


def _source(fact: Fact, messages: Mapping[MessageId, Message]) -> Source:
    stated = [messages[id] for id in fact.messages if id in messages]
    if not stated:
        return source_of(fact)
    first = min(stated, key=lambda message: (message.timestamp, message.recorded_at))
    body = fact.text.partition(": ")[2] if fact.engine == "local" else ""
    offset = max(0, first.content.find(body[:_MATCHED])) if body else 0
    return Source((first.timestamp, first.recorded_at, offset), first.id, first.role, first.speaker, first.content)


def source_of(fact: Fact) -> Source:
    """Return the source of a fact whose messages are not known."""
    return Source((fact.mentioned_at, fact.recorded_at, 0))


def asker(question: str, sources: Mapping[FactId, Source], users: Collection[str | None]) -> str | None:
    """Return the name of who says "I" in a question, or "User" if users have no names.

    Return None if there is no "I", or if it is not known whose: `users` are names of users known otherwise.
    """
    if _FIRST_PERSON.search(question) is None:
        return None
    names = {*users, *(source.speaker for source in sources.values() if source.role == "user")}
    return None if len(names) > 1 else next(iter(names), None) or "User"
