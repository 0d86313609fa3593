"""The books of a run: every question that got one step further is noted at once, so that no step is done twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from vmemo.ports import LLM
from vmemo_bench.datasets import Dataset
from vmemo_bench.environment import code_digest, fingerprint
from vmemo_bench.ledger import Notes
from vmemo_bench.qa import judging
from vmemo_bench.qa.models import Models
from vmemo_bench.qa.records import Answered, Held, Recollection, Verdict
from vmemo_bench.report import Setting

R = TypeVar("R", bound=BaseModel)


class Book(Generic[R]):
    """Notes with what they hold at hand."""

    def __init__(self, notes: Notes[R]) -> None:
        self._notes = notes
        self._known = notes.load()

    def get(self, key: str) -> R | None:
        """What was noted under a key."""
        return self._known.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def put(self, entry: R) -> None:
        """Hold an entry for this run alone."""
        self._known[self._notes.key(entry)] = entry

    def note(self, entry: R) -> R:
        """Write it down, and hand it on."""
        self._notes.note(entry)
        self.put(entry)
        return entry


@dataclass(frozen=True, kw_only=True)
class Books:
    """What is known of a dataset's cases and questions; `banks` is the folder of cases that are not done yet."""

    banks: Path
    held: Book[Held]
    recalled: Book[Recollection]
    answered: Book[Answered]
    verdicts: Book[Verdict]


def open_books(work: Path, dataset: Dataset, *, config: Mapping[str, Setting], models: Models) -> Books:
    """Books named after all that what stands in them depends on.

    What is recalled does not depend on models, and a verdict depends on nothing but question, answer and judge: so
    another answerer finds the recollections of the first, and another judge its answers.
    """
    stem = f"{dataset.name}-qa"
    recalled = f"{stem}-{fingerprint(config)}"
    answered = f"{stem}-{fingerprint({**config, 'answerer': _name(models.answerer)})}"
    judged = f"{stem}-{fingerprint(_judging(dataset, models))}"
    return Books(
        banks=work / recalled,
        held=Book(Notes(work / f"{recalled}.banks.jsonl", Held, lambda held: held.case)),
        recalled=Book(Notes(work / f"{recalled}.recalled.jsonl", Recollection, lambda found: found.id)),
        answered=Book(Notes(work / f"{answered}.answers.jsonl", Answered, lambda answer: answer.id)),
        verdicts=Book(Notes(work / f"{judged}.verdicts.jsonl", Verdict, lambda verdict: verdict.key)),
    )


def _judging(dataset: Dataset, models: Models) -> dict[str, Setting]:
    return {
        "dataset": dataset.digest,
        "code": code_digest(),
        "judge": _name(models.judge),
        "prompts": judging.digest(),
    }


def _name(llm: LLM | None) -> str | None:
    return None if llm is None else llm.name
