"""An episode as the reading model sees it: numbered lines with dates and speakers, and what is known already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vmemo.llm.prompt_files import quote
from vmemo.models import Fact, Message
from vmemo.text.chunks import split_text
from vmemo.text.noise import strip_recalled
from vmemo.text.temporal import annotate

WINDOW = 24_000
"""Characters that are read in one call; a longer episode takes several."""
OVERHEARD = 6
"""Messages before an episode that are shown with it, so that it can be understood."""
SHORT = 400
"""Characters of a message that is shown for understanding only."""


@dataclass(frozen=True)
class Line:
    """A message, or a piece of a long one, as it is shown."""

    message: Message
    words: str


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is read at once: lines, what was said before them, and the facts that are known."""

    lines: tuple[Line, ...]
    before: tuple[Message, ...] = ()
    known: tuple[Fact, ...] = ()
    topic: str = ""
    agent: str = "assistant"

    @property
    def voices(self) -> str:
        """Who speaks."""
        return ", ".join(dict.fromkeys(line.message.voice for line in self.lines))

    @property
    def day(self) -> str:
        """When it begins."""
        return f"{self.lines[0].message.timestamp:%A %d %B %Y}"

    def shown(self) -> str:
        """The numbered lines."""
        return quote(f"{n} | {_head(line.message)} | {line.words}" for n, line in enumerate(self.lines, start=1))

    def overheard(self) -> str:
        """What was said before."""
        heard = [f"{_head(message)} | {message.content[-SHORT:]}" for message in self.before]
        return quote(heard) if heard else "none"

    def remembered(self) -> str:
        """The known facts with their numbers."""
        return quote(f"K{n} | {known(fact)}" for n, fact in enumerate(self.known, start=1)) if self.known else "none"


def known(fact: Fact) -> str:
    """A stored fact with the day it was told."""
    return f"{fact.mentioned_at:%d %B %Y} | {fact.text}"


def _head(message: Message) -> str:
    agent = " (agent)" if message.role in ("assistant", "tool") else ""
    return f"{message.timestamp:%a %d %b %Y %H:%M} | {message.voice}{agent}"


def lines_of(messages: Sequence[Message]) -> tuple[Line, ...]:
    """Messages as lines: without what memory itself had recalled, with relative times dated, long ones in pieces."""
    return tuple(
        Line(message, annotate(piece, message.timestamp).text)
        for message in messages
        if (own := strip_recalled(message.content).strip())
        for piece in split_text(own)
    )


def windows(lines: Sequence[Line]) -> Iterator[tuple[Line, ...]]:
    """Lines in runs that a model can read at once."""
    window: list[Line] = []
    size = 0
    for line in lines:
        if window and size + len(line.words) > WINDOW:
            yield tuple(window)
            window, size = [], 0
        window.append(line)
        size += len(line.words)
    if window:
        yield tuple(window)
