"""What is done, on disk: an interrupted run goes on where it stopped and ends with the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from vmemo_bench.audit import Audit

R = TypeVar("R", bound=BaseModel)


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


class Notes(Generic[R]):
    """A JSON Lines file of what is done, named after everything that could change it."""

    def __init__(self, path: Path, kind: type[R], key: Callable[[R], str]) -> None:
        self._path = path
        self._kind = kind
        self.key = key

    def load(self) -> dict[str, R]:
        """What was noted so far, by key; a line that a crash cut short is left out, so it is done again."""
        if not self._path.exists():
            return {}
        # Not splitlines: a text may hold line separators of other kinds, which JSON leaves as they are.
        lines = self._path.read_text(encoding="utf-8").split("\n")
        return {self.key(entry): entry for entry in map(self._entry, lines) if entry is not None}

    def note(self, entry: R) -> None:
        """Append one line."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A line starts with its own newline: it never continues one that a crash cut short.
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\n" + entry.model_dump_json())

    def clear(self) -> None:
        """Forget a run that is complete: the same command then measures again."""
        self._path.unlink(missing_ok=True)

    def _entry(self, line: str) -> R | None:
        try:
            return self._kind.model_validate_json(line)
        except ValidationError:
            return None


class Ledger(Notes[Finished]):
    """Finished cases."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder / f"{name}.jsonl", Finished, lambda finished: finished.case)
