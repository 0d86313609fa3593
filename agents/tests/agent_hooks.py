"""Git repositories, and hooks that are run as agents run them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import pytest

from vmemo_agents.hook import ask

HOOK = Path(sys.executable).parent / "vmemo-hook"
RECORDED_SESSIONS = Path(__file__).parent / "transcripts"
P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test in a loop of its own."""

    @wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*arguments, **named))

    return run


@contextmanager
def home_in(folder: Path) -> Generator[Path]:
    """Use an empty folder as the user's home; no variable leads an agent or vmemo to another one."""
    home = folder / "home"
    home.mkdir()
    names = (
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"),
        *("OPENCODE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "VMEMO_URL", "VMEMO_LLM"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        # The tests may run on a busy machine.
        patch.setenv("VMEMO_AGENTS_SECONDS", "60")
        for name in names:
            patch.delenv(name, raising=False)
        yield home


def git(folder: Path, *arguments: str, **environment: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Ana", "-c", "user.email=ana@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment}).stdout


def commit(folder: Path, message: str, *, at: str) -> str:
    """Commit everything at a time and return the hash."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message, GIT_AUTHOR_DATE=at, GIT_COMMITTER_DATE=at)
    return git(folder, "rev-parse", "HEAD").strip()


@dataclass(frozen=True)
class Hooks:
    """Starts the hook of an agent with an event, and returns what it prints."""

    project: Path

    def run(self, agent: str, event: dict[str, Any] | str, *options: str) -> dict[str, Any]:
        given = event if isinstance(event, str) else json.dumps(event)
        command = [str(HOOK), agent, *options]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, cwd=self.project)
        assert done.returncode == 0
        assert done.stderr == ""
        return json.loads(done.stdout)

    def context(self, agent: str, event: dict[str, Any], *options: str) -> str:
        """Return the text that the agent adds to the context of its model."""
        printed = self.run(agent, event, *options)
        if agent == "cursor":
            return printed.get("additional_context", "")
        specific = printed.get("hookSpecificOutput", {})
        assert specific.get("hookEventName", event["hook_event_name"]) == event["hook_event_name"]
        return specific.get("additionalContext", "")

    def settle(self) -> None:
        """Wait until the server has retained all events: it answers when it is done with what was spooled before."""
        ask({"kind": "settle"}, time.monotonic() + 120)
