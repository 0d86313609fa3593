"""Retain against the embedder's own time for the very texts that retain embedded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vmemo import Memory, Message
from vmemo_bench.clock import timed
from vmemo_bench.embedders import Recorder
from vmemo_bench.metrics import Metrics
from vmemo_bench.steps import Steps

CHUNK = 100
"""Messages of one retain; after each the embedder does the same texts alone, in one batch."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What retaining some messages took."""

    messages: int
    facts: int
    texts: int
    retain_ms: float
    embed_ms: float

    def metrics(self, suffix: str = "") -> Metrics:
        """1.0 would mean that retain costs nothing beyond embedding its texts."""
        return {
            f"retain_over_embed{suffix}": self.embed_ms / self.retain_ms,
            f"retain_facts_per_second{suffix}": self.facts / self.retain_ms * 1000,
            f"embedded_texts_per_fact{suffix}": self.texts / max(1, self.facts),
        }


async def cost(memory: Memory, recorder: Recorder, messages: Sequence[Message], steps: Steps) -> Cost:
    """Retain the messages chunk by chunk; `memory` embeds through `recorder`."""
    retain_ms = embed_ms = 0.0
    facts = texts = 0
    for first in range(0, len(messages), CHUNK):
        chunk = messages[first : first + CHUNK]
        recorder.texts.clear()
        retained, took = await timed(memory.retain(chunk))
        embedded = tuple(recorder.texts)
        _, alone = await timed(recorder.real.embed(embedded, "document"))
        retain_ms += took
        embed_ms += alone
        facts += len(retained.derived)
        texts += len(embedded)
        steps.advance(len(chunk))
    return Cost(messages=len(messages), facts=facts, texts=texts, retain_ms=retain_ms, embed_ms=embed_ms)
