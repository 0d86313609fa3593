"""`vmemo benchmark` runs a benchmark, prints the report and writes it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import JsonValue
from typer.testing import Result

from vmemo_conformance.fake_llm import ReceivedRequest, Refusal
from vmemo_conformance.llm_server import ScriptedServer

Run = Callable[..., Result]
QUESTION = "Where did the violin come from?"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one short conversation."""
    turns = [
        {"id": "D1:1", "speaker": "Ada", "text": "I bought a violin from my neighbour."},
        {"id": "D1:2", "speaker": "Bo", "text": "That sounds wonderful."},
    ]
    questions = [
        {"question": QUESTION, "kind": "single", "evidence": ["D1:1"], "answer": "from a neighbour"},
    ]
    sessions = [{"n": 1, "date": "2024-01-11T20:40", "turns": turns}]
    body = {"id": "one", "speakers": ["Ada", "Bo"], "sessions": sessions, "questions": questions}
    place = tmp_path / "data" / "training" / "conversations"
    place.mkdir(parents=True)
    (place / "one.json").write_text(json.dumps(body))
    return tmp_path / "data"


def test_a_report_is_printed_and_written(invoke: Run, data: Path, tmp_path: Path) -> None:
    files = {"json": tmp_path / "out" / "report.json", "html": tmp_path / "out" / "report.html"}
    written = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    result = invoke("benchmark", "ours", "--data", str(data), "--cache", str(tmp_path / "cache"), *written)
    assert result.exit_code == 0, result.output
    report = json.loads(files["json"].read_text())
    assert (report["benchmark"], report["metrics"]["recall@10"]) == ("ours", 1.0)
    assert "</html>" in files["html"].read_text()
    for shown in ("recall@10", "evidence@1000", "single", "embed", "p95 ms", str(files["json"])):
        assert shown in result.stdout


def test_an_ablation_is_printed_and_written(invoke: Run, data: Path, tmp_path: Path) -> None:
    files = {"json": tmp_path / "report.json", "html": tmp_path / "report.html"}
    written = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    place = ("--data", str(data), "--cache", str(tmp_path / "cache"))
    result = invoke("benchmark", "ablation", "--dataset", "ours", *place, *written)
    assert result.exit_code == 0, result.output
    report = json.loads(files["json"].read_text())
    assert report["metrics"]["recall@10"] == 1.0
    assert {"variants", "difference to full"} <= report["tables"].keys()
    assert "without keyword" in files["html"].read_text()
    for shown in ("ablation", "recall@10 by category", "full", "without reranking", "without context"):
        assert shown in result.stdout


def test_texts_without_vectors_are_exported(invoke: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    options = ("--data", str(data), "--cache", str(tmp_path / "cache"))
    result = invoke("benchmark", "ours", *options, "--export-texts", str(file))
    assert result.exit_code == 0, result.output
    assert "2 texts written" in result.stdout
    assert "violin" in file.read_text()


def answering(asked: ReceivedRequest) -> JsonValue:
    """Answer every question, and judge every answer as correct."""
    if asked.step == "reflect":
        return {"text": "It came from a neighbour [F1].", "steps": [], "found": True}
    return {"reason": "the same", "strict": True, "lenient": True}


def test_questions_are_answered_and_judged(invoke: Run, data: Path, tmp_path: Path) -> None:
    files = {"json": tmp_path / "qa.json", "html": tmp_path / "qa.html"}
    written = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    place = ("ours", "--mode", "qa", "--data", str(data), "--cache", str(tmp_path / "cache"))
    with ScriptedServer(answering) as server:
        models = ("--answerer", f"{server.url}#small", "--judge", f"{server.url}#large")
        result = invoke("benchmark", *place, *models, "--prices", "1,10,2,20", "--parallel", "2", *written)
    assert result.exit_code == 0, result.output
    report = json.loads(files["json"].read_text())
    assert report["metrics"]["accuracy_strict"] == 1.0
    assert report["metrics"]["dollars"] > 0
    assert report["questions"][0]["answer"]["text"] == "It came from a neighbour."
    assert QUESTION in files["html"].read_text()
    for shown in ("accuracy_lenient", "cited_evidence", "judge strict", "tokens in each", str(files["html"])):
        assert shown in result.stdout


def test_prompts_are_exported_and_answers_imported(invoke: Run, data: Path, tmp_path: Path) -> None:
    place = ("ours", "--mode", "qa", "--data", str(data), "--cache", str(tmp_path / "cache"))
    result = invoke("benchmark", *place, "--dump-prompts", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "1 prompts written to" in result.stdout
    assert QUESTION in json.loads((tmp_path / "out" / "answer.jsonl").read_text())["user"]
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"id": "one/0", "answer": "A neighbour's.", "strict": False, "lenient": True}))
    result = invoke("benchmark", *place, "--answers", str(answers))
    assert result.exit_code == 0, result.output
    assert "accuracy_lenient" in result.stdout


def test_a_failed_question_is_reported_as_an_error(invoke: Run, data: Path, tmp_path: Path) -> None:
    place = ("ours", "--mode", "qa", "--data", str(data), "--cache", str(tmp_path / "cache"))
    with ScriptedServer({"reflect": Refusal()}) as server:
        result = invoke("benchmark", *place, "--answerer", f"{server.url}#small")
    assert result.exit_code == 1
    assert "one/0: LLMRefused" in result.stderr
    assert "run the same command again" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("sample", "--mode", "qa"), 1, "--answerer MODEL"),
        (("sample", "--judge", "openai:gpt-5"), 1, "--mode qa"),
        (("sample", "--mode", "qa", "--prices", "cheap"), 2, "such as 0.25,2"),
        (("sample", "--mode", "qa", "--prices", "1"), 2, "such as 0.25,2"),
        (("sample", "--dump-prompts", "out"), 1, "--mode qa"),
        (("speed", "--mode", "qa"), 2, "No such option: --mode"),
        (("locomo", "--data", "/nowhere"), 1, "--data"),
        (("dreams",), 2, "dreams"),
        (("speed", "--sizes", "many"), 2, "such as 1000,10000"),
        (("speed", "--banks", "few,many"), 2, "such as 1000,10000"),
        (("sample", "--store", "mysql://me:secret@host/db"), 1, "not 'mysql'"),
        (("sample", "--mode", "qa", "--store", "postgres"), 1, "measured on sqlite"),
        (("sample", "--budget", "huge"), 2, "is not low, mid, high"),
        (("speed", "--budgets", "low,huge"), 2, "is not low, mid, high"),
        (("sample", "--engine", "recorded"), 1, "locomo only"),
        (("ablation", "--dataset", "speed"), 2, "speed"),
    ],
)
def test_the_error_for_invalid_options_names_the_problem(
    invoke: Run, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    result = invoke("benchmark", *arguments)
    assert result.exit_code == code
    assert complaint in result.stderr


def test_without_the_package_every_benchmark_names_the_install_command() -> None:
    without_package = """
import importlib.metadata, sys
importlib.metadata.entry_points = lambda **_: importlib.metadata.EntryPoints()
from vmemo.cli.app import app
app(["benchmark", "locomo", "--data", "folder"])
"""
    done = subprocess.run([sys.executable, "-c", without_package], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'vmemo-bench'" in done.stderr
