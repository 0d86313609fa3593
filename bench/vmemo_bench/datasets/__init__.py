"""Datasets: find the files of a benchmark, parse them and select the requested part."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo_bench.datasets import locomo, longmemeval, ours
from vmemo_bench.datasets.cases import Case, ChatSession, Dataset, DatasetQuestion, ParsedDataset, RankedUnit, Turn
from vmemo_bench.options import BenchOptions, DatasetName

__all__ = [
    "Case",
    "ChatSession",
    "Dataset",
    "DatasetQuestion",
    "ParsedDataset",
    "RankedUnit",
    "Turn",
    "load",
    "read_file",
]

_PATHS: dict[DatasetName, str] = {
    "locomo": "locomo/locomo_dev.json",
    "longmemeval": "longmemeval/longmemeval_s_dev.json.xz",
    "ours": "training/conversations",
}
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
        dataset = _parse(name, options, _contents(name, options))
    except (ValueError, KeyError, lzma.LZMAError, OSError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"The file cannot be parsed as {name} data: {error}") from error
    return replace(dataset, cases=dataset.parsed.cases[: options.limit])


def _name(options: BenchOptions) -> DatasetName:
    if options.benchmark in ("speed", "load", "updates", "dates"):
        raise InvalidInput(f"{options.benchmark} has no conversations with questions and evidence.")
    return options.dataset if options.benchmark in ("ablation", "retain") else options.benchmark


def _parse(name: DatasetName, options: BenchOptions, contents: Sequence[bytes]) -> Dataset:
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


def _contents(name: DatasetName, options: BenchOptions) -> list[bytes]:
    if name == "sample":
        folder = resources.files("vmemo_bench") / "sample"
        files = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda file: file.name)
        return [file.read_bytes() for file in files]
    path = _path(_PATHS[name], options)
    if path.is_dir():
        return [read_file(file) for file in sorted(path.glob("*.json"))]
    return [read_file(path)]


def _path(default: str, options: BenchOptions) -> Path:
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


def read_file(path: Path) -> bytes:
    """Return the content of a file, decompressed if its name ends in .xz."""
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content
