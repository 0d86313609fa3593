"""Servers for tests of the HTTP interfaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live_server import LiveServer, live_server


@pytest.fixture
def database(sqlite_url: str) -> str:
    """Return the URL of a database without rows."""
    return sqlite_url


@pytest.fixture
def server(database: str) -> Iterator[LiveServer]:
    """Run a server that requires no key."""
    with live_server(database) as running:
        yield running


@pytest.fixture
def keyed_server(database: str) -> Iterator[LiveServer]:
    """Run a server that requires a key; `LiveServer.key` creates one."""
    with live_server(database, keyless=False) as running:
        yield running
