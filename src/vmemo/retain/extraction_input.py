"""The extraction prompt's input: numbered lines with dates and speakers, preceding messages and known facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vmemo.llm.prompt_files import quote
from vmemo.models import Fact, Message
from vmemo.retain.message_times import annotate_message
from vmemo.text.chunks import split_text
from vmemo.text.noise import strip_recalled

WINDOW = 24_000
"""Characters per extraction call; a longer episode takes several calls."""
PRECEDING_MESSAGES = 6
"""Messages before an episode that are shown as context."""
_CONTEXT_CHARACTERS = 400
"""Characters shown of a context message."""


@dataclass(frozen=True)
class ExtractionLine:
    """A message, or a chunk of a long one, as the model sees it."""

    message: Message
    text: str


@dataclass(frozen=True, kw_only=True)
class ExtractionInput:
    """The input of one extraction: lines, the messages before them, and known facts."""

    lines: tuple[ExtractionLine, ...]
    before: tuple[Message, ...] = ()
    known: tuple[Fact, ...] = ()
    topic: str = ""
    agent: str = "assistant"

    @property
    def speakers(self) -> str:
        """The speakers' names, separated by commas."""
        return ", ".join(dict.fromkeys(line.message.voice for line in self.lines))

    @property
    def date(self) -> str:
        """The date of the first line."""
        return f"{self.lines[0].message.timestamp:%A %d %B %Y}"

    def quoted_lines(self) -> str:
        """Return the numbered lines."""
        return quote(f"{n} | {_header(line.message)} | {line.text}" for n, line in enumerate(self.lines, start=1))

    def quoted_context(self) -> str:
        """Return the preceding messages."""
        context = [f"{_header(message)} | {message.content[-_CONTEXT_CHARACTERS:]}" for message in self.before]
        return quote(context) if context else "none"

    def quoted_facts(self) -> str:
        """Return the known facts with their K numbers."""
        return (
            quote(f"K{n} | {describe_fact(fact)}" for n, fact in enumerate(self.known, start=1))
            if self.known
            else "none"
        )


def describe_fact(fact: Fact) -> str:
    """Return a fact with the date on which it was mentioned."""
    return f"{fact.mentioned_at:%d %B %Y} | {fact.text}"


def _header(message: Message) -> str:
    agent = " (agent)" if message.role in ("assistant", "tool") else ""
    return f"{message.timestamp:%a %d %b %Y %H:%M} | {message.voice}{agent}"


def extraction_lines(messages: Sequence[Message], *, southern: bool = False) -> tuple[ExtractionLine, ...]:
    """Return messages as lines: without recalled memories, with relative times resolved, long messages in chunks."""
    return tuple(
        ExtractionLine(message, annotate_message(message, chunk, southern=southern).text)
        for message in messages
        if (content := strip_recalled(message.content).strip())
        for chunk in split_text(content)
    )


def windows(lines: Sequence[ExtractionLine]) -> Iterator[tuple[ExtractionLine, ...]]:
    """Split lines into runs of at most WINDOW characters."""
    window: list[ExtractionLine] = []
    size = 0
    for line in lines:
        if window and size + len(line.text) > WINDOW:
            yield tuple(window)
            window, size = [], 0
        window.append(line)
        size += len(line.text)
    if window:
        yield tuple(window)
