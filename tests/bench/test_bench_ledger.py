"""The ledger of finished cases survives crashes."""

from __future__ import annotations

from pathlib import Path

from vmemo_bench.ledger import Asked, Finished, Ledger


def finished(name: str) -> Finished:
    asked = Asked(id="q", category="c", metrics={"mrr": 1 / 3}, timings={"total": 0.1})
    return Finished(case=name, messages=3, facts=2, questions=(asked,))


def test_noted_cases_come_back_as_they_were(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "new", "run")
    assert ledger.load() == {}
    for name in ("a", "b"):
        ledger.note(finished(name))
    assert Ledger(tmp_path / "new", "run").load() == {"a": finished("a"), "b": finished("b")}


def test_a_line_cut_short_by_a_crash_is_left_out_and_spoils_no_other(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "run")
    ledger.note(finished("a"))
    ledger.note(finished("b"))
    path = tmp_path / "run.jsonl"
    path.write_text(path.read_text()[:-20])
    assert set(ledger.load()) == {"a"}
    ledger.note(finished("c"))
    assert set(ledger.load()) == {"a", "c"}


def test_a_cleared_ledger_is_empty(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "run")
    ledger.note(finished("a"))
    ledger.clear()
    ledger.clear()
    assert ledger.load() == {}
