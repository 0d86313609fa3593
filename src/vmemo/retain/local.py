"""The local engine: keeps each turn's own words, says whose they are, and finds times and names. No model is called."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from vmemo.models import Message
from vmemo.models.drafts import ExtractionResult, FactDraft, FoundName
from vmemo.ports import NameReader, TimeReader
from vmemo.text.chunks import split_text
from vmemo.text.names import find_names, merge_names
from vmemo.text.temporal import TimeExpression, annotate

CONTEXT = 400
"""Characters of the turn before that are searched along with a turn."""
GAP = timedelta(minutes=30)
"""A longer silence ends a conversation: nothing before it is context of what follows."""


class LocalExtractor:
    """Fulfils the Extractor port without any model."""

    name = "local"
    keeps_words = True

    def __init__(self, names: NameReader | None = None, times: TimeReader | None = None) -> None:
        """`names` adds what it finds to what the rules find; `times` reads other languages."""
        self._names = names
        self._times = times

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """One draft per turn, or one per piece of a long turn. The reading is done off the event loop."""
        reading = await asyncio.to_thread(_read, messages, before)
        if self._times is not None:
            reading = await asyncio.to_thread(_more_times, reading, self._times)
        return reading if self._names is None else await asyncio.to_thread(_more_names, reading, self._names)


def _more_times(reading: ExtractionResult, times: TimeReader) -> ExtractionResult:
    """Drafts with the first time that another reader finds, where that is narrower than what the rules found."""
    return replace(reading, drafts=tuple(_timed(draft, times) for draft in reading.drafts))


def _timed(draft: FactDraft, times: TimeReader) -> FactDraft:
    found = times(draft.text.partition(": ")[2], draft.mentioned_at)
    bounded = [(time.start, time.end) for time in found if time.start is not None and time.end is not None]
    known = [*bounded[:1], *([draft.occurred] if draft.occurred else [])]
    return replace(draft, occurred=min(known, key=lambda time: time[1] - time[0], default=None))


def _more_names(reading: ExtractionResult, names: NameReader) -> ExtractionResult:
    """Drafts with further names; a voice in front of the words is no part of them."""
    found = names([draft.text.partition(": ")[2] for draft in reading.drafts])
    drafts = zip(reading.drafts, found, strict=True)
    return replace(reading, drafts=tuple(replace(d, entities=merge_names(d.entities, more)) for d, more in drafts))


def _read(messages: Sequence[Message], before: Message | None) -> ExtractionResult:
    speakers = {message.speaker for message in messages if message.speaker}
    previous = [before, *messages]
    drafts = [
        draft
        for message, earlier in zip(messages, previous, strict=False)
        for draft in _drafts(message, earlier, speakers)
    ]
    return ExtractionResult(drafts=tuple(drafts))


def _drafts(message: Message, before: Message | None, speakers: set[str]) -> list[FactDraft]:
    context = _context(message, before)
    return [
        _draft(message, piece, number, speakers, context if number == 0 else "", before)
        for number, piece in enumerate(split_text(message.content))
    ]


def _draft(
    message: Message, piece: str, number: int, speakers: set[str], context: str, before: Message | None
) -> FactDraft:
    text, times = annotate(piece, message.timestamp)
    return FactDraft(
        key=f"{message.id}/{number}",
        network="experience" if message.role in ("assistant", "tool") else "world",
        text=f"{message.voice}: {text}",
        mentioned_at=message.timestamp,
        recorded_at=message.recorded_at,
        messages=(message.id,),
        context=context,
        context_from=before.id if before is not None and context else None,
        occurred=_occurred(times),
        entities=_entities(message, piece, speakers),
        tags=message.tags,
        metadata=message.metadata,
    )


def _context(message: Message, before: Message | None) -> str:
    if before is None or message.document != before.document or message.timestamp - before.timestamp > GAP:
        return ""
    return f"{before.voice}: {before.content[-CONTEXT:]}"


def _occurred(times: Sequence[TimeExpression]) -> tuple[datetime, datetime] | None:
    """The first bounded time that the text speaks of."""
    for time in times:
        if time.broad_interval.start is not None and time.broad_interval.end is not None:
            return time.broad_interval.start, time.broad_interval.end
    return None


def _entities(message: Message, text: str, speakers: set[str]) -> tuple[FoundName, ...]:
    found = find_names(text, speakers=speakers)
    if message.speaker is None:
        return found
    named = {entity.name.casefold() for entity in found}
    own = () if message.speaker.casefold() in named else (FoundName(name=message.speaker, type="PERSON"),)
    return (*own, *found)
