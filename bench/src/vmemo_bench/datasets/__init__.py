"""Datasets: find the files of a benchmark, parse them and select the requested part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence, Set
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Literal

from vmemo.errors import InvalidInput
from vmemo_bench.datasets import beam, locomo, longmemeval, ours
from vmemo_bench.datasets.cases import Case, ChatSession, Dataset, DatasetQuestion, ParsedDataset, RankedUnit, Turn
from vmemo_bench.json_files import read_file
from vmemo_bench.options import BeamSize, BenchOptions, DatasetName

__all__ = [
    "Case",
    "ChatSession",
    "Dataset",
    "DatasetQuestion",
    "ParsedDataset",
    "RankedUnit",
    "Turn",
    "data_path",
    "load",
]

FileDataset = Literal["locomo", "longmemeval", "ours", "sample"]
_PATHS: dict[FileDataset, str] = {
    "locomo": "locomo/locomo_dev.json",
    "longmemeval": "longmemeval/longmemeval_s_dev.json.xz",
    "ours": "training/conversations",
}
_BEAM_FOLDERS: dict[BeamSize, str] = {"100k": "beam", "500k": "beam500k", "1m": "beam1m"}
TURN_DEPTH = 8_192
"""Tokens to recall where turns are ranked: enough for evidence@8000. In QA mode, the tokens of an answer's context."""
SESSION_DEPTH = 32_768
"""Tokens to recall where sessions are ranked: chat turns are long, and ten sessions must fit."""


def load(options: BenchOptions) -> Dataset:
    """Return the benchmark's cases. Raise InvalidInput if a file is missing or not in the dataset's format."""
    name = _name(options)
    if any(count is not None and count < 1 for count in (options.sample, options.limit, options.max_tokens)):
        raise InvalidInput("sample, limit and max_tokens must be at least one.")
    if options.sample is not None and name != "longmemeval":
        raise InvalidInput("sample needs the question types of longmemeval; for other datasets use limit.")
    try:
        dataset = _beam(options) if name == "beam" else _parse(name, options, _contents(name, options))
    except (ValueError, KeyError, OSError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"The file cannot be parsed as {name} data: {error}") from error
    return replace(dataset, cases=_selected(dataset.parsed.cases, options)[: options.limit])


def _selected(cases: Sequence[Case], options: BenchOptions) -> tuple[Case, ...]:
    """Return the requested conversations with the questions of the requested types."""
    types = {question.category for case in cases for question in case.questions}
    _require_known("conversations", options.conversations, {case.id for case in cases})
    _require_known("types", options.types, types)
    return tuple(
        replace(case, questions=tuple(q for q in case.questions if not options.types or q.category in options.types))
        for case in cases
        if not options.conversations or case.id in options.conversations
    )


def _require_known(option: str, given: Sequence[str], known: Set[str]) -> None:
    if unknown := sorted(set(given) - known):
        raise InvalidInput(f"{option} contains {unknown[0]!r}; the dataset has {', '.join(sorted(known))}.")


def _name(options: BenchOptions) -> DatasetName:
    if options.benchmark in ("speed", "load", "scale", "updates", "dates", "languages", "lives", "precision"):
        raise InvalidInput(f"{options.benchmark} has no conversations with questions and evidence.")
    if options.benchmark in ("ablation", "retain", "engines", "compare"):
        return options.dataset
    return options.benchmark


def _beam(options: BenchOptions) -> Dataset:
    """Read the requested conversations of BEAM: a chat of a million tokens takes seconds to parse."""
    folder = data_path(_BEAM_FOLDERS[options.size], options)
    names = sorted((each.name for each in folder.iterdir() if each.is_dir()), key=lambda name: (len(name), name))
    _require_known("conversations", options.conversations, set(names))
    files = [
        beam.BeamFiles(name, read_file(_chat(folder / name)), read_file(folder / name / "probing_questions.json"))
        for name in names
        if not options.conversations or name in options.conversations
    ]
    parsed = beam.parse(files, qa=options.mode == "qa")
    return Dataset(
        name="beam",
        # The selection of conversations is no part of it: a larger run resumes from a smaller one.
        digest=_digest([options.size.encode()]),
        unit="turn",
        max_tokens=options.max_tokens or TURN_DEPTH,
        parsed=parsed,
        cases=parsed.cases,
    )


def _chat(folder: Path) -> Path:
    plain = folder / "chat.json"
    return plain if plain.exists() else folder / "chat.json.xz"


def _parse(name: FileDataset, options: BenchOptions, contents: Sequence[bytes]) -> Dataset:
    unit: RankedUnit = "turn"
    qa = options.mode == "qa"
    match name:
        case "locomo":
            parsed = locomo.parse(contents[0], qa=qa)
        case "longmemeval":
            parsed, unit = longmemeval.parse(contents[0], options.sample, qa=qa), "session"
        case "ours" | "sample":
            parsed = ours.parse(contents, qa=qa)
    return Dataset(
        name=name,
        digest=_digest(contents),
        unit=unit,
        max_tokens=options.max_tokens or (SESSION_DEPTH if unit == "session" and not qa else TURN_DEPTH),
        parsed=parsed,
        cases=parsed.cases,
    )


def _digest(contents: Sequence[bytes]) -> str:
    whole = hashlib.sha256()
    for content in contents:
        whole.update(hashlib.sha256(content).digest())
    return whole.hexdigest()


def _contents(name: FileDataset, options: BenchOptions) -> list[bytes]:
    if name == "sample":
        folder = resources.files("vmemo_bench") / "sample"
        files = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda file: file.name)
        return [file.read_bytes() for file in files]
    path = data_path(_PATHS[name], options)
    if path.is_dir():
        return [read_file(file) for file in sorted(path.glob("*.json"))]
    return [read_file(path)]


def data_path(default: str, options: BenchOptions) -> Path:
    """Return the file of the options, or the default one in the data folder. Raise InvalidInput if there is none."""
    if options.file is not None:
        if not options.file.exists():
            raise InvalidInput(f"No such file: {options.file}")
        return options.file
    path = options.data_folder / default
    if not path.exists():
        raise InvalidInput(
            f"{path} does not exist: pass --data FOLDER (or set VMEMO_DATA) with the folder that contains "
            f"{default}, or --file with the dataset's file. `vmemo benchmark sample` needs no data."
        )
    return path
