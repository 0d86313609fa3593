"""Files that release 0.1.0 wrote open in this release, hold the same facts and answer the same questions."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from vmemo import Memory
from vmemo.cli.app import app

FIXTURE = Path(__file__).parents[1] / "fixtures" / "release_0_1_0"
NOW = datetime(2025, 6, 1, tzinfo=UTC)
THEN = datetime(2024, 5, 1, tzinfo=UTC)
Answers = dict[str, list[tuple[str, str]]]
FIRST = 8
"""Hits that are compared: release 0.1.0 filled the rest of the budget with less relevant facts that were short."""


def _expected(name: str) -> Answers:
    found = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))[name]
    return {q: hits[:FIRST] for q, hits in TypeAdapter(Answers).validate_python(found).items()}


async def _answers(memory: Memory) -> tuple[Answers, Answers]:
    recalled = {q: await memory.recall(q, max_tokens=300, now=NOW) for q in _expected("recall")}
    former = {q: await memory.retrieve(q, top_k=3, at_time=THEN, now=NOW) for q in _expected("at_time")}
    return (
        {q: [(hit.id, hit.text) for hit in found.hits[:FIRST]] for q, found in recalled.items()},
        {q: [(hit.id, hit.text) for hit in found.hits[:FIRST]] for q, found in former.items()},
    )


async def _assert_same_answers(memory: Memory) -> None:
    """Compare the hits. Token vectors are rounded more than in release 0.1.0, so near ties may change places."""
    for found, expected in zip(await _answers(memory), (_expected("recall"), _expected("at_time")), strict=True):
        assert found.keys() == expected.keys()
        for question, hits in expected.items():
            assert set(found[question][:3]) == set(hits[:3])
            assert len(set(found[question]) - set(hits)) <= 1


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A copy of the file that release 0.1.0 wrote."""
    return Path(shutil.copy(FIXTURE / "memory.db", tmp_path / "memory.db"))


def test_a_bank_file_of_release_0_1_0_recalls_the_same_facts(database: Path) -> None:
    async def scenario() -> None:
        async with Memory(f"sqlite:///{database}", bank="demo") as memory:
            assert await memory.banks() == json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))["banks"]
            await _assert_same_answers(memory)
            await memory.process()
            found = await memory.recall("What is the name of the cat?", max_tokens=60, now=NOW)
            assert "Juno" in found.hits[0].text

    asyncio.run(scenario())


def test_an_export_of_release_0_1_0_is_imported_and_recalls_the_same_facts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Memory(f"sqlite:///{tmp_path / 'new.db'}", bank="other") as other:
            memory = other.bank("demo")
            await memory.import_bank(FIXTURE / "demo.jsonl")
            await _assert_same_answers(memory)

    asyncio.run(scenario())


def test_doctor_passes_on_a_bank_file_of_release_0_1_0(database: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--db", str(database)])
    assert result.exit_code == 0, result.output
