"""The checkpoint of finished cases survives crashes."""

from __future__ import annotations

from pathlib import Path

from vmemo_bench.case_run import CaseResult, QuestionScore
from vmemo_bench.checkpoint import Checkpoint


def result(case: str) -> CaseResult:
    score = QuestionScore(id="q", category="c", metrics={"mrr": 1 / 3}, timings={"total": 0.1})
    return CaseResult(case=case, messages=3, facts=2, questions=(score,))


def checkpoint(path: Path) -> Checkpoint[CaseResult]:
    return Checkpoint(path, CaseResult, lambda each: each.case)


def test_appended_records_are_loaded_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    written = checkpoint(path)
    assert "a" not in written
    for case in ("a", "b"):
        written.append(result(case))
    loaded = checkpoint(path)
    assert (loaded.get("a"), loaded.get("b")) == (result("a"), result("b"))


def test_a_line_cut_short_by_a_crash_is_ignored_and_damages_no_other(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    written = checkpoint(path)
    written.append(result("a"))
    written.append(result("b"))
    path.write_text(path.read_text()[:-20])
    cut = checkpoint(path)
    assert ("a" in cut, "b" in cut) == (True, False)
    cut.append(result("c"))
    loaded = checkpoint(path)
    assert ("a" in loaded, "b" in loaded, "c" in loaded) == (True, False, True)


def test_a_cleared_checkpoint_is_empty(tmp_path: Path) -> None:
    written = checkpoint(tmp_path / "run.jsonl")
    written.append(result("a"))
    written.clear()
    written.clear()
    assert "a" not in written
    assert "a" not in checkpoint(tmp_path / "run.jsonl")


def test_a_put_record_is_not_written(tmp_path: Path) -> None:
    written = checkpoint(tmp_path / "run.jsonl")
    written.put(result("a"))
    assert "a" in written
    assert "a" not in checkpoint(tmp_path / "run.jsonl")
