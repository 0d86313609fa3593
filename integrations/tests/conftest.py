"""Fixtures of the integrations' tests, which run in environments of their own: `make integrations`."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vmemo import Memory
from vmemo_conformance.embedders import HashEmbedder

collect_ignore_glob = [] if "VMEMO_INTEGRATIONS" in os.environ else ["test_*.py"]
"""The frameworks are not installed beside one another, so `make test` collects none of these files."""
EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory in a file of the test's own; a second one on the same file sees what it stored."""
    with Memory(tmp_path / "memory.db", embedder=HashEmbedder()) as memory:
        yield memory


@pytest.fixture
def run_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run an example as a script, in an empty directory."""

    def run(name: str) -> None:
        monkeypatch.chdir(tmp_path)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")

    return run
