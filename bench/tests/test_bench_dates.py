"""The dates benchmark: judged dates joined with the turns of the datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_data import run

from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, Report

USER = "I ran yesterday, and I will rest on May 20 ->-> 1,1"
ASSISTANT = "You ran yesterday."
JUDGED = {"dataset": "beam", "said": "2024-05-02", "split": "development", "judge": "first"}


def measure(folder: Path, *rows: object) -> Report:
    file = folder / "dates.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    turns = [
        {"role": "user", "id": 0, "time_anchor": "May-02-2024", "content": USER},
        {"role": "assistant", "id": 1, "content": ASSISTANT},
    ]
    chat = folder / "beam" / "1" / "chat.json"
    chat.parent.mkdir(parents=True)
    chat.write_text(json.dumps([{"turns": [turns]}]))
    return run(BenchOptions(benchmark="dates", file=file, data=folder, work=folder, cache=folder))


def row(turn: str, offset: int, inserted: str, verdict: str, **more: str) -> dict[str, object]:
    role = "user" if turn == "1/0" else "assistant"
    return {**JUDGED, "turn": turn, "role": role, "offset": offset, "inserted": inserted, "verdict": verdict, **more}


def test_inserted_dates_are_compared_with_the_judged_ones(tmp_path: Path) -> None:
    report = measure(
        tmp_path,
        row("1/0", 15, "1 May 2024", "right"),
        row("1/0", 42, "20 May 2023", "wrong", should_be="20 May 2024"),
        row("1/1", 17, "1 May 2024", "right"),
        row("9/9", 3, "1 May 2024", "right"),
    )
    assert report.metrics == {"precision": 1.0, "recall": 0.5, "right": 2, "wrong": 0, "unsure": 0, "unjudged": 0}
    assert set(report.tables["dates"]) == {"beam user", "beam assistant", "development"}
    assert (report.config["turns"], report.config["judged"], report.config["absent"]) == (2, 3, 1)


def test_a_wrong_date_lowers_the_precision_and_an_unknown_one_is_counted(tmp_path: Path) -> None:
    report = measure(tmp_path, row("1/0", 15, "1 May 2024", "wrong", should_be="nothing"))
    assert (report.metrics["precision"], report.metrics["unjudged"]) == (0.0, 1)


def test_missing_data_and_unusable_rows_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"dates\.jsonl, line 1: dataset: Field required"):
        measure(tmp_path, {"turn": "x"})
    with pytest.raises(InvalidInput, match="No judged dates"):
        run(BenchOptions(benchmark="dates", file=tmp_path / "absent.jsonl", data=tmp_path))
