"""The command and the demo in processes of their own, and the examples as scripts."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from max_wait import MAX_WAIT
from vmemo import Memory
from vmemo.cli.demo import conversation
from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models.search import Encoding, TokenVectors
from vmemo.ports import TextKind

Run = Callable[..., Result]
EXAMPLES = Path(__file__).parents[2] / "examples"


FIRST_USE = """
import json, subprocess, sys, time
from vmemo import Memory
from vmemo.client import Client

started = time.monotonic()
command = [sys.executable, "-m", "vmemo", "serve", "--port", "0", "--db", "served.db", "--json"]
server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
with Memory("memory.db") as memory:
    memory.retain_sync("I moved to Oslo in March.")
    assert memory.recall_sync("Where do I live?").hits
    url = next(line["url"] for line in map(json.loads, server.stderr) if line["event"] == "listening")
    with Client(url) as client:
        client.retain_sync("I moved to Oslo in March.")
        assert client.recall_sync("Where do I live?").hits
    print("used", flush=True)
    time.sleep(max(0.0, started + float(sys.argv[1]) - time.monotonic()))
server.terminate()
assert server.wait() == 0
"""


@dataclass(frozen=True)
class FirstUse:
    """A process that uses the library and a server, with an empty home folder and environment."""

    process: subprocess.Popen[str]
    home: Path
    trace: Path | None
    """The file of the system calls that send something, where `strace` is installed."""


@pytest.fixture(scope="module")
def first_use(tmp_path_factory: pytest.TempPathFactory) -> Generator[FirstUse]:
    folder, home = tmp_path_factory.mktemp("used"), tmp_path_factory.mktemp("home")
    trace = folder / "trace" if shutil.which("strace") else None
    # Telemetry of a dependency looks its host up only after a while.
    seconds = 20 if trace else 0
    calls = "connect,sendto,sendmsg,sendmmsg"
    traced = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={calls}"] if trace else []
    with subprocess.Popen(
        [*traced, sys.executable, "-c", FIRST_USE, str(seconds)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield FirstUse(process, home, trace)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def test_the_home_folder_stays_empty(first_use: FirstUse) -> None:
    assert first_use.process.stdout is not None
    assert first_use.process.stdout.readline() == "used\n"
    assert list(first_use.home.rglob("*")) == []


def test_the_demo_shows_every_section_within_100_columns(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("demo", COLUMNS="100")
    assert (done.exit_code, done.stderr) == (0, "")
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
    then, now = (shown[part]["hits"][0]["fact"]["text"] for part in ("then", "now"))
    assert "Brightwater" in then
    assert "Fernhill" in now
    assert shown["answer"]["citations"]
    assert [found["query"] for found in shown["recalled"]] == ["Where does Maya work?", "Which city does Maya live in?"]
    firsts = [found["hits"][0]["fact"]["text"] for found in shown["recalled"]]
    assert "Fernhill" in firsts[0]
    assert "Edinburgh" in firsts[1]
    assert shown["why"]["messages"]


class OtherRounding(PackagedEmbedder):
    """The packaged embedder as on another processor, where int8 rounds differently: vectors with a cosine of 0.99."""

    seed = 0

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        return list(map(self._moved, texts, await super().encode(texts, kind)))

    def _moved(self, text: str, encoding: Encoding) -> Encoding:
        random = np.random.default_rng([self.seed, *text.encode()])
        assert encoding.tokens is not None
        return Encoding(moved(encoding.vector[None], random)[0], moved(encoding.tokens, random))


def moved(vectors: TokenVectors, random: np.random.Generator) -> TokenVectors:
    """Return vectors of the same lengths in slightly other directions."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    near = vectors + lengths * random.normal(0, 0.14 / vectors.shape[1] ** 0.5, vectors.shape)
    return (near * (lengths / np.linalg.norm(near, axis=1, keepdims=True))).astype(np.float32)


def test_the_answers_of_the_demo_do_not_depend_on_rounding() -> None:
    embedder = OtherRounding()
    for embedder.seed in range(2):
        with Memory(":memory:", embedder=embedder) as memory:
            memory.retain_sync(conversation())
            for question, at, answer in (
                ("Where does Maya work?", None, "Fernhill Robotics"),
                ("Which city does Maya live in?", None, "Edinburgh"),
                ("Where does Maya live?", None, "Edinburgh"),
                ("Where does Maya work?", "2024-03-01T00:00Z", "Brightwater Energy"),
                ("Which city does Maya live in?", "2024-05-01T00:00Z", "live in Leeds"),
                ("What food does Maya avoid?", None, "allergic to hazelnuts"),
            ):
                found = memory.recall_sync(question, max_tokens=150, at_time=at)
                assert answer in found.hits[0].text, (embedder.seed, question)


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
    command = [sys.executable, "-W", "error", "-m", "vmemo", "recall", "x", "--db", "none.db"]
    # Without the variables of this process: telemetry is off where tests or a continuous integration service run.
    around = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=tmp_path, env=around
    )
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
        # An interrupt between the prompt and the read of its answer is noticed only after the read: send another one.
        until = time.monotonic() + MAX_WAIT
        while asking.poll() is None and time.monotonic() < until:
            asking.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                asking.wait(timeout=10)
        assert asking.returncode == 130


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


# The last test, because it waits for a process that the first one started.
def test_no_process_looks_a_host_up_or_connects_to_another_machine(first_use: FirstUse) -> None:
    assert first_use.process.wait(MAX_WAIT) == 0
    assert list(first_use.home.rglob("*")) == []
    if first_use.trace is None:
        pytest.skip("strace is not installed: connections were not recorded.")
    calls = first_use.trace.read_text(encoding="utf-8")
    addresses = set(re.findall(r'(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"', calls))
    assert addresses == {"127.0.0.1"}
    assert "htons(53)" not in calls
    assert "resolve" not in calls
