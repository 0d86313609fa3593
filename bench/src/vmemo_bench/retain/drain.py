"""Drain a long queue with a model that answers at once and placeholder vectors: speed, and growth of memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from vmemo import Memory, Message
from vmemo.errors import VmemoError
from vmemo.models.results import Usage
from vmemo.ports import Completion, Embedder, LLMRequest
from vmemo.settings import Settings
from vmemo_bench.embedders import PlaceholderEmbedder
from vmemo_bench.environment import current_mb, sqlite_url
from vmemo_bench.retain.recorded_llm import labels_in, lines_in, pairs_in
from vmemo_bench.speed import texts
from vmemo_bench.statistics import Metrics

DOCUMENT_SIZE = 5
"""Messages per document: few enough that rules group them without a model."""
WARM_UP = 0.2
"""Share of the messages after which caches are full and memory should no longer grow."""


@dataclass(frozen=True, kw_only=True)
class DrainSample:
    """Processed messages, elapsed seconds and memory at one point of a drain."""

    messages: int
    seconds: float
    rss_mb: float


@dataclass
class InstantLLM:
    """Language model that answers at once, with one fact per episode, and samples the memory every N messages."""

    sample_every: int
    name: str = "instant"
    messages: int = 0
    samples: list[DrainSample] = field(default_factory=list[DrainSample])
    began: float = field(default_factory=perf_counter)

    async def complete(self, request: LLMRequest) -> Completion:
        match request.step:
            case "extract":
                answer = self._extract(request.user)
            case "judge":
                verdicts = [{"new": new, "known": known, "verdict": "add"} for new, known, _ in pairs_in(request.user)]
                answer: dict[str, object] = {"verdicts": verdicts}
            case "identify":
                answer = {"answers": [{"name": name, "same_as": "new"} for name in labels_in(request.user, "Q")]}
            case _:
                answer = {"statements": list[str]()}
        return Completion(text=json.dumps(answer), usage=Usage(calls=1))

    def _extract(self, prompt: str) -> dict[str, object]:
        lines = lines_in(prompt)
        before = self.messages
        self.messages += len(lines)
        if before // self.sample_every != self.messages // self.sample_every:
            self.sample()
        fact = {"what": f"{lines[0].speaker} said: {lines[0].words}", "lines": [1]}
        return {"facts": [fact], "names": {"person": [lines[0].speaker]}}

    def sample(self) -> None:
        seconds = perf_counter() - self.began
        self.samples.append(DrainSample(messages=self.messages, seconds=seconds, rss_mb=current_mb()))


def queued_messages(count: int) -> list[Message]:
    """Return short messages in many small documents."""
    return [
        message.model_copy(update={"document": f"{message.document}-{number // DOCUMENT_SIZE}"})
        for number, message in enumerate(texts.messages(0, count))
    ]


async def drain(messages: Sequence[Message], embedder: Embedder, folder: Path) -> list[DrainSample]:
    """Queue all messages and process them; return samples from the first message to the last."""
    model = InstantLLM(max(1, len(messages) // 20))
    settings = Settings(background=False, observe_delay=1e9)
    url = sqlite_url(folder / "drain.db")
    async with Memory(url, llm=model, embedder=PlaceholderEmbedder(embedder), settings=settings) as memory:
        model.sample()
        await memory.retain(list(messages))
        model.sample()
        status = await memory.status()
    if status.pending or status.problems:
        raise VmemoError(f"{status.pending} of {len(messages)} messages were not processed: {status.problems}")
    return model.samples


def metrics(samples: Sequence[DrainSample]) -> Metrics:
    """Return the speed, and the growth of memory after the warm-up."""
    last = samples[-1]
    warm = next(sample for sample in samples if sample.messages >= WARM_UP * last.messages)
    return {
        "drained_per_second": last.messages / last.seconds,
        "drain_seconds": last.seconds,
        "rss_growth_mb": max(sample.rss_mb for sample in samples) - warm.rss_mb,
        "rss_mb": last.rss_mb,
    }
