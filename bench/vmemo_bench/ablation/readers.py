"""Write-time steps left out: what stands around the local engine and the embedder so that one step has no effect.

Names stay those of what is wrapped, so that facts keep their ids and only the step makes a difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vmemo.models import Message
from vmemo.models.drafts import ExtractionResult, FactDraft
from vmemo.models.search import Encoding, Vectors
from vmemo.ports import TextKind, encodings
from vmemo.retain.local import LocalExtractor
from vmemo.text.chunks import split_text
from vmemo_bench.embedders import Around

_DAY = re.compile(r"\d{1,2} [A-Z][a-z]+ \d{4}\. ")


class WithoutDates(LocalExtractor):
    """Texts as they were said: no absolute date after "yesterday"."""

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """The local engine's drafts over the turns' own words."""
        reading = await super().read(messages, before)
        said = {f"{m.id}/{n}": f"{m.voice}: {piece}" for m in messages for n, piece in enumerate(split_text(m.content))}
        return replace(reading, drafts=tuple(replace(draft, text=said[draft.key]) for draft in reading.drafts))


class WithoutContext(LocalExtractor):
    """Each turn by itself, without the turn before."""

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """The local engine's drafts without context."""
        reading = await super().read(messages, before)
        return replace(reading, drafts=tuple(map(_alone, reading.drafts)))


def _alone(draft: FactDraft) -> FactDraft:
    return replace(draft, context="", context_from=None)


class WithoutDays(Around):
    """Embeds documents without the day that retain puts before them."""

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        return await self.real.embed(_stripped(texts, kind), kind)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        return await encodings(self.real, _stripped(texts, kind), kind)


def _stripped(texts: Sequence[str], kind: TextKind) -> Sequence[str]:
    if kind == "query":
        return texts
    return [text[found.end() :] if (found := _DAY.match(text)) else text for text in texts]
