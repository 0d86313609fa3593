"""Each agent's hooks against a real repository, run as processes with events in the documented form."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agent_hooks import HOOK, Hooks, git, home_in, in_loop

from vmemo import Memory
from vmemo_agents.hook import ask
from vmemo_agents.paths import address_file, database, log_file, spool_folder
from vmemo_agents.repository import Repository


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home folder with a server of hooks that ends with the tests."""
    with home_in(tmp_path_factory.mktemp("hooks")) as folder:
        ask({"kind": "ping"}, time.monotonic() + 120)
        yield folder
        ask({"kind": "stop"}, time.monotonic() + 30, start=False)


@pytest.fixture
def project(project: Path) -> Path:
    """A repository with a bank of its own: all tests have one database."""
    git(project, "remote", "set-url", "origin", f"git@github.com:ana/{project.parent.name}.git")
    return project


@pytest.fixture
def hooks(project: Path) -> Hooks:
    return Hooks(project)


QUESTION = "Which kind of lock do we use for the scheduler, and why?"
Recorded = Callable[[str], Path]


def event(agent: str, name: str, project: Path, *, session: str = "5d0b1f6e", **more: Any) -> dict[str, Any]:
    """Return an event with the fields that the agent's documentation lists for all events."""
    match agent:
        case "cursor":
            common = {"conversation_id": session, "generation_id": "g", "workspace_roots": [str(project)]}
            common |= {"model": "gpt-5", "cursor_version": "3.5.0", "user_email": None}
        case "codex":
            common = {"session_id": session, "cwd": str(project), "model": "gpt-5-codex", "permission_mode": "default"}
        case "gemini-cli":
            common = {"session_id": session, "cwd": str(project), "timestamp": "2026-03-03T10:10:00Z"}
        case _:
            common = {"session_id": session, "cwd": str(project)}
    return {"hook_event_name": name, "transcript_path": None, **common, **more}


NAMES = {
    "claude-code": ("SessionStart", "UserPromptSubmit", "Stop", "claude_code.jsonl"),
    "codex": ("SessionStart", "UserPromptSubmit", "PreCompact", "codex.jsonl"),
    "cursor": ("sessionStart", "", "stop", "cursor.jsonl"),
    "gemini-cli": ("SessionStart", "BeforeAgent", "AfterAgent", "gemini_cli.jsonl"),
    "opencode": ("SessionStart", "UserPromptSubmit", "Stop", "opencode.json"),
}


def told(agent: str, path: Path) -> dict[str, Any]:
    """Return how an event names the session: by its file, or with its messages."""
    if agent == "opencode":
        return {"messages": json.loads(path.read_text("utf-8"))["messages"]}
    return {"transcript_path": str(path)}


@pytest.mark.parametrize("agent", NAMES)
def test_a_session_is_retained_and_the_next_one_is_given_what_it_needs(
    agent: str, hooks: Hooks, project: Path, transcript: Recorded
) -> None:
    start, prompt, stop, name = NAMES[agent]
    assert hooks.context(agent, event(agent, start, project, source="startup")) == "", "nothing is known yet"
    for _ in range(2):
        assert hooks.run(agent, event(agent, stop, project, **told(agent, transcript(name)))) == {}
    hooks.settle()
    text = hooks.context(agent, event(agent, start, project, session="next", source="startup"))
    assert text.startswith("<vmemo-memory>")
    assert text.count("in the imperative, without a prefix") == 1
    if prompt:
        asked = event(agent, prompt, project, session="next", prompt=QUESTION)
        found = hooks.context(agent, asked)
        assert found.count("We go with Postgres advisory locks") == 1
        assert hooks.context(agent, asked) == "", "a fact is given once in a session"
        for other in ("ok", "Write a haiku about the sea in spring."):
            assert hooks.context(agent, event(agent, prompt, project, session="third", prompt=other)) == ""


def line(role: str, text: str, number: int, folder: Path) -> dict[str, Any]:
    """Return a line of a transcript of Claude Code."""
    about = {"sessionId": "wishes", "cwd": str(folder), "timestamp": f"2026-03-03T10:{number:02}:00Z"}
    return {"type": role, "uuid": f"w{number}", "message": {"role": role, "content": text}, **about}


