"""The local engine: keeps each message's words with its speaker, and finds times and names by rules.

Greetings, acknowledgements and bare questions give no facts; they stay searchable as messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from vmemo.models import Message, MessageId
from vmemo.models.changes import ExtractionResult, FactDraft, FoundName
from vmemo.ports import NameReader, TimeReader
from vmemo.text.fact_text import after_line
from vmemo.text.instructions import InstructionSpan, find_instructions
from vmemo.text.names import find_names, merge_names
from vmemo.text.names.lexicon import is_foreign
from vmemo.text.noise import is_bare_question, is_empty_question, is_small_talk
from vmemo.text.own_words import MAX_OWN_WORDS
from vmemo.text.split import split_text
from vmemo.text.temporal import DatedText, TimeExpression, date_text

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

    def __init__(
        self, names: NameReader | None = None, times: TimeReader | None = None, *, southern: bool = False
    ) -> None:
        """Use `names` and `times` in addition to the built-in rules, such as for other languages.

        With `southern`, seasons are those of the southern hemisphere.
        """
        self._names = names
        self._times = times
        self._southern = southern

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """Return one draft per message, or per chunk of a long one, and none for noise.

        A standing instruction of the user to the agent is a draft of its own.

        Runs in threads, so that others can go on.
        """
        reading = ExtractionResult(drafts=tuple(await _in_slices(_extract(messages, before, southern=self._southern))))
        if self._times is not None:
            reading = await asyncio.to_thread(_add_times, reading, self._times)
        return reading if self._names is None else await asyncio.to_thread(_add_names, reading, self._names)


def _add_times(reading: ExtractionResult, times: TimeReader) -> ExtractionResult:
    """Add the first time that `times` finds, if it is narrower than the one found by the rules."""
    return replace(reading, drafts=tuple(_add_time(draft, times) for draft in reading.drafts))


def _add_time(draft: FactDraft, times: TimeReader) -> FactDraft:
    found = times(draft.text.partition(": ")[2], draft.mentioned_at)
    bounded = [(time.start, time.end) for time in found if time.start is not None and time.end is not None]
    known = [*bounded[:1], *([draft.occurred] if draft.occurred else [])]
    return replace(draft, occurred=min(known, key=lambda time: time[1] - time[0], default=None))


def _add_names(reading: ExtractionResult, names: NameReader) -> ExtractionResult:
    """Add the names that `names`, which reads English, finds in the text after the speaker."""
    texts = [draft.text.partition(": ")[2] for draft in reading.drafts]
    found = names(["" if is_foreign(text) else text for text in texts])
    drafts = zip(reading.drafts, found, strict=True)
    return replace(reading, drafts=tuple(replace(d, entities=merge_names(d.entities, more)) for d, more in drafts))


async def _in_slices(drafts: Iterator[FactDraft]) -> list[FactDraft]:
    """Return all drafts; each slice is made in a thread, and a cancelled call makes no further one."""
    made: list[FactDraft] = []
    while drafts_of_slice := await asyncio.to_thread(_slice, drafts):
        made += drafts_of_slice
        if sum(len(draft.text) for draft in drafts_of_slice) < SLICE_CHARACTERS:
            break
    return made


def _slice(drafts: Iterator[FactDraft]) -> list[FactDraft]:
    taken: list[FactDraft] = []
    size = 0
    for draft in drafts:
        taken.append(draft)
        size += len(draft.text)
        if size >= SLICE_CHARACTERS:
            break
    return taken


def _extract(messages: Sequence[Message], before: Message | None, *, southern: bool) -> Iterator[FactDraft]:
    speakers = {message.speaker for message in messages if message.speaker}
    users = agent_users([message for message in (before, *messages) if message is not None])
    for message, earlier, later in zip(messages, [before, *messages], [*messages[1:], None], strict=False):
        instructions = find_instructions(message.content) if message.id in users else []
        if not instructions and _is_noise(message, earlier, later):
            continue
        for number, part in enumerate(_parts(message.content, instructions)):
            dated = annotate_message(message, part.text, southern=southern)
            entities = _entities(message, part.text, speakers)
            yield _draft(message, part, number, dated, entities, earlier if number == 0 else None)


class MessagePart(NamedTuple):
    """The text of one draft of a message."""

    text: str
    instruction: bool = False


def _parts(content: str, instructions: Sequence[InstructionSpan]) -> Iterator[MessagePart]:
    """Yield the chunks of a message without its standing instructions, and each of these by itself."""
    if not instructions:
        yield from map(MessagePart, split_text(content))
        return
    ends = [0, *(each.end for each in instructions)]
    starts = [*(each.start for each in instructions), len(content)]
    rest = " ".join(filter(None, (content[end:start].strip() for end, start in zip(ends, starts, strict=True))))
    if rest and not is_small_talk(rest):
        yield from map(MessagePart, split_text(rest))
    yield from (MessagePart(each.text, instruction=True) for each in instructions)


def _is_noise(message: Message, before: Message | None, after: Message | None) -> bool:
    """Return True for greetings, acknowledgements and questions that state nothing.

    Questions between people are kept if they name anything, because an answer such as "Yes, in May" needs them.
    """
    if is_small_talk(message.content) or is_empty_question(message.content):
        return True
    asks_assistant = message.speaker is None or any(
        other is not None and other.role == "assistant" for other in (before, after)
    )
    return message.role == "user" and asks_assistant and is_bare_question(message.content)


def _draft(
    message: Message,
    part: MessagePart,
    number: int,
    dated: DatedText,
    entities: tuple[FoundName, ...],
    before: Message | None,
) -> FactDraft:
    context = _context(message, before)
    return FactDraft(
        key=f"{message.id}/{number}",
        network="experience" if message.role in ("assistant", "tool") else "world",
        text=f"{message.voice}: {dated.certain}",
        likely_dates=after_line(continued_line(message, before), f"{message.voice}: {dated.likely}"),
        mentioned_at=message.timestamp,
        recorded_at=message.recorded_at,
        messages=(message.id,),
        context=context,
        context_from=before.id if before is not None and context else None,
        occurred=first_interval(dated.expressions),
        entities=entities,
        tags=message.tags,
        metadata=message.metadata,
        instruction=part.instruction,
    )


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


def first_interval(times: Sequence[TimeExpression]) -> tuple[datetime, datetime] | None:
    """Return the first bounded time in the text."""
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


def agent_users(messages: Sequence[Message]) -> set[MessageId]:
    """Return the messages of a conversation that a user says to the agent.

    A conversation between people has several speakers of the role `user` and no message of the role `assistant`.
    """
    said = [message for message in messages if message.role == "user"]
    with_agent = any(message.role == "assistant" for message in messages)
    alone = len({message.speaker for message in said}) <= 1
    return {message.id for message in said} if with_agent or alone else set()


def annotate_message(message: Message, chunk: str, *, southern: bool = False) -> DatedText:
    """Return a chunk of a message with its times, and with dates written into it if they are a person's own words.

    Text written by a model is kept as it is, and so is a long one, which is mostly a document that was pasted.
    """
    dated = date_text(chunk, message.timestamp, southern=southern)
    own_words = message.role == "user" and len(message.content) <= MAX_OWN_WORDS
    return dated if own_words else dated._replace(certain=chunk)
