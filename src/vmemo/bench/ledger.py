"""Finished cases on disk: an interrupted run goes on where it stopped and ends with the same result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from vmemo.bench.audit import Audit


class Asked(BaseModel):
    """One question's scores, and milliseconds per stage of its recall."""

    model_config = ConfigDict(frozen=True)

    id: str
    category: str
    metrics: Mapping[str, float]
    timings: Mapping[str, float]


class Finished(BaseModel):
    """One case that ran to its end."""

    model_config = ConfigDict(frozen=True)

    case: str
    messages: int
    facts: int
    questions: tuple[Asked, ...]
    audit: Audit | None = None
    """What its bank held, where that was looked into."""


class Ledger:
    """A JSON Lines file of finished cases, named after everything that could change their scores."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.jsonl"

    def load(self) -> dict[str, Finished]:
        """Cases noted so far; a line that a crash cut short is left out, so its case runs again."""
        if not self._path.exists():
            return {}
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return {entry.case: entry for entry in map(_entry, lines) if entry is not None}

    def note(self, finished: Finished) -> None:
        """Append one case."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A line starts with its own newline: it never continues one that a crash cut short.
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\n" + finished.model_dump_json())

    def clear(self) -> None:
        """Forget a run that is complete: the same command then measures again."""
        self._path.unlink(missing_ok=True)


def _entry(line: str) -> Finished | None:
    try:
        return Finished.model_validate_json(line)
    except ValidationError:
        return None