def test_what_a_person_prefers_applies_in_every_repository_and_rules_of_a_project_do_not(
    hooks: Hooks, project: Path, tmp_path: Path
) -> None:
    db, other = ("--db", str(tmp_path / "own.db")), tmp_path / "other"
    other.mkdir()
    said = [
        "Please always explain your answers to me in short sentences.",
        "Please always run `make check` before you commit in this repo.",
    ]
    lines = [
        line(role, text, 2 * n + (role != "user"), project)
        for n, text in enumerate(said)
        for role, text in (("user", text), ("assistant", "I will do that."))
    ]
    path = tmp_path / "wishes.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    for _ in range(2):
        hooks.run("claude-code", event("claude-code", "Stop", project, transcript_path=str(path)), *db)
    hooks.settle()
    own = hooks.context("claude-code", event("claude-code", "SessionStart", project, session="next"), *db)
    in_other = Hooks(other).context("claude-code", event("claude-code", "SessionStart", other, session="new"), *db)
    assert own.count("in short sentences") == 1
    assert "make check" in own
    assert in_other.count("in short sentences") == 1
    assert "make check" not in in_other


def test_changes_of_files_are_noted_in_what_a_session_is_given(
    hooks: Hooks, project: Path, transcript: Recorded
) -> None:
    path = transcript("claude_code.jsonl")
    hooks.run("claude-code", event("claude-code", "Stop", project, transcript_path=str(path)))
    hooks.settle()
    (project / "src" / "lock.py").write_text("LOCK = 'file'\n")
    asked = event("claude-code", "UserPromptSubmit", project, session="next", prompt=QUESTION)
    assert "(said before src/lock.py changed)" in hooks.context("claude-code", asked)


@in_loop
async def test_hooks_in_parallel_and_a_crash_of_the_server_lose_and_double_nothing(
    hooks: Hooks, project: Path, transcript: Recorded
) -> None:
    sessions = [(name, transcript(NAMES[name][3])) for name in NAMES]

    def stop(given: tuple[str, Path]) -> None:
        agent, path = given
        hooks.run(agent, event(agent, NAMES[agent][2], project, **told(agent, path)))

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(stop, sessions))
        os.kill(json.loads(address_file().read_text("utf-8"))["pid"], signal.SIGKILL)
        list(pool.map(stop, sessions))
    hooks.settle()
    assert list(spool_folder().glob("*.json")) == []
    async with Memory(database(), Repository.of(project).name) as memory:
        said = [message.content for message in await memory.messages(limit=1000)]
        assert sum(text.startswith("We go with Postgres") for text in said) == len(sessions)
        assert sum(text == "Ran `make test`: worked." for text in said) == len(sessions) - 1
        assert (await memory.status()).pending == 0


@pytest.mark.parametrize("given", ["", "not JSON", "[]", "{}", '{"hook_event_name": "PreToolUse"}', '{"prompt": 1}'])
def test_an_event_that_is_not_understood_changes_nothing(given: str, project: Path) -> None:
    assert Hooks(project).run("claude-code", given) == {}
    assert list(spool_folder().glob("*.json")) == []


def test_a_hook_fails_silently_and_writes_the_reason_to_the_log(project: Path, tmp_path: Path) -> None:
    """A server that can't start is not waited for any longer than a prompt may take."""
    broken = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "VMEMO_AGENTS_SECONDS": "1"}
    (tmp_path / "vmemo.py").write_text("raise RuntimeError('broken')\n")
    asked = json.dumps(event("claude-code", "UserPromptSubmit", project, prompt=QUESTION))
    done = subprocess.run(
        [HOOK, "claude-code"], input=asked, capture_output=True, text=True, check=False, env=broken, cwd=project
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{}\n", "")
    log = (tmp_path / "vmemo" / log_file().name).read_text("utf-8")
    assert "TimeoutError" in log
    assert "lock" not in log, "the log has no text of a prompt"


def test_a_server_that_nobody_uses_ends_by_itself(tmp_path: Path) -> None:
    alone = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "VMEMO_AGENTS_IDLE": "0.1"}
    ended = subprocess.run([sys.executable, "-m", "vmemo_agents.server"], env=alone, timeout=120, check=False)
    assert ended.returncode == 0
    assert not list((tmp_path / "vmemo").glob("server-*.json"))


def test_the_hook_loads_neither_vmemo_nor_its_dependencies(home: Path) -> None:
    code = "import sys, vmemo_agents.hook; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"vmemo", "pydantic", "typer", "numpy", "asyncio", "sqlite3"} & set(loaded.replace("'", " ").split())
