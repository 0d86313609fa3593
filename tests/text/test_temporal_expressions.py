"""Accuracy on a set of expressions outside the repository."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import BaseModel

from vmemo.text.temporal import find_times

Borders = tuple[datetime | None, datetime | None]


class Wanted(BaseModel):
    text: str
    ranges: list[list[str | None]]


class Case(BaseModel):
    input: str
    reference: datetime
    found: list[Wanted]


def _folder() -> Path:
    named = os.environ.get("VMEMO_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    path = _folder() / "temporal" / "expressions_dev.jsonl"
    if not path.exists():
        pytest.skip(f"the development expressions are not here ({path}); set VMEMO_DATA to the data folder")
    return [Case.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _intervals(case: Case) -> set[Borders]:
    found = find_times(case.input, case.reference.replace(tzinfo=UTC))
    return {(each.interval.start, each.interval.end) for each in found}


def _borders(written: list[str | None]) -> Borders:
    return _moment(written[0]), _moment(written[1])


def _moment(written: str | None) -> datetime | None:
    return datetime.fromisoformat(written).replace(tzinfo=UTC) if written else None


def _resolved(case: Case) -> bool:
    found = _intervals(case)
    return all(any(_borders(written) in found for written in wanted.ranges) for wanted in case.found)


def test_at_least_95_percent_of_expressions_are_resolved(cases: list[Case]) -> None:
    wanted = [case for case in cases if case.found]
    missed = [case.input for case in wanted if not _resolved(case)]
    assert len(missed) <= 0.05 * len(wanted), missed


def test_at_most_3_percent_of_texts_without_a_time_give_one(cases: list[Case]) -> None:
    empty = [case for case in cases if not case.found]
    false = [case.input for case in empty if _intervals(case)]
    assert len(false) <= 0.03 * len(empty), false
