"""A deterministic embedder and two tiny conversations for tests of the benchmarks."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vmemo.models.search import Vectors
from vmemo.ports import TextKind
from vmemo_bench import BenchOptions, Progress, Report


class ToyEmbedder:
    """Words hashed into a few dimensions; counts what it was asked."""

    name = "toy"
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


def conversation(name: str, things: Sequence[str]) -> dict[str, object]:
    """Ada tells of one thing after the other, a session each, and is asked about all of them."""
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


def write_conversations(folder: Path) -> Path:
    """A data folder of the form that the benchmark `ours` reads."""
    place = folder / "training" / "conversations"
    place.mkdir(parents=True)
    for name, things in (("one", ("kite", "violin", "canoe")), ("two", ("lamp", "sledge"))):
        (place / f"{name}.json").write_text(json.dumps(conversation(name, things)))
    return folder


def options(folder: Path, embedder: ToyEmbedder, *, work: str = "work") -> BenchOptions:
    data = folder / "data"
    if not data.exists():
        write_conversations(data)
    return BenchOptions(
        benchmark="ours", data=data, cache=folder / work, work=folder / work / "runs", embedder=embedder
    )


def lasting(report: Report) -> object:
    """The report without what differs from run to run."""
    return report.metrics, report.categories, report.config, set(report.timings)


class Interrupted(Exception):
    """Stands for a run that is killed."""


class StopAt:
    """A sink that breaks the run off at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, progress: Progress, /) -> None:
        if progress.done == self.step:
            raise Interrupted
