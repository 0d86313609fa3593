"""From a benchmark's name to its cases: finds the files, reads them and takes the part that was asked for."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo_bench.datasets import locomo, longmemeval, ours
from vmemo_bench.datasets.cases import Case, Dataset, Parsed, Question, Session, Turn, Unit
from vmemo_bench.options import BenchOptions, DatasetName

__all__ = ["Case", "Dataset", "Parsed", "Question", "Session", "Turn", "Unit", "load"]

_PLACES: dict[DatasetName, str] = {
    "locomo": "locomo/locomo_dev.json",
    "longmemeval": "longmemeval/longmemeval_s_dev.json.xz",
    "ours": "training/conversations",
}
TURN_DEPTH = 8_192
"""Tokens to recall where turns are ranked: enough for evidence@8000; in QA mode what an answer may be made from."""
SESSION_DEPTH = 32_768
"""Tokens to recall where sessions are ranked: chat turns are long, and ten sessions need room to show."""


def load(options: BenchOptions) -> Dataset:
    """The benchmark's cases. A missing or unreadable file is an `InvalidInput` that says what to pass."""
    name = _name(options)
    if any(count is not None and count < 1 for count in (options.sample, options.limit, options.max_tokens)):
        raise InvalidInput("sample, limit and max_tokens must be at least one")
    if options.sample is not None and name != "longmemeval":
        raise InvalidInput("sample is for longmemeval, whose questions have types; elsewhere use limit")
    try:
        dataset = _parse(name, options, _contents(name, options))
    except (ValueError, KeyError, lzma.LZMAError, OSError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"this can't be read as {name} data: {error}") from error
    return replace(dataset, cases=dataset.parsed.cases[: options.limit])


def _name(options: BenchOptions) -> DatasetName:
    if options.benchmark == "speed" or options.benchmark == "load":
        raise InvalidInput(f"{options.benchmark} has no dataset: it makes its own texts")
    return options.dataset if options.benchmark in ("ablation", "retain") else options.benchmark


def _parse(name: DatasetName, options: BenchOptions, contents: Sequence[bytes]) -> Dataset:
    unit: Unit = "turn"
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
    place = _place(_PLACES[name], options)
    if place.is_dir():
        return [_read(path) for path in sorted(place.glob("*.json"))]
    return [_read(place)]


def _place(usual: str, options: BenchOptions) -> Path:
    if options.file is not None:
        if not options.file.exists():
            raise InvalidInput(f"no such file: {options.file}")
        return options.file
    place = options.data_folder / usual
    if not place.exists():
        raise InvalidInput(
            f"{place} is not there: pass --data FOLDER (or set VMEMO_DATA) with the folder that holds "
            f"{usual}, or --file with the dataset's own file; `vmemo benchmark sample` needs no data"
        )
    return place


def _read(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content
