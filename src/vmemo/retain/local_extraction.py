"""The local engine: keeps each message's words with its speaker, and finds their times.

The reader (`retain.reader`) then finds names and standing instructions, and leaves out what is not worth remembering.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter

from vmemo.models import Message, MessageId
from vmemo.models.changes import DraftSource, ExtractionResult, FactDraft
from vmemo.models.records import IS_PROCEDURE
from vmemo.ports import TimeReader
from vmemo.text.own_words import MAX_OWN_WORDS
from vmemo.text.procedures import find_procedure
from vmemo.text.split import split_text
from vmemo.text.temporal import DATE, DatedText, TimeExpression, date_text, with_doubtful
from vmemo.text.temporal.annotation import after_line

CONTEXT_CHARACTERS = 400
"""Characters of the previous message that are searched along with a message."""
MAX_CONTEXT_GAP = timedelta(minutes=30)
"""After a longer gap, the previous message is not context."""
MAX_LINE_WORDS, MAX_LINE_CHARACTERS = 5, 40
"""Size of a short line, which is embedded together with the short line before it."""
MAX_LINE_GAP = timedelta(minutes=1)
"""After a longer gap, a line does not continue the one before it."""
SLICE_CHARACTERS = 32_000
"""Characters that are processed without a break."""


class LocalExtractor:
    """Implements the Extractor port without a language model."""

    name = "local"
    keeps_words = True

    def __init__(self, times: TimeReader | None = None, *, southern: bool = False) -> None:
        """Read times also with `times`; with `southern`, seasons are those of the southern hemisphere."""
        self._times = times
        self._southern = southern

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """Return a draft with its source per message, or per chunk of a long one; in threads, so that others go on."""
        return ExtractionResult(drafts=tuple(await _in_slices(self._extract(messages, before))))

    def _extract(self, messages: Sequence[Message], before: Message | None) -> Iterator[FactDraft]:
        speakers = frozenset(message.speaker for message in messages if message.speaker)
        users = agent_users([message for message in (before, *messages) if message is not None])
        for message, earlier in zip(messages, [before, *messages], strict=False):
            for number, (chunk, is_procedure) in enumerate(_chunks(message, earlier)):
                before_chunk = earlier if number == 0 else None
                draft = self._draft(message, before_chunk, speakers, message.id in users, chunk)
                if is_procedure:
                    draft = replace(draft, metadata={**IS_PROCEDURE, **draft.metadata})
                yield replace(draft, key=f"{message.id}/{number}")

    def _date(
        self, message: Message, words: str, dated: DatedText, draft: FactDraft, meant: Callable[[int, int], float]
    ) -> FactDraft:
        """Return the draft with the time that is most probably meant, and doubtful dates that are probably right."""
        if self._times is None:
            draft = replace(draft, occurred=main_interval(dated.expressions, meant))
        accepted = {each.start for each in dated.doubtful if each.probability(meant(each.start, each.end)) >= DATE}
        if not accepted or not _has_own_words(message):
            return draft
        text = with_doubtful(words, message.timestamp, accepted, southern=self._southern)
        return replace(draft, text=f"{message.voice}: {text}")

    def _draft(
        self, message: Message, before: Message | None, speakers: frozenset[str], to_agent: bool, words: str
    ) -> FactDraft:
        dated = annotate_message(message, words, southern=self._southern)
        context = _context(message, before)
        draft = FactDraft(
            network="experience" if message.role in ("assistant", "tool") else "world",
            text=f"{message.voice}: {dated.certain}",
            likely_dates=after_line(continued_line(message, before), f"{message.voice}: {dated.likely}"),
            mentioned_at=message.timestamp,
            recorded_at=message.recorded_at,
            messages=(message.id,),
            context=context,
            context_from=before.id if before is not None and context else None,
            occurred=main_interval(dated.expressions),
            tags=message.tags,
            metadata=message.metadata,
            source=DraftSource(
                message=message,
                words=words,
                annotated=dated.likely,
                to_agent=to_agent,
                speakers=speakers,
                draft=partial(self._draft, message, before, speakers, to_agent),
                date=partial(self._date, message, words, dated),
            ),
        )
        if self._times is not None:
            found = self._times(draft.text.partition(": ")[2], draft.mentioned_at)
            bounded = [(time.start, time.end) for time in found if time.start is not None and time.end is not None]
            known = [*bounded[:1], *([draft.occurred] if draft.occurred else [])]
            draft = replace(draft, occurred=min(known, key=lambda time: time[1] - time[0], default=None))
        return draft


def _chunks(message: Message, before: Message | None) -> list[tuple[str, bool]]:
    """Return the chunks of a message in order; a procedure is one of its own, whatever its length."""
    question = before.content if before is not None and _context(message, before) else ""
    by_agent = message.role in ("assistant", "tool")
    found = find_procedure(message.content, before=question, by_agent=by_agent)
    if found is None:
        return [(chunk, False) for chunk in split_text(message.content)]
    before_it, after_it = (
        [(c, False) for c in split_text(part)]
        for part in (message.content[: found.start], message.content[found.end :])
    )
    return [*before_it, (message.content[found.start : found.end].strip(), True), *after_it]


async def _in_slices(drafts: Iterator[FactDraft]) -> list[FactDraft]:
    """Return all drafts; each slice is made in a thread, and a cancelled call makes no further one."""
    made: list[FactDraft] = []

    def make_slice() -> bool:
        size = 0
        while size < SLICE_CHARACTERS and (draft := next(drafts, None)) is not None:
            made.append(draft)
            size += len(draft.text)
        return size >= SLICE_CHARACTERS

    while await asyncio.to_thread(make_slice):
        pass
    return made


def _context(message: Message, before: Message | None) -> str:
    if before is None or message.document != before.document or message.timestamp - before.timestamp > MAX_CONTEXT_GAP:
        return ""
    return f"{before.voice}: {before.content[-CONTEXT_CHARACTERS:]}"


def continued_line(message: Message, before: Message | None) -> str:
    """Return the words of the message before, if this one continues it: both are short lines of one named speaker.

    People write one sentence in several lines: "so the party", "the blue door". Only the message before is read, which
    is the same whether messages arrive together or one by one, and which is the fact's `context_from`, so that the
    fact is derived again when it is forgotten. A line that ends a sentence is not continued.
    """
    if before is None or message.speaker is None or not _context(message, before):
        return ""
    same = (before.speaker, before.role, message.role) == (message.speaker, "user", "user")
    soon = timedelta() <= message.timestamp - before.timestamp <= MAX_LINE_GAP
    short = _is_short_line(message.content) and _is_short_line(before.content)
    return before.content if same and soon and short and not before.content.endswith((".", "!", "?", "…")) else ""


def _is_short_line(text: str) -> bool:
    return len(text) <= MAX_LINE_CHARACTERS and len(text.split()) <= MAX_LINE_WORDS


def main_interval(
    times: Sequence[TimeExpression], meant: Callable[[int, int], float] = lambda start, end: 0.0
) -> tuple[datetime, datetime] | None:
    """Return the first of the times that are most probably meant as dates."""
    bounded = [
        (meant(time.start, time.end), (time.named.start, time.named.end))
        for time in times
        if time.named and time.named.start is not None and time.named.end is not None
    ]
    return max(bounded, key=itemgetter(0), default=(0.0, None))[1]


def agent_users(messages: Sequence[Message]) -> set[MessageId]:
    """Return the messages of a conversation that a user says to the agent.

    A conversation between people has several speakers of the role `user` and no message of the role `assistant`.
    """
    said = [message for message in messages if message.role == "user"]
    with_agent = any(message.role == "assistant" for message in messages)
    alone = len({message.speaker for message in said}) <= 1
    return {message.id for message in said} if with_agent or alone else set()


def annotate_message(message: Message, chunk: str, *, southern: bool = False) -> DatedText:
    """Return a chunk of a message with its times; dates are written only into a person's own words, not a document."""
    dated = date_text(chunk, message.timestamp, southern=southern)
    return dated if _has_own_words(message) else dated._replace(certain=chunk)


def _has_own_words(message: Message) -> bool:
    return message.role == "user" and len(message.content) <= MAX_OWN_WORDS
