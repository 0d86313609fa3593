"""Finished work on disk: an interrupted run resumes where it stopped and ends with the same result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

R = TypeVar("R", bound=BaseModel)


class Checkpoint(Generic[R]):
    """A JSON Lines file of finished records; its path names everything that a record depends on."""

    def __init__(self, path: Path, model: type[R], key: Callable[[R], str]) -> None:
        self._path = path
        self._model = model
        self._key = key
        self._records = self._load()

    def _load(self) -> dict[str, R]:
        if not self._path.exists():
            return {}
        # Not splitlines(): a text may contain other line separators, which JSON leaves as they are.
        lines = self._path.read_text(encoding="utf-8").split("\n")
        return {self._key(record): record for record in map(self._parse, lines) if record is not None}

    def _parse(self, line: str) -> R | None:
        """Return the record of a line; None for a line that a crash cut short, so that its work is done again."""
        try:
            return self._model.model_validate_json(line)
        except ValidationError:
            return None

    def get(self, key: str) -> R | None:
        return self._records.get(key)

    @property
    def records(self) -> list[R]:
        return list(self._records.values())

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def put(self, record: R) -> None:
        """Keep a record for this run only."""
        self._records[self._key(record)] = record

    def append(self, record: R) -> R:
        """Write a record to the file and return it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A line starts with its own newline, so that it never continues one that a crash cut short.
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\n" + record.model_dump_json())
        self.put(record)
        return record

    def clear(self) -> None:
        """Delete the records of a complete run, so that the same command measures again."""
        self._path.unlink(missing_ok=True)
        self._records.clear()
