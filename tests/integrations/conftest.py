"""Fixtures of the integrations' tests, which run in environments of their own: `make integrations`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from vmemo import Memory
from vmemo.testing import HashEmbedder

collect_ignore_glob = [] if "VMEMO_INTEGRATIONS" in os.environ else ["test_*.py"]
"""The frameworks are not installed beside one another, so `make test` collects none of these files."""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory in a file of the test's own; a second one on the same file sees what it stored."""
    with Memory(tmp_path / "memory.db", embedder=HashEmbedder()) as memory:
        yield memory
