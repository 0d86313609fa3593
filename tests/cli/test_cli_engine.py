"""Reading with a model from the command line: retain, process, reprocess, status, doctor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted import Reader, fact
from typer.testing import Result

from vmemo_conformance.fake_llm import Refusal, StatusResponse
from vmemo_conformance.llm_server import ScriptedServer

Run = Callable[..., Result]
KEY = "sk-very-secret-1234"
ANA, CONTOSO = ("Ana", "PERSON"), ("Contoso", "ORGANIZATION")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    taught = {"job at Contoso": fact("Ana works at Contoso.", ANA, CONTOSO), "Leeds": fact("Ana lives in Leeds.", ANA)}
    with ScriptedServer(Reader(taught)) as running:
        yield running


@pytest.fixture
def llm(server: ScriptedServer) -> str:
    return f"{server.url}#scripted"


def shown(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def texts(invoke: Run, db: str) -> list[str]:
    return [each["text"] for each in json.loads(invoke("inspect", "facts", "--db", db, "--json").stdout)["facts"]]


def test_retain_uses_the_given_model(invoke: Run, tmp_path: Path, llm: str) -> None:
    db = str(tmp_path / "x.db")
    result = invoke("retain", "I found a job at Contoso.", "--speaker", "Ana", "--db", db, "--llm", llm)
    assert result.exit_code == 0, result.output
    assert "1 message stored, 1 fact derived in 1 episode, 0 skipped, 1 model call" in result.stdout
    (found,) = json.loads(invoke("inspect", "facts", "--db", db, "--json").stdout)["facts"]
    assert (found["text"], found["engine"].partition("#")[2]) == ("Ana works at Contoso.", "scripted/extract-11")


def test_the_model_can_be_set_in_the_environment(invoke: Run, tmp_path: Path, llm: str) -> None:
    db = str(tmp_path / "x.db")
    invoke("retain", "I found a job at Contoso.", "--speaker", "Ana", "--db", db, VMEMO_LLM=llm)
    assert texts(invoke, db) == ["Ana works at Contoso."]


def test_commands_without_a_model_need_no_key(invoke: Run, db: str) -> None:
    environment = {"VMEMO_LLM": "openai:gpt-5-mini", "OPENAI_API_KEY": ""}
    refused = invoke("process", "--db", db, **environment)
    assert refused.exit_code == 1
    assert "set OPENAI_API_KEY" in refused.stderr
    for command in (("recall", "Leeds"), ("jobs",), ("opinions",), ("entity", "list"), ("demo",)):
        assert invoke(*command, *(() if command == ("demo",) else ("--db", db)), **environment).exit_code == 0


def test_a_model_failure_keeps_the_message_and_names_the_command_to_resume(
    invoke: Run, tmp_path: Path, server: ScriptedServer, llm: str
) -> None:
    db = str(tmp_path / "x.db")
    server.faults("extract", [Refusal()])
    failed = invoke("retain", "I found a job at Contoso.", "--speaker", "Ana", "--db", db, "--llm", llm)
    assert failed.exit_code == 1
    assert "declined to answer. The messages are stored" in failed.stderr
    assert "`vmemo process` resumes" in failed.stderr
    status = shown(invoke("inspect", "--db", db, "--json", "--llm", llm))
    assert (status["messages"], status["pending"], status["facts"]) == (1, 1, 0)
    resumed = invoke("process", "--db", db, "--llm", llm)
    assert "1 fact derived in 1 episode, 0 skipped, 1 model call" in resumed.stdout
    assert texts(invoke, db) == ["Ana works at Contoso."]


def test_json_errors_have_the_public_error_name_and_no_key(
    invoke: Run, tmp_path: Path, server: ScriptedServer, llm: str
) -> None:
    server.faults("extract", [StatusResponse(401, f"wrong key {KEY}")])
    around = {"VMEMO_LLM": llm, "VMEMO_LLM_KEY": KEY}
    failed = invoke("retain", "I have a job at Contoso.", "--db", str(tmp_path / "x.db"), "--json", **around)
    assert failed.exit_code == 1
    assert json.loads(failed.stderr)["error"] == "LLMDenied"
    jobs = invoke("jobs", "--db", str(tmp_path / "x.db"), **around)
    doctor = invoke("doctor", "--db", str(tmp_path / "x.db"), **around)
    inspected = invoke("inspect", "--db", str(tmp_path / "x.db"), **around)
    for each in (failed, jobs, doctor, inspected):
        assert KEY not in each.output


def test_status_shows_engine_queue_problems_and_cost_per_step(
    invoke: Run, tmp_path: Path, server: ScriptedServer, llm: str
) -> None:
    db = str(tmp_path / "x.db")
    invoke("retain", "I live in Leeds.", "--speaker", "Ana", "--db", db, "--llm", llm)
    server.faults("extract", [Refusal()])
    invoke("retain", "I have a job at Contoso.", "--speaker", "Ana", "--db", db, "--llm", llm)
    result = invoke("inspect", "--db", db, "--llm", llm)
    assert "#scripted" in result.stdout
    assert "1 message pending: LLMRefused:" in result.stdout
    queued = next(line for line in result.stdout.splitlines() if line.strip().startswith("extract ") and "Z" in line)
    assert queued.split()[:4] == ["extract", "0", "0", "1"]
    status = shown(invoke("inspect", "--db", db, "--json", "--llm", llm))
    (spent,) = status["spending"]
    assert (spent["step"], spent["calls"], spent["failures"]) == ("extract", 1, 1)
    assert spent["input_tokens"] > 0
    assert "tokens in" in result.stdout


def test_jobs_shows_errors_and_due_times(invoke: Run, tmp_path: Path, server: ScriptedServer, llm: str) -> None:
    db = str(tmp_path / "x.db")
    server.faults("extract", [Refusal()])
    invoke("retain", "I have a job at Contoso.", "--db", db, "--llm", llm)
    (job,) = shown(invoke("jobs", "--db", db, "--json"))["jobs"]
    assert (job["kind"], job["attempts"]) == ("extract", 1)
    assert "LLMRefused" in job["error"]
    row = next(line for line in invoke("jobs", "--db", db).stdout.splitlines() if "extract" in line)
    assert row.split()[1:3] == ["extract", "failed"]
    assert job["due"][:10] in row
    assert "LLMRefused" in row


def test_the_queue_is_empty_after_the_local_engine_processed(invoke: Run, db: str) -> None:
    assert invoke("jobs", "--db", db).stdout == "The queue is empty.\n"


def test_process_with_the_local_engine_processes_pending_messages(
    invoke: Run, tmp_path: Path, server: ScriptedServer, llm: str
) -> None:
    db = str(tmp_path / "x.db")
    server.faults("extract", [Refusal()])
    invoke("retain", "I have a job at Contoso.", "--speaker", "Ana", "--db", db, "--llm", llm)
    done = shown(invoke("process", "--db", db, "--json"))
    assert len(done["derived"]) == 1
    assert texts(invoke, db) == ["Ana: I have a job at Contoso."]


def test_process_says_which_jobs_are_left_to_a_worker(invoke: Run, db: str) -> None:
    assert "worker" not in invoke("process", "--db", db).output
    invoke("webhook", "add", "https://app.example/hook", "--db", db)
    invoke("retain", "I play chess.", "--speaker", "Ana", "--db", db)
    left = shown(invoke("process", "--db", db, "--json"))
    assert (left["derived"], left["left"]) == ([], {"webhook": 1})
    assert "1 job left to a worker: 1 webhook. `vmemo worker --once`" in invoke("process", "--db", db).stdout


def test_reprocess_switches_to_another_engine_and_back(invoke: Run, db: str, llm: str) -> None:
    before = texts(invoke, db)
    result = invoke("reprocess", "--db", db, "--llm", llm)
    assert result.exit_code == 0, result.output
    assert "2 facts derived" in result.stdout
    assert sorted(texts(invoke, db)) == ["Ana lives in Leeds.", "Ana works at Contoso."]
    again = shown(invoke("reprocess", "--db", db, "--json"))
    assert len(again["derived"]) == len(before)
    assert texts(invoke, db) == before


def test_a_failed_reprocess_leaves_the_bank_unchanged_and_resumes(
    invoke: Run, db: str, server: ScriptedServer, llm: str
) -> None:
    before = texts(invoke, db)
    server.faults("extract", [Refusal()])
    failed = invoke("reprocess", "--db", db, "--llm", llm)
    assert failed.exit_code == 1
    assert "`vmemo reprocess` resumes" in failed.stderr
    assert texts(invoke, db) == before
    assert invoke("reprocess", "--db", db, "--llm", llm).exit_code == 0
    assert sorted(texts(invoke, db)) == ["Ana lives in Leeds.", "Ana works at Contoso."]


def test_progress_is_shown_on_a_terminal_and_not_with_json(invoke: Run, db: str, llm: str) -> None:
    seen = invoke("reprocess", "--db", db, "--llm", llm, NO_COLOR="", FORCE_COLOR="1")
    assert "reprocessing messages" in seen.stderr
    assert "processing messages" in invoke("process", "--db", db, "--llm", llm, NO_COLOR="", FORCE_COLOR="1").stderr
    silent = invoke("process", "--db", db, "--llm", llm, "--json", NO_COLOR="", FORCE_COLOR="1")
    assert silent.stderr == ""


def checks(result: Result) -> dict[str, tuple[str, str]]:
    return {line["check"]: (line["state"], line["detail"]) for line in json.loads(result.stdout)["checks"]}


def test_doctor_calls_the_model_only_with_llm_check(invoke: Run, db: str, server: ScriptedServer, llm: str) -> None:
    assert checks(invoke("doctor", "--db", db, "--json"))["engine"][1].startswith("local (no language model")
    quiet = checks(invoke("doctor", "--db", db, "--json", "--llm", llm))
    assert quiet["engine"][0] == "ok"
    assert "#scripted" in quiet["engine"][1]
    assert ("llm" in quiet, server.received) == (False, [])
    asked = checks(invoke("doctor", "--db", db, "--json", "--llm", llm, "--llm-check"))
    assert asked["llm"][0] == "ok"
    assert [each.step for each in server.received] == ["check"]


def test_doctor_fails_on_an_unavailable_or_invalid_model(
    invoke: Run, db: str, server: ScriptedServer, llm: str
) -> None:
    server.faults("check", [StatusResponse(404)])
    failed = invoke("doctor", "--db", db, "--json", "--llm", llm, "--llm-check")
    assert failed.exit_code == 1
    assert checks(failed)["llm"] == ("fail", checks(failed)["llm"][1])
    assert "check the base URL and the model's name" in checks(failed)["llm"][1]
    unmade = invoke("doctor", "--db", db, "--json", "--llm", "openai:gpt-5-mini", OPENAI_API_KEY="")
    assert unmade.exit_code == 1
    assert "set OPENAI_API_KEY" in checks(unmade)["engine"][1]
    assert checks(unmade)["bank default"][0] == "ok"


def test_doctor_warns_about_failed_jobs(invoke: Run, tmp_path: Path, server: ScriptedServer, llm: str) -> None:
    db = str(tmp_path / "x.db")
    server.faults("extract", [Refusal()])
    invoke("retain", "I have a job at Contoso.", "--db", db, "--llm", llm)
    state, detail = checks(invoke("doctor", "--db", db, "--json"))["bank default"]
    assert state == "warn"
    assert "1 message pending, last error: LLMRefused" in detail
    assert "vmemo process --bank default retries" in detail


def test_maintain_reports_its_result(invoke: Run, db: str) -> None:
    done = shown(invoke("maintain", "--db", db, "--json"))
    assert done["optimised"] is True
    assert "indexes optimised" in invoke("maintain", "--db", db).stdout
