"""Servers that tests of doors come to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Served, serving


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a database of the test's own."""
    return f"sqlite:///{tmp_path / 'memory.db'}"


@pytest.fixture
def served(database: str) -> Iterator[Served]:
    """A server that asks for no key."""
    with serving(database) as running:
        yield running


@pytest.fixture
def locked(database: str) -> Iterator[Served]:
    """A server that asks for a key; `Served.key` makes one."""
    with serving(database, keyless=False) as running:
        yield running
