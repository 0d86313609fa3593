"""The engine of a run: the library's own, or one that replays recordings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from vmemo.errors import InvalidInput
from vmemo.ports import Extractor
from vmemo_bench.datasets import Case, Dataset
from vmemo_bench.options import BenchOptions, EngineName
from vmemo_bench.recorded import RecordedExtractor, RecordedFact, Recording
from vmemo_bench.report import Setting

_PLACE = Path("locomo") / "extractions"


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Who reads each case, by the case's id; a case that is not there is read by the local engine."""

    name: EngineName = "local"
    readers: Mapping[str, Extractor] = field(default_factory=dict[str, Extractor])
    digest: str = ""
    counts: Mapping[str, Setting] = field(default_factory=dict[str, Setting])

    @property
    def config(self) -> dict[str, Setting]:
        """What of it a run's scores depend on."""
        return {"engine": self.name, "recordings": self.digest} if self.digest else {"engine": self.name}


def engine(options: BenchOptions, dataset: Dataset) -> Engine:
    """The engine that was asked for. Recordings that are not there are an `InvalidInput`."""
    if options.engine == "local":
        return Engine()
    told = recordings(options, dataset)
    return Engine(
        name="recorded",
        readers={case: RecordedExtractor(recording) for case, recording in told.items()},
        digest=_digest(_folder(options)),
        counts={"unplaced_facts": sum(recording.unplaced for recording in told.values())},
    )


def recordings(options: BenchOptions, dataset: Dataset) -> dict[str, Recording]:
    """What was recorded of each case, by the case's id."""
    if dataset.name != "locomo":
        raise InvalidInput(f"there are recordings of locomo only, not of {dataset.name}: use --engine local")
    folder = _folder(options)
    return {case.id: _recording(case, folder / f"{case.id}.jsonl") for case in dataset.cases}


def _folder(options: BenchOptions) -> Path:
    """In the data folder, or beside a file that is given alone."""
    if options.file is not None and options.data is None:
        return options.file.parent / _PLACE.name
    return options.data_folder / _PLACE


def _recording(case: Case, path: Path) -> Recording:
    if not path.exists():
        raise InvalidInput(f"{path} is not there: recordings are read from a folder --data that holds {_PLACE}")
    try:
        facts = [RecordedFact.model_validate_json(line) for line in path.read_bytes().splitlines() if line.strip()]
    except ValidationError as error:
        raise InvalidInput(f"{path} can't be read as a recording: {error}") from error
    return Recording(case, facts)


def _digest(folder: Path) -> str:
    """Of every recording, so that a run over some cases and one over all of them have the same."""
    whole = hashlib.sha256()
    for path in sorted(folder.glob("*.jsonl")):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]
