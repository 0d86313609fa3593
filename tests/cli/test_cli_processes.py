"""The command and the demo in processes of their own, and the examples as scripts."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from max_wait import MAX_WAIT
from vmemo import Memory

Run = Callable[..., Result]
EXAMPLES = Path(__file__).parents[2] / "examples"


def start(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *arguments]
    around = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=folder, env=around
    )


def test_the_demo_shows_every_section_within_100_columns(tmp_path: Path) -> None:
    done = start("-m", "vmemo", "demo", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    parts = ("1. Retain", "2. Recall", "3. Time travel", "4. Reflect", "5. Why", "6. Try next")
    assert [done.stdout.count(part) for part in parts] == [1] * len(parts)
    assert "last Friday (= 7 June 2024)" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    assert list(tmp_path.iterdir()) == []


def test_the_demo_serves_the_console_on_sample_data(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "vmemo",
        "demo",
        "--console",
        "--port",
        str(port),
        "--db",
        str(tmp_path / "demo.db"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as demo:
        try:
            assert demo.stdout is not None
            address = demo.stdout.readline().split()[-1]
            assert address == f"http://127.0.0.1:{port}/console/banks/demo"
            assert "Ctrl+C" in demo.stdout.readline()
        finally:
            demo.terminate()
    with Memory(tmp_path / "demo.db", bank="demo") as memory:
        opinions = memory.opinions_sync()
        assert len(opinions) == 3
        assert all(len(memory.trajectory_sync(opinion.id)) >= 2 for opinion in opinions)
        assert len(memory.observations_sync()) == 2


def test_the_demo_prints_json(invoke: Run, tmp_path: Path) -> None:
    shown = json.loads(invoke("demo", "--json", "--db", str(tmp_path / "demo.db")).stdout)
    then, now = ([hit["fact"]["text"] for hit in shown[part]["hits"]] for part in ("then", "now"))
    assert any("Brightwater" in text for text in then)
    assert not any("Fernhill" in text for text in then)
    assert any("Fernhill" in text for text in now)
    assert shown["answer"]["citations"]
    assert [found["query"] for found in shown["recalled"]] == ["Where does Maya work?", "Which city does Maya live in?"]
    assert all(found["tokens"] <= 120 for found in shown["recalled"])
    firsts = [found["hits"][0]["fact"]["text"] for found in shown["recalled"]]
    assert "Fernhill" in firsts[0]
    assert "moved to Edinburgh" in firsts[1]
    assert any(fact["invalid_at"] for fact in shown["facts"])


def test_the_commands_that_the_demo_suggests_work(invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = invoke("demo").stdout.split("6. Try next")[1].splitlines()
    tries = [shlex.split(line)[1:] for line in said if line.startswith("vmemo ")]
    assert 3 <= len([words for words in tries if words[0] not in ("demo", "benchmark")]) <= 5
    for words in tries:
        if words[0] != "benchmark":
            result = invoke(*words, input="y\n")
            assert result.exit_code == 0, (words, result.output)


def test_an_error_prints_one_red_line_and_exits_with_1(tmp_path: Path) -> None:
    done = start("-m", "vmemo", "recall", "x", "--db", "none.db", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1


# A shell starts what it puts in the background with interrupts ignored, and so may whoever runs these tests.
LISTENING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from vmemo.cli import main
main()
"""


def test_an_interrupt_exits_with_130(db: str) -> None:
    command = [sys.executable, "-c", LISTENING, "forget", "--all", "--db", db]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        assert asking.stderr is not None
        while asking.stderr.read(1) not in (b"?", b""):
            pass
        asking.send_signal(signal.SIGINT)
        assert asking.wait(timeout=MAX_WAIT) == 130


@pytest.mark.parametrize(
    ("example", "shown"),
    [
        ("quickstart.py", "1 March 2024"),
        ("sync_agent.py", "6 messages"),
        ("multi_user.py", "left: ['6f1c2d8e-9b1d-4f0c-8a57-2f6a1c0e3b44', 'default']"),
        ("read_with_a_model.py", "2024-02-01: Alice works at Acme"),
        ("reflect_in_character.py", "held with 0.70: I think remote work is a risk"),
    ],
)
def test_an_example_runs(
    example: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    output = capsys.readouterr()
    assert output.err == ""
    assert shown in output.out
