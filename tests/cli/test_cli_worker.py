"""`vmemo worker`: in this process until nothing is due, and as a process of its own that is told to stop."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from scripted import Reader, fact
from typer.testing import Result

from max_wait import MAX_WAIT
from vmemo import Memory
from vmemo_conformance.fake_llm import ReceivedRequest, Refusal
from vmemo_conformance.llm_server import ScriptedServer

Run = Callable[..., Result]
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (done|failed) (\w+) bank=(\w+) seconds=\d+\.\d\d(.*)")
TAUGHT = {f"piece {n}.": fact(f"Ana plays piece {n} on the piano.", ("Ana", "PERSON")) for n in range(1, 5)}


def stored(db: str, *banks: str, piece: int = 1) -> None:
    for bank in banks:
        with Memory(f"sqlite:///{db}", bank) as memory:
            memory.add_message_sync(f"I play piece {piece}.", speaker="Ana")


def status(invoke: Run, db: str, bank: str = "default") -> dict[str, Any]:
    return json.loads(invoke("inspect", "--db", db, "--bank", bank, "--json").stdout)


def logged(stderr: str) -> list[tuple[str, ...]]:
    lines = [LINE.fullmatch(line) for line in stderr.splitlines()]
    assert all(lines), stderr
    return [line.groups() for line in lines if line is not None]


def test_worker_once_runs_due_jobs_and_exits(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "x.db")
    stored(db, "default", "other")
    with ScriptedServer(Reader(TAUGHT)) as server:
        result = invoke("worker", "--once", "--db", db, "--llm", f"{server.url}#scripted", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"done": 4, "failed": 0}
    done = logged(result.stderr)
    assert sorted(done) == sorted(
        ("done", kind, bank, "") for kind in ("process", "extract") for bank in ("default", "other")
    )
    assert [status(invoke, db, bank)["facts"] for bank in ("default", "other")] == [1, 1]


def test_a_worker_for_some_banks_ignores_the_others(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "x.db")
    stored(db, "one", "two", "three")
    result = invoke("worker", "--once", "--bank", "one", "--bank", "three", "--db", db)
    assert "2 jobs done, 0 failed" in result.stdout
    assert [status(invoke, db, bank)["pending"] for bank in ("one", "two", "three")] == [0, 1, 0]


def test_a_worker_reports_failed_jobs_and_leaves_them_queued(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "x.db")
    stored(db, "default")
    with ScriptedServer(Reader(TAUGHT)) as server:
        server.faults("extract", [Refusal("piece 1 is private")])
        result = invoke("worker", "--once", "--db", db, "--llm", f"{server.url}#scripted")
    assert result.exit_code == 0, result.output
    assert "1 job done, 1 failed" in result.stdout
    (_, (state, kind, _, error)) = logged(result.stderr)
    assert (state, kind) == ("failed", "extract")
    assert "LLMRefused: " in error
    assert "piece" not in error
    assert status(invoke, db)["pending"] == 1


@pytest.mark.parametrize(("hours", "queued"), [("0", 0), ("6", 1)])
def test_a_worker_schedules_maintenance(invoke: Run, db: str, hours: str, queued: int) -> None:
    for _ in range(2):
        assert invoke("worker", "--once", "--maintain-every", hours, "--db", db).exit_code == 0
        jobs = json.loads(invoke("jobs", "--db", db, "--json").stdout)["jobs"]
        assert [job["kind"] for job in jobs] == ["maintain"] * queued


def test_a_worker_requires_existing_database_and_banks(invoke: Run, filled: Path, tmp_path: Path) -> None:
    missing = invoke("worker", "--once", "--db", str(tmp_path / "none.db"))
    assert (missing.exit_code, (tmp_path / "none.db").exists()) == (1, False)
    strange = invoke("worker", "--once", "--bank", "nobody", "--db", str(filled))
    assert strange.exit_code == 1
    assert "There is no bank 'nobody'" in strange.stderr


@contextmanager
def working(db: str, llm: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-m", "vmemo", "worker", "--db", db, "--llm", llm]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as run:
        try:
            yield run
        finally:
            run.kill()


def test_a_signalled_worker_finishes_running_jobs(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "x.db")
    stored(db, "default")
    reader, asked, go_on = Reader(TAUGHT), threading.Event(), threading.Event()

    def answer(received: ReceivedRequest) -> JsonValue:
        if received.step == "extract":
            asked.set()
            go_on.wait(MAX_WAIT)
        return reader(received)

    with ScriptedServer(answer) as server, working(db, f"{server.url}#scripted") as worker:
        assert asked.wait(MAX_WAIT)
        worker.send_signal(signal.SIGTERM)
        stored(db, "late")
        go_on.set()
        out, err = worker.communicate(timeout=MAX_WAIT)
    assert (worker.returncode, out) == (0, "2 jobs done, 0 failed\n")
    assert [line[:3] for line in logged(err)] == [("done", "process", "default"), ("done", "extract", "default")]
    assert status(invoke, db)["facts"] == 1
    assert status(invoke, db, "late")["pending"] == 1


def test_a_second_signal_returns_jobs_to_the_queue(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "x.db")
    stored(db, "default")
    reader, asked, go_on = Reader(TAUGHT), threading.Event(), threading.Event()

    def answer(received: ReceivedRequest) -> JsonValue:
        if received.step == "extract":
            asked.set()
            go_on.wait(MAX_WAIT)
        return reader(received)

    with ScriptedServer(answer) as server:
        with working(db, f"{server.url}#scripted") as worker:
            assert asked.wait(MAX_WAIT)
            for sign in (signal.SIGTERM, signal.SIGINT):
                worker.send_signal(sign)
            assert worker.wait(timeout=MAX_WAIT) == 130
        go_on.set()
        queued = json.loads(invoke("jobs", "--db", db, "--json").stdout)["jobs"]
        (job,) = [job for job in queued if job["kind"] == "extract"]
        assert (job["owner"], job["attempts"]) == (None, 0)
        invoke("process", "--db", db, "--llm", f"{server.url}#scripted")
    assert status(invoke, db)["facts"] == 1
