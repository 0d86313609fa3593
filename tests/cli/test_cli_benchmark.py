"""`vmemo benchmark` runs, shows and writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one short conversation."""
    turns = [
        {"id": "D1:1", "speaker": "Ada", "text": "I bought a violin from my neighbour."},
        {"id": "D1:2", "speaker": "Bo", "text": "That sounds wonderful."},
    ]
    questions = [{"question": "Where did the violin come from?", "kind": "single", "evidence": ["D1:1"]}]
    sessions = [{"n": 1, "date": "2024-01-11T20:40", "turns": turns}]
    body = {"id": "one", "speakers": ["Ada", "Bo"], "sessions": sessions, "questions": questions}
    place = tmp_path / "data" / "training" / "conversations"
    place.mkdir(parents=True)
    (place / "one.json").write_text(json.dumps(body))
    return tmp_path / "data"


def test_a_benchmark_is_shown_and_written(invoke: Run, data: Path, tmp_path: Path) -> None:
    files = {"json": tmp_path / "out" / "report.json", "html": tmp_path / "out" / "report.html"}
    written = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    result = invoke("benchmark", "ours", "--data", str(data), "--cache", str(tmp_path / "cache"), *written)
    assert result.exit_code == 0, result.output
    report = json.loads(files["json"].read_text())
    assert (report["benchmark"], report["metrics"]["recall@10"]) == ("ours", 1.0)
    assert "</html>" in files["html"].read_text()
    for shown in ("recall@10", "evidence@1000", "single", "embed", "p95 ms", str(files["json"])):
        assert shown in result.stdout


def test_an_ablation_is_shown_and_written(invoke: Run, data: Path, tmp_path: Path) -> None:
    files = {"json": tmp_path / "report.json", "html": tmp_path / "report.html"}
    written = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    place = ("--data", str(data), "--cache", str(tmp_path / "cache"))
    result = invoke("benchmark", "ablation", "--dataset", "ours", *place, *written)
    assert result.exit_code == 0, result.output
    report = json.loads(files["json"].read_text())
    assert report["variants"]["full"]["metrics"]["recall@10"] == 1.0
    assert "without keyword" in files["html"].read_text()
    for shown in ("ablation of ours", "recall@10 by category", "full", "without reranking", "without context"):
        assert shown in result.stdout


def test_texts_can_be_embedded_elsewhere(invoke: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    options = ("--data", str(data), "--cache", str(tmp_path / "cache"))
    result = invoke("benchmark", "ours", *options, "--export-texts", str(file))
    assert result.exit_code == 0, result.output
    assert "2 texts written" in result.stdout
    assert "violin" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("locomo", "--data", "/nowhere"), 1, "--data"),
        (("dreams",), 2, "dreams"),
        (("speed", "--sizes", "many"), 2, "such as 1000,10000"),
        (("sample", "--budget", "huge"), 2, "neither low, mid, high"),
        (("speed", "--budgets", "low,huge"), 2, "neither low, mid, high"),
        (("sample", "--engine", "recorded"), 1, "locomo only"),
        (("ablation", "--dataset", "speed"), 2, "speed"),
    ],
)
def test_a_benchmark_that_cannot_run_says_why(
    invoke: Run, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    result = invoke("benchmark", *arguments)
    assert result.exit_code == code
    assert complaint in result.stderr
