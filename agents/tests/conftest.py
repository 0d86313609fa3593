"""A home folder of its own for each test, a git repository, and recorded sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_hooks import RECORDED_SESSIONS, commit, git, home_in


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An empty home folder; no variable leads an agent or vmemo to another one."""
    with home_in(tmp_path) as folder:
        yield folder


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    """A repository with two files, committed on 2 March 2026."""
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "lock.py").write_text("LOCK = 'redis'\n")
    (folder / "README.md").write_text("A shop.\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "remote", "add", "origin", "git@github.com:ana/shop.git")
    commit(folder, "Begin", at="2026-03-02T09:00:00+00:00")
    return folder


@pytest.fixture
def transcript(tmp_path: Path, project: Path) -> Callable[[str], Path]:
    """A recorded session of an agent, in the folder of the project."""

    def copy(name: str) -> Path:
        text = (RECORDED_SESSIONS / name).read_text("utf-8").replace("/home/ana/shop", str(project))
        target = tmp_path / name
        target.write_text(text, "utf-8")
        return target

    return copy
