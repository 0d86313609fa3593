"""`vmemo test`: what a memory must and must not recall, on any source and configuration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import Result

from vmemo import Memory

Run = Callable[..., Result]
ANA = Path(__file__).with_name("ana.json")
CASES = """
source: {files: ana.json}
cases:
  - name: before the move
    question: Where does Ana live?
    at: 2026-02-01T10:00:00Z
    first: Rome
    must_not_recall: Lisbon
  - question: Where does Ana live?
    first: moved to Lisbon
  - question: What is Ana's blood type?
    silent: true
  - question: How tall is the tower?
    follows: always answer in metric units
  - question: Where does Ana work?
    must_recall: [Fernhill]
    silent: false
"""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A file of cases beside its conversation."""
    shutil.copy(ANA, tmp_path)
    (tmp_path / "cases.yaml").write_text(CASES)
    return tmp_path / "cases.yaml"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database whose default bank holds the conversation."""
    with Memory(tmp_path / "memory.db") as memory:
        memory.retain_sync(json.loads(ANA.read_text()))
    return tmp_path / "memory.db"


def passed(result: Result) -> list[bool]:
    return [each["passed"] for each in json.loads(result.stdout)]


def test_cases_pass_at_their_times(test_command: Run, cases: Path) -> None:
    result = test_command(cases)
    assert result.exit_code == 0, result.output
    assert "5 cases passed." in result.stdout


def test_a_planted_regression_is_caught(test_command: Run, cases: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    result = test_command(cases, "--junit", results, VMEMO_CHANNELS="temporal")
    assert result.exit_code == 1
    assert "first: 'Rome' is not the first hit" in result.stdout
    suite = ElementTree.parse(results).getroot()[0]
    assert (suite.get("tests"), int(suite.get("failures", 0)) > 0) == ("5", True)
    [failure] = next(each for each in suite if each.get("name") == "1: before the move")
    assert "is not the first hit" in failure.get("message", "")


def test_a_bank_is_asked_about_earlier_times(test_command: Run, cases: Path, db: Path) -> None:
    # The messages are in the bank since now, so that it knew nothing before.
    cases.write_text(
        CASES.replace(
            "    at: 2026-02-01T10:00:00Z\n    first: Rome\n    must_not_recall: Lisbon\n",
            "    silent: true\n    at: 2026-02-01T10:00:00Z\n",
        )
    )
    result = test_command(cases, "--db", db, "--bank", "default", "--json")
    assert passed(result) == [True] * 5, result.output


def test_what_was_forgotten_is_noticed_in_a_bank(test_command: Run, cases: Path, db: Path) -> None:
    with Memory(db) as memory:
        [said] = [each for each in memory.messages_sync() if "Lisbon" in each.content]
        memory.forget_sync(messages=[said.id])
    cases.write_text('source: {db: memory.db}\ncases: [{question: "Where does Ana live?", first: Lisbon}]')
    result = test_command(cases)
    assert result.exit_code == 1
    assert "'Lisbon' is not the first hit" in result.stdout


def test_a_case_that_feedback_breaks_is_reported_until_the_feedback_is_removed(
    test_command: Run, tmp_path: Path
) -> None:
    question, file = "Which music does Ana like?", tmp_path / "cases.yaml"
    with Memory(tmp_path / "memory.db") as memory:
        said = ["I like jazz music.", "I like folk music.", "My cat is called Tux.", "I moved to Oslo."]
        memory.retain_sync(said, speaker="Ana")
        first, second, *_ = memory.recall_sync(question).hits
        file.write_text(f'source: {{db: memory.db}}\ncases: [{{question: "{question}", first: "{first.id}"}}]')
        assert test_command(file).exit_code == 0
        memory.feedback_sync(first.id, question)
        memory.feedback_sync(second.id, question, useful=True)
        result = test_command(file)
        assert (result.exit_code, "is not the first hit" in result.stdout) == (1, True)
        for hit in (first, second):
            memory.feedback_sync(hit.id, question, useful=None)
        assert test_command(file).exit_code == 0


def test_messages_stand_in_the_file_and_one_is_named_as_the_time(test_command: Run, tmp_path: Path) -> None:
    file = tmp_path / "inline.yaml"
    file.write_text("""
source:
  messages:
    - {id: m1, role: user, name: Ana, content: I play the cello., timestamp: 2026-01-01T10:00:00Z}
    - {id: m2, role: user, name: Ana, content: I sold my cello and play the oboe., timestamp: 2026-01-01T10:00:00Z}
cases:
  - {question: "Which instrument does Ana play?", at: m2, must_recall: m1, must_not_recall: m2}
  - {question: "Which instrument does Ana play?", must_recall: oboe}
