"""Fixtures that the tests of all distributions share, and a home folder of their own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

pytest_plugins = ("store_fixtures", "forked_workers")


def pytest_configure(config: pytest.Config) -> None:
    """Give browsers, npm and benchmarks an empty home folder, so that the tests write nothing into the user's."""
    if config.getoption("markexpr") == "neo4j":
        return  # Maven keeps the server's files in the user's home.
    npm = Path.home() / ".npmrc"
    if npm.exists():
        os.environ.setdefault("NPM_CONFIG_USERCONFIG", str(npm))
    home = tempfile.TemporaryDirectory(prefix="vmemo-home-", ignore_cleanup_errors=True)
    os.environ["HOME"] = home.name
    config.add_cleanup(home.cleanup)
