"""Two short conversations, an embedder that records its calls, and helpers to run benchmarks over them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vmemo.models.search import Vectors
from vmemo.ports import TextKind
from vmemo_bench import BenchOptions, Progress, ProgressSink, Report, run_benchmark, silent
from vmemo_bench.recordings import RecordedFact


class CountingEmbedder:
    """Hashes words into a few dimensions, all positive, so that texts are similar; records the texts."""

    name = "counting"
    dimension = 64

    def __init__(self) -> None:
        self.documents: list[str] = []
        self.queries: list[str] = []

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        (self.queries if kind == "query" else self.documents).extend(texts)
        vectors = np.full((len(texts), self.dimension), 1e-3, dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                row[hashlib.blake2b(word.encode(), digest_size=2).digest()[0] % self.dimension] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def run(options: BenchOptions, sink: ProgressSink = silent) -> Report:
    return asyncio.run(run_benchmark(options, sink))


def conversation(name: str, things: Sequence[str]) -> dict[str, object]:
    """Return a conversation in which Ada names one thing per session, with questions about all of them."""
    sessions = [
        {
            "n": n,
            "date": f"2024-0{n}-11T20:40",
            "turns": [
                {"id": f"D{n}:1", "speaker": "Ada", "text": f"I bought a {thing} from my neighbour."},
                {"id": f"D{n}:2", "speaker": "Bo", "text": "That sounds wonderful, tell me more soon."},
            ],
        }
        for n, thing in enumerate(things, start=1)
    ]
    questions = [
        {"question": f"Where did the {thing} come from?", "kind": "single", "evidence": [f"D{n}:1"]}
        for n, thing in enumerate(things, start=1)
    ]
    every = [f"D{n}:1" for n in range(1, len(things) + 1)]
    questions.append({"question": "What did Ada buy?", "kind": "multi", "evidence": every})
    return {"id": name, "speakers": ["Ada", "Bo"], "sessions": sessions, "questions": questions}


def write_conversations(folder: Path, things: Mapping[str, Sequence[str]] | None = None) -> Path:
    """Write a data folder in the format of `ours`: by default five sessions and seven questions in two cases."""
    place = folder / "training" / "conversations"
    place.mkdir(parents=True, exist_ok=True)
    for name, named in (things or {"one": ("kite", "violin", "canoe"), "two": ("lamp", "sledge")}).items():
        (place / f"{name}.json").write_text(json.dumps(conversation(name, named)))
    return folder


def options(folder: Path, embedder: CountingEmbedder, *, work: str = "work") -> BenchOptions:
    """Return options of `ours` over the two conversations."""
    data = folder / "data"
    if not data.exists():
        write_conversations(data)
    return BenchOptions(
        benchmark="ours", data=data, cache=folder / work, work=folder / work / "runs", embedder=embedder
    )


@dataclass(frozen=True)
class MeasuredRun:
    """A finished run: its report, embedder, progress and work folder."""

    report: Report
    embedder: CountingEmbedder
    progress: tuple[Progress, ...]
    work: Path


def measure(folder: Path, **changes: object) -> MeasuredRun:
    """Run `ours`, or what the changed options ask for, over the conversations in the folder."""
    embedder, seen = CountingEmbedder(), list[Progress]()
    asked = replace(options(folder, embedder), **changes)  # pyright: ignore[reportArgumentType]
    return MeasuredRun(run(asked, seen.append), embedder, tuple(seen), asked.work_folder)


def locomo_turns(session: int, *texts: str) -> list[dict[str, str]]:
    """Return the turns of a session of LoCoMo, all by Ada."""
    return [{"speaker": "Ada", "dia_id": f"D{session}:{n}", "text": text} for n, text in enumerate(texts, start=1)]


def write_locomo(
    folder: Path,
    sessions: Mapping[int, Sequence[str]],
    questions: Sequence[Mapping[str, object]],
    recording: Sequence[Mapping[str, object]],
) -> Path:
    """Write a data folder with one conversation of LoCoMo and its recording."""
    conversation: dict[str, object] = {}
    for number, texts in sessions.items():
        conversation[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        conversation[f"session_{number}"] = locomo_turns(number, *texts)
    place = folder / "locomo"
    (place / "extractions").mkdir(parents=True)
    whole = [{"sample_id": "conv-x", "conversation": conversation, "qa": list(questions)}]
    (place / "locomo_dev.json").write_text(json.dumps(whole))
    (place / "extractions" / "conv-x.jsonl").write_text("\n".join(map(json.dumps, recording)))
    return folder


def recorded_line(text: str, *sources: str, **values: object) -> dict[str, object]:
    """Return one line of a recording."""
    line: dict[str, object] = {"session": 1, "text": text, "fact_type": "world", "entities": [], "causal": []}
    return {**line, "sources": sources, **values}


def recorded_fact(text: str, *sources: str, **values: object) -> RecordedFact:
    return RecordedFact.model_validate(recorded_line(text, *sources, **values))


def reproducible(report: Report) -> object:
    """Return the parts of a report that are the same in every run."""
    return report.metrics, report.categories, report.config, report.tables, report.questions, set(report.timings)


class Interrupted(Exception):
    """Raised by `StopAt`."""


class StopAt:
    """A sink that interrupts the run at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, progress: Progress, /) -> None:
        if progress.done == self.step:
            raise Interrupted
