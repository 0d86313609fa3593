"""Write-time steps left out: what stands around the local engine and the embedder so that one step has no effect.

Names stay those of what is wrapped, so that facts keep their ids and only the step makes a difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vmemo.models import Message
from vmemo.ports import Draft, Embedder, Encoding, Reading, TextKind, Vectors, encodings
from vmemo.retain.local import LocalExtractor
from vmemo.retain.split import split

_DAY = re.compile(r"\d{1,2} [A-Z][a-z]+ \d{4}\. ")


class WithoutDates(LocalExtractor):
    """Texts as they were said: no absolute date after "yesterday"."""

    async def read(self, messages: Sequence[Message], before: Message | None) -> Reading:
        """The local engine's drafts over the turns' own words."""
        reading = await super().read(messages, before)
        said = {f"{m.id}/{n}": f"{m.voice}: {piece}" for m in messages for n, piece in enumerate(split(m.content))}
        return replace(reading, drafts=tuple(replace(draft, text=said[draft.key]) for draft in reading.drafts))


class WithoutContext(LocalExtractor):
    """Each turn by itself, without the turn before."""

    async def read(self, messages: Sequence[Message], before: Message | None) -> Reading:
        """The local engine's drafts without context."""
        reading = await super().read(messages, before)
        return replace(reading, drafts=tuple(map(_alone, reading.drafts)))


def _alone(draft: Draft) -> Draft:
    return replace(draft, context="", context_from=None)


class WithoutDays:
    """Embeds documents without the day that retain puts before them."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        return await self._embedder.embed(_stripped(texts, kind), kind)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        return await encodings(self._embedder, _stripped(texts, kind), kind)


def _stripped(texts: Sequence[str], kind: TextKind) -> Sequence[str]:
    if kind == "query":
        return texts
    return [text[found.end() :] if (found := _DAY.match(text)) else text for text in texts]
