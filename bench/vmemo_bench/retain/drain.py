"""Draining a long queue with a model and vectors that cost nothing: how fast it goes, and whether memory stays flat."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from vmemo import Memory, Message
from vmemo.errors import VmemoError
from vmemo.models.results import Usage
from vmemo.ports import Completion, Embedder, LLMRequest
from vmemo.settings import Settings
from vmemo_bench.embedders import Placeholder
from vmemo_bench.environment import sqlite_url
from vmemo_bench.metrics import Metrics
from vmemo_bench.report import Table
from vmemo_bench.runner import Tick
from vmemo_bench.speed import texts
from vmemo_bench.speed.growth import peak_mb

SITTING = 5
"""Messages of one document: few enough for rules to group them."""
WARM = 0.2
"""The part of the messages after which memory should no longer grow: what is kept between batches is full by then."""
PAGE = 4096
_LINE = re.compile(r"^(\d+) \| [^|]* \| ([^|]*) \| (.*)$", re.MULTILINE)
_PAIR = re.compile(r"^(?:(N\d+) \(new\)|beside (K\d+) \(known\)) \|", re.MULTILINE)


def rss_mb() -> float:
    """The memory that this process holds now; where the system does not tell, the most it has held."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20
    except OSError:
        return peak_mb()


@dataclass(frozen=True, kw_only=True)
class Sample:
    """How far a drain was, after how many seconds, and how much memory was held."""

    messages: int
    seconds: float
    rss_mb: float


@dataclass
class QuickLLM:
    """Answers at once, one fact for each episode, and notes on its way how much memory is held."""

    every: int
    name: str = "quick"
    read: int = 0
    samples: list[Sample] = field(default_factory=list[Sample])
    began: float = field(default_factory=perf_counter)

    async def complete(self, request: LLMRequest) -> Completion:
        """As little as is allowed."""
        match request.step:
            case "extract":
                answer = self._extract(request.user.rpartition("Lines to read (")[2])
            case "judge":
                answer = self._judge(request.user)
            case "identify":
                asked: list[str] = re.findall(r"^(Q\d+) \|", request.user, re.MULTILINE)
                answer = {"answers": [{"name": name, "same_as": "new"} for name in asked]}
            case _:
                answer = {"statements": list[str]()}
        return Completion(text=json.dumps(answer), usage=Usage(calls=1))

    def _extract(self, shown: str) -> dict[str, object]:
        lines: list[tuple[str, str, str]] = _LINE.findall(shown)
        before = self.read
        self.read += len(lines)
        if before // self.every != self.read // self.every:
            self.note()
        _, voice, words = lines[0]
        who = {"name": voice, "type": "PERSON"}
        return {"facts": [{"what": f"{voice} said: {words}", "lines": [1], "entities": [who]}]}

    def _judge(self, user: str) -> dict[str, object]:
        verdicts: list[dict[str, str]] = []
        new = ""
        for fresh, known in _PAIR.findall(user):
            new = fresh or new
            if known:
                verdicts.append({"new": new, "known": known, "verdict": "add"})
        return {"verdicts": verdicts}

    def note(self) -> None:
        """Keep a sample of this moment."""
        self.samples.append(Sample(messages=self.read, seconds=perf_counter() - self.began, rss_mb=rss_mb()))


def queued(count: int) -> list[Message]:
    """Short messages in many small documents."""
    return [
        message.model_copy(update={"document": f"{message.document}-{number // SITTING}"})
        for number, message in enumerate(texts.messages(0, count))
    ]


async def drain(messages: Sequence[Message], embedder: Embedder, folder: Path, tick: Tick) -> list[Sample]:
    """Queue all messages, then read them; samples from the first to the last."""
    model = QuickLLM(max(1, len(messages) // 20))
    settings = Settings(background=False, observe_delay=1e9)
    place = sqlite_url(folder / "drain.db")
    async with Memory(place, llm=model, embedder=Placeholder(embedder), settings=settings) as memory:
        model.note()
        await memory.retain(list(messages))
        model.note()
        status = await memory.status()
        tick()
    if status.pending or status.troubles:
        raise VmemoError(f"{status.pending} of {len(messages)} messages were not read: {status.troubles}")
    return model.samples


def growth(samples: Sequence[Sample]) -> float:
    """Megabytes by which memory grew after the warm-up, at most."""
    warm = next(sample for sample in samples if sample.messages >= WARM * samples[-1].messages)
    return max(sample.rss_mb for sample in samples) - warm.rss_mb


def metrics(samples: Sequence[Sample]) -> Metrics:
    """Speed and growth."""
    return {
        "drained_per_second": samples[-1].messages / samples[-1].seconds,
        "drain_seconds": samples[-1].seconds,
        "rss_growth_mb": growth(samples),
        "rss_mb": samples[-1].rss_mb,
    }


def table(samples: Sequence[Sample]) -> Table:
    """The samples."""
    return {f"{each.messages:,}": {"seconds": each.seconds, "rss MB": each.rss_mb} for each in samples}
