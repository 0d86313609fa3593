"""The extraction prompt's input: numbered lines with dates and speakers, preceding messages and known facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from vmemo.llm.prompt_files import quote
from vmemo.models import Fact, Message
from vmemo.retain.message_times import annotate_message
from vmemo.text.noise import strip_recalled
from vmemo.text.split import split_text

WINDOW = 24_000
"""Characters per extraction call; a longer episode takes several calls."""
PRECEDING_MESSAGES = 4
"""Messages before an episode that are shown as context."""
_CONTEXT_CHARACTERS = 200
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
    title: str = ""
    """The subject of the episode, for the prediction; it quotes no line."""
    repeats: bool = False
    """Most of the lines are close to known facts, so that a prediction saves more than it costs."""
    agent: str = "assistant"

    @property
    def date(self) -> str:
        """The date of the first line."""
        return f"{self.lines[0].message.timestamp:%A %d %B %Y}"

    def quoted_lines(self) -> str:
        """Return the numbered lines, with the date above the first line of each day."""
        shown: list[str] = []
        day: date | None = None
        for n, line in enumerate(self.lines, start=1):
            at = line.message.timestamp
            if at.date() != day:
                day = at.date()
                shown.append(f"{at:%A %d %B %Y, %H:%M}")
            shown.append(f"{n} | {_speaker(line.message)} | {line.text}")
        return quote(shown)

    def context(self, expected: Sequence[str]) -> str:
        """Return the sections above the lines: known facts, expected statements and preceding messages, if any."""
        sections = {
            "Known facts:": self.numbered_facts(),
            "Expected:": expected,
            "Said before, for context only (extract nothing from it):": [
                f"{_speaker(message)} | {message.content[-_CONTEXT_CHARACTERS:]}" for message in self.before
            ],
        }
        return "\n".join(f"{heading}\n{quote(lines)}" for heading, lines in sections.items() if lines)

    def numbered_facts(self) -> list[str]:
        """Return the known facts with their K numbers."""
        return [f"K{n} | {describe_fact(fact)}" for n, fact in enumerate(self.known, start=1)]


def describe_fact(fact: Fact) -> str:
    """Return a fact with the date on which it was mentioned."""
    return f"{fact.mentioned_at:%d %b %Y} | {fact.text}"


def _speaker(message: Message) -> str:
    return f"{message.voice} (agent)" if message.role in ("assistant", "tool") else message.voice


def extraction_lines(messages: Sequence[Message], *, southern: bool = False) -> tuple[ExtractionLine, ...]:
    """Return messages as lines: without recalled memories, with relative times resolved, long messages in chunks."""
    return tuple(
        ExtractionLine(message, annotate_message(message, chunk, southern=southern).certain)
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
