"""Servers with sample data, and browsers that are signed in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from console_client import BANK, ConsoleClient, signed_in
from live_server import LiveServer, live_server
from vmemo import Memory
from vmemo.cli.demo import conversation
from vmemo.sync import portal
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server.app import ServerOptions
from vmemo_server.commands.demo_console import fill


@pytest.fixture(scope="session")
def sample_database(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the sample conversation, opinions, observations and two profiles."""
    path = Path(shutil.copy(sqlite_template, tmp_path_factory.mktemp("sample")))
    memory = Memory(path, bank=BANK, embedder=HashEmbedder())

    async def create() -> None:
        await fill(memory, conversation())
        fact = next(fact for fact in await memory.facts(limit=100) if "Brightwater" in fact.text)
        await memory.update(fact.id, "Maya: I was a data analyst at Brightwater Energy.", "She left.")
        await memory.close()

    portal.run(create())
    return path


@pytest.fixture(scope="module")
def sample(sample_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Run a server that requires keys on a copy of the sample database."""
    path = shutil.copy(sample_database, tmp_path_factory.mktemp("served"))
    with live_server(f"sqlite:///{path}", keyless=False, options=ServerOptions(hosts=("*",))) as running:
        yield running


@pytest.fixture(scope="module")
def memory(sample: LiveServer) -> Memory:
    """The memory of the sample bank."""
    return sample.memory.bank(BANK)


@pytest.fixture(scope="module")
def reader(sample: LiveServer) -> Iterator[ConsoleClient]:
    """A person with a key that may only read."""
    with signed_in(sample, "read") as client:
        yield client


@pytest.fixture(scope="module")
def writer(sample: LiveServer) -> Iterator[ConsoleClient]:
    """A person with a key that may write to the sample bank."""
    with signed_in(sample, "write", BANK) as client:
        yield client


@pytest.fixture(scope="module")
def admin(sample: LiveServer) -> Iterator[ConsoleClient]:
    """A person with an admin key."""
    with signed_in(sample, "admin") as client:
        yield client
