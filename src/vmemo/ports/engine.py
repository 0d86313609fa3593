"""The protocols of extraction: engines, and finders of names and times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from vmemo.models import Interval, Message
from vmemo.models.drafts import ExtractionResult, FoundName


class NameReader(Protocol):
    """Finds the names in texts. Called from a worker thread."""

    def __call__(self, texts: Sequence[str], /) -> Sequence[Sequence[FoundName]]: ...


class TimeReader(Protocol):
    """Finds the times in a text, relative to the time of its message. Called from any thread."""

    def __call__(self, text: str, reference: datetime, /) -> Sequence[Interval]: ...


@runtime_checkable
class Extractor(Protocol):
    """Extracts drafts of facts from messages. `keeps_words` is True if drafts repeat the messages' own words."""

    @property
    def name(self) -> str: ...
    @property
    def keeps_words(self) -> bool: ...
    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult: ...
