"""The updates benchmark: ranks of current and outdated values, and closed facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_data import CountingEmbedder, run

from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, Report

NEW_JOB = {
    "id": "new-job",
    "kind": "job",
    "turns": [
        {"id": "t1", "date": "2024-01-05T10:00", "speaker": "Ada", "text": "I work at Acme."},
        {"id": "t2", "date": "2024-01-05T10:01", "speaker": "Assistant", "text": "Acme has a good canteen."},
        {"id": "t3", "date": "2024-04-02T09:00", "speaker": "Ada", "text": "I work at Globex now."},
    ],
    "old": "t1",
    "new": "t3",
    "still_true": ["t3"],
    "question_now": "Where does Ada work?",
    "question_before": "Where did Ada work before?",
    "asked_at": "2024-05-01T10:00",
}
SECOND_PET = {
    "id": "pets",
    "kind": "additive",
    "turns": [
        {"id": "t1", "date": "2024-01-05T10:00", "speaker": "Bo", "text": "My cat Tom sleeps all day."},
        {"id": "t2", "date": "2024-03-05T10:00", "speaker": "Bo", "text": "We got a second cat, Mia."},
    ],
    "still_true": ["t1", "t2"],
    "question_now": "Which cats does Bo have?",
    "asked_at": "2024-05-01T10:00",
}


def measure(folder: Path, *rows: object) -> Report:
    file = folder / "scenarios.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    options = BenchOptions(benchmark="updates", file=file, work=folder, cache=folder, embedder=CountingEmbedder())
    return run(options)


def test_every_metric_is_measured_over_the_scenarios_that_define_it(tmp_path: Path) -> None:
    report = measure(tmp_path, NEW_JOB, SECOND_PET)
    assert set(report.metrics) == {"newest_first", "on_top", "closed", "wrongly_closed", "former_found"}
    assert report.metrics["wrongly_closed"] == 0.0
    assert set(report.tables["kinds"]["additive"]) == {"wrongly_closed"}
    assert report.config["scenarios"] == 2


def test_a_missing_or_unusable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"scenarios\.jsonl, line 1: kind: Field required"):
        measure(tmp_path, {"id": "x"})
    with pytest.raises(InvalidInput, match="No such file"):
        run(BenchOptions(benchmark="updates", file=tmp_path / "none.jsonl", work=tmp_path, cache=tmp_path))