""")
    result = test_command(file)
    assert result.exit_code == 0, result.output


def test_temporary_banks_of_a_store_are_deleted(test_command: Run, cases: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    assert test_command(cases, "--db", store).exit_code == 0
    with Memory(store) as memory:
        assert memory.banks_sync() == ["default"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cases: [", "line 1, column 9"),
        ("cases: []", "cases: Tuple should have at least 1 item"),
        ("- question: x", "must be a mapping with fields, not list"),
        ("cases: [{question: x, silent: true}]", "case 1 ('x'): source: there is none"),
        ("source: {files: a.json}\ncases: [{question: x}]", "case 1 ('x'): a case expects something"),
        ("source: {files: a.json}\ncases: [{silent: true}]", "case 1: question: "),
        ("source: {files: a.json}\ncases: [{question: x, firts: y}]", "there is no field 'firts'; there are question"),
        (
            "source: {files: a.json}\ncases: [{question: x, silent: maybe}]",
            "silent: must be a valid boolean, unable to interpret input, not 'maybe'; write true or false",
        ),
        ("source: {files: a.json}\ncases: [{question: x, must_recall: 5}]", "must_recall: "),
        ("source: {files: a.json, db: b}\ncases: [{question: x, first: y}]", "source: a source has either"),
        ("source: {files: a.json}\ncases: [{question: x, question: y, first: z}]", "'question' is given twice"),
        ("source: {files: none.json}\ncases: [{question: x, first: y}]", "none.json does not exist"),
        ("source: {files: ana.json}\ncases: [{question: x, first: y, at: noon}]", "at: 'noon' is neither a time"),
        ("source: {files: ana.json}\ncases: [{question: x, first: y, at: 2026-01-01T10:00:00}]", "has no time zone"),
        ("source: {db: none.db}\ncases: [{question: x, first: y}]", "none.db does not exist"),
        ("source: {messages: [{role: user}]}\ncases: [{question: x, first: y}]", "message 1: content"),
    ],
)
def test_an_invalid_file_names_file_case_field_rule_and_fix(
    test_command: Run, cases: Path, text: str, message: str
) -> None:
    cases.write_text(text)
    result = test_command(cases)
    assert result.exit_code == 1
    assert "cases.yaml" in result.stderr or "none.db" in result.stderr
    assert message in " ".join(result.stderr.split())


def test_turns_of_a_report_become_cases(test_command: Run, replayed: Path, tmp_path: Path) -> None:
    shutil.copy(ANA, tmp_path)
    file, report = tmp_path / "cases.yaml", json.loads((replayed / "replay.json").read_text())
    asked = [report["messages"][turn["number"]]["text"] for turn in report["turns"]]
    numbers = [asked.index(text) + 1 for text in ("Where do I live?", "Where do I live now?")]
    recorded = test_command(
        "--record", file, "--report", replayed / "replay.json", "--turn", numbers[0], "--turn", numbers[1]
    )
    assert recorded.exit_code == 0, recorded.output
    result = test_command(file, "--json")
    assert passed(result) == [True, True]
    assert (
        "exists; record cases in a new file"
        in test_command("--record", file, "--report", replayed / "replay.json", "--turn", numbers[0]).stderr
    )


def test_marks_of_a_report_become_cases(test_command: Run, replayed: Path, tmp_path: Path) -> None:
    shutil.copy(ANA, tmp_path)
    report: dict[str, Any] = json.loads((replayed / "replay.json").read_text())
    assert "has no marks" in test_command("--record", tmp_path / "c.yaml", "--report", replayed / "replay.json").stderr
    by_text = {each["text"]: each["id"] for each in report["messages"]}
    rome, lisbon = (next(id for text, id in by_text.items() if name in text) for name in ("Rome and", "Lisbon"))
    report["marks"] = {
        by_text["Where do I live now?"]: {"right": [lisbon], "wrong": [rome]},
        by_text["What is my blood type?"]: {"silent": True},
    }
    (tmp_path / "marked.json").write_text(json.dumps(report))
    assert test_command("--record", tmp_path / "c.yaml", "--report", tmp_path / "marked.json").exit_code == 0
    written = yaml.safe_load((tmp_path / "c.yaml").read_text())
    assert [case["question"] for case in written["cases"]] == ["Where do I live now?", "What is my blood type?"]
    result = test_command(tmp_path / "c.yaml")
    assert result.exit_code == 1
    assert f"must_not_recall: '{rome}' is hit" in result.stdout


def test_a_question_with_its_present_hits_becomes_a_case(test_command: Run, db: Path, tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    recorded = test_command("--record", file, "--question", 'Where does "Ana" live? 🙂\x85', "--db", db)
    assert recorded.exit_code == 0, recorded.output
    assert test_command(file).exit_code == 0
    with Memory(db) as memory:
        memory.forget_sync(entity="Lisbon")
    assert test_command(file).exit_code == 1


def test_cases_run_before_and_after_an_operation(test_command: Run, cases: Path, db: Path) -> None:
    reprocessed = test_command(cases, "--before-after", "reprocess", "--json")
    assert [(each["before"]["passed"], each["after"]["passed"]) for each in json.loads(reprocessed.stdout)] == [
        (True, True)
    ] * 5
    cases.write_text('source: {db: memory.db}\ncases: [{question: "Where does Ana work?", must_recall: Fernhill}]')
    before = db.read_bytes()
    reembedded = test_command(cases, "--before-after", "reembed", "--embedder", "deep")
    assert reembedded.exit_code == 0, reembedded.output
    assert "0 failed before reembed and 0 after" in reembedded.stdout
    assert db.read_bytes() == before
    assert "pass --embedder" in test_command(cases, "--before-after", "reembed").stderr


def test_a_wrong_use_names_the_option(test_command: Run, cases: Path, tmp_path: Path) -> None:
    assert "Pass the file of cases" in test_command().stderr
    assert "pass --db" in test_command(cases, "--bank", "default").stderr
    assert "--record needs --report" in test_command("--record", tmp_path / "new.yaml").stderr
    assert "is not a report" in test_command("--record", tmp_path / "new.yaml", "--report", cases).stderr
