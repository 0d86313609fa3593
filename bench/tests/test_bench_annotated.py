"""The benchmarks over annotated conversations: `lives` and `languages`, through the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel, JsonValue
from small_data import CountingEmbedder, Interrupted, StopAt, run
from typer.testing import CliRunner, Result

from vmemo.cli.app import app
from vmemo_bench import BenchOptions

NOW = "2025-09-01T10:00:00Z"
LIFE: Mapping[str, JsonValue] = {
    "id": "ines",
    "messages": [
        {"id": 1, "role": "user", "name": "Ines", "time": "2025-03-04T09:00:00Z", "text": "I work at the harbour."},
        {"id": 2, "role": "assistant", "name": "Assistant", "time": "2025-03-04T09:01:00Z", "text": "Got it!"},
        {"id": 3, "role": "user", "name": "Ines", "time": "2025-03-04T09:02:00Z", "text": "I met Anna Lund yesterday."},
        {"id": 4, "role": "user", "name": "Ines", "time": "2025-06-10T09:00:00Z", "text": "Always answer in French."},
        {"id": 5, "role": "user", "name": "Ines", "time": "2025-06-10T09:01:00Z", "text": "My cat Tom sleeps all day."},
        {"id": 6, "role": "user", "name": "Ines", "time": "2025-06-10T09:02:00Z", "text": "Anna Berg repairs clocks."},
    ],
    "changes": [{"message": 1, "text": "work at the harbour", "until": 5, "by": "sleeps"}],
    "still_true": [{"message": 5, "text": "My cat Tom sleeps"}],
    "instructions": [{"message": 4, "text": "Always answer in French", "until": None}],
    "not_instructions": [{"message": 5, "text": "My cat Tom sleeps all day"}],
    "noise": [2],
    "dates": [
        {"message": 3, "text": "yesterday", "start": "2025-03-03", "end": "2025-03-04"},
        {"message": 5, "text": "all day", "start": "2025-06-10", "end": "2025-06-11"},
    ],
    "no_dates": [{"message": 5, "text": "all day"}],
    "people": [
        {"name": "Anna Lund", "mentions": [{"message": 3, "text": "Anna Lund"}, {"message": 3, "text": "Anna"}]},
        {"name": "Anna Berg", "mentions": [{"message": 6, "text": "Anna Berg"}]},
    ],
    "questions": [
        {"question": "Where does Ines work?", "time": NOW, "evidence": [1], "outdated": [1], "type": "current"},
        {"question": "What do the cat and Anna Berg do?", "time": NOW, "evidence": [5, 6], "type": "multi"},
        {"question": "Which car does Ines drive?", "time": NOW, "evidence": [], "type": "unanswerable"},
    ],
}
GERMAN: Mapping[str, JsonValue] = {
    "id": "uwe",
    "language": "de",
    "messages": [
        {"id": 1, "role": "user", "name": "Uwe", "time": "2025-03-04T09:00:00Z", "text": "Mein Kater heißt Tomaso."},
        {"id": 2, "role": "user", "name": "Uwe", "time": "2025-03-05T09:00:00Z", "text": "Das Dach kostet 800 Euro."},
    ],
    "questions": [
        {"question": "Wie heißt der Kater Tomaso?", "language": "de", "evidence": [1]},
        {"question": "Was kostet the Dach?", "language": "de-en", "evidence": [2]},
        {"question": "Who is Tomaso?", "language": "en", "evidence": [1]},
    ],
}


class WrittenReport(BaseModel):
    """The parts of a JSON report that these tests read."""

    metrics: dict[str, float]
    tables: dict[str, dict[str, dict[str, float]]]
    config: dict[str, JsonValue]


def invoke(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["benchmark", *arguments, "--work", str(folder / "work")], env={"COLUMNS": "300"})


def measure(folder: Path, *arguments: str) -> WrittenReport:
    """Run a benchmark and return its report."""
    file = folder / "report.json"
    result = invoke(folder, *arguments, "--json", str(file))
    assert result.exit_code == 0, result.output
    return WrittenReport.model_validate_json(file.read_text())


def written(file: Path, *conversations: Mapping[str, JsonValue]) -> str:
    file.write_text("\n".join(map(json.dumps, conversations)))
    return str(file)


def test_lives_compares_the_bank_with_every_annotation(tmp_path: Path) -> None:
    report = measure(tmp_path, "lives", written(tmp_path / "life.json", LIFE))
    counts = {name: row["of"] for name, row in report.tables["lives"].items()}
    once = (
        "closed",
        "marked",
        "wrongly_closed",
        "wrongly_marked",
        "current",
        "multi",
        "outdated_shown",
        "outdated_alone",
    )
    found = ("instructions_found", "instructions_invented", "noise_kept", "dates_invented")
    assert counts == dict.fromkeys((*once, *found, "people_joined", "namesakes_apart"), 1) | {
        "first": 2,
        "dates_right": 2,
    }
    right = {"current", "multi", "outdated_shown", "instructions_found", "people_joined", "namesakes_apart"}
    assert {name for name, share in report.metrics.items() if share == 1} - {"first"} == right
    assert report.tables["lives"]["dates_right"] == {"count": 1, "of": 2, "share": 0.5}
    assert report.config["conversations"] == 1


def test_lives_can_measure_its_questions_alone(tmp_path: Path) -> None:
    report = measure(tmp_path, "lives", written(tmp_path / "life.json", LIFE), "--part", "retrieval")
    assert set(report.metrics) == {"first", "current", "multi", "outdated_shown", "outdated_alone"}


def test_languages_distinguishes_own_mixed_and_english_questions(tmp_path: Path) -> None:
    folder = tmp_path / "conversations"
    folder.mkdir()
    written(folder / "a.jsonl", GERMAN, {**GERMAN, "id": "uwe 2"})
    report = measure(tmp_path, "languages", str(folder))
    assert report.tables["languages"] == {"de": report.metrics}
    assert report.metrics == {
        f"{kind}{name}": 1.0 for kind in ("", "mixed_", "cross_") for name in ("first", "in_three")
    }
    assert report.tables["all languages"]["first"] == {"count": 2, "of": 2, "share": 1.0, "low": 1.0, "high": 1.0}


def test_an_interrupted_run_resumes_with_the_next_conversation(tmp_path: Path) -> None:
    file = Path(written(tmp_path / "two.jsonl", GERMAN, {**GERMAN, "id": "uwe 2"}))

    def options(embedder: CountingEmbedder) -> BenchOptions:
        return BenchOptions(benchmark="languages", files=(file,), work=tmp_path / "work", embedder=embedder)

    with pytest.raises(Interrupted):
        run(options(CountingEmbedder()), StopAt(1))
    rest, whole = CountingEmbedder(), CountingEmbedder()
    assert run(options(rest)).metrics == run(options(whole)).metrics
    assert len(whole.queries) == 2 * len(rest.queries)


@pytest.mark.parametrize("benchmark", ["lives", "languages"])
def test_without_files_the_packaged_conversations_are_measured(tmp_path: Path, benchmark: str) -> None:
    report = measure(tmp_path, benchmark, "--limit", "1")
    assert report.metrics["first"]


def test_a_wrong_file_is_reported_with_its_name_and_the_field(tmp_path: Path) -> None:
    questions: list[JsonValue] = [{"question": "Wer?", "language": "de", "evidence": [7]}]
    cases: dict[str, dict[str, JsonValue]] = {
        "questions.0.evidence.0: Value error, the conversation has no message 7": {**GERMAN, "questions": questions},
        "language: Field required": {"id": "x", "messages": [], "questions": []},
        "messages: Field required": {"id": "x"},
    }
    for message, conversation in cases.items():
        result = invoke(tmp_path, "languages", written(tmp_path / "bad.json", conversation))
        assert result.exit_code == 1
        assert f"bad.json: {message}" in result.output
    assert "another conversation is named 'uwe'" in (
        invoke(tmp_path, "languages", written(tmp_path / "twice.jsonl", GERMAN, GERMAN)).output
    )
    assert "No such file" in invoke(tmp_path, "lives", str(tmp_path / "absent.json")).output
    (tmp_path / "empty").mkdir()
    assert "has no conversations" in invoke(tmp_path, "lives", str(tmp_path / "empty")).output
