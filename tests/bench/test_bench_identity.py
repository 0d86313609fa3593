"""Who is who in real conversations: one entity per speaker, and nobody taken for somebody else."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from toy import ToyEmbedder

from vmemo import Memory
from vmemo.models import Message
from vmemo_bench import BenchOptions
from vmemo_bench.audit import Audit, audit, conflicts, is_form_of, tables
from vmemo_bench.datasets import Case, load
from vmemo_bench.engines import engine
from vmemo_bench.runner import ingest

DATA = Path(__file__).parents[3] / "shared" / "data"
CONVERSATIONS = ("conv-26", "conv-30", "conv-41", "conv-42", "conv-43", "conv-44")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Melanie", True),
        ("Mel", True),
        ("Melanie Brook", True),
        ("Melanie's kids", False),
        ("Melissa", False),
        ("Caroline", False),
    ],
)
def test_a_name_is_a_form_of_the_speakers_or_not(name: str, expected: bool) -> None:
    assert is_form_of(name, "Melanie") is expected


def test_two_people_in_one_entity_are_a_conflict() -> None:
    assert list(conflicts(["Ada", "Bo"], ["Ada", "Bo"])) == [("Ada", "Bo")]
    assert list(conflicts(["Ada Lovelace", "Ada Byron"], [])) == [("Ada Lovelace", "Ada Byron")]
    assert list(conflicts(["Ada", "Ada Lovelace", "A.D.A.", "ada"], ["Ada", "Bo"])) == []


def test_a_bank_is_counted_and_its_joined_names_are_told(tmp_path: Path) -> None:
    async def found() -> Audit:
        async with Memory("sqlite:///:memory:", embedder=ToyEmbedder()) as memory:
            for day, words in enumerate(("Robert Stone sails to Malta.", "Bob Stone sails to Malta again."), start=1):
                await memory.retain(Message(content=words, timestamp=datetime(2023, 5, day, tzinfo=UTC)))
            return await audit(memory, Case(id="x", sessions=(), questions=()), tmp_path / "bank.jsonl")

    seen = asyncio.run(found())
    assert seen.counts["facts"] == 2
    assert [(each.name, each.entity) for each in seen.joined] == [("Bob Stone", "Robert Stone")]
    assert not list(tmp_path.iterdir())
    assert tables({"x": seen})["banks"]["all"]["merges"] == 1
    assert tables({}) == {}


@cache
def recorded(name: str) -> Audit:
    """A conversation's bank after its recording was replayed."""
    options = BenchOptions(benchmark="locomo", engine="recorded", data=DATA)
    dataset = load(options)
    case = next(case for case in dataset.cases if case.id == name)
    reader = engine(options, dataset).readers[name]

    async def found() -> Audit:
        async with Memory("sqlite:///:memory:", bank=name, llm=reader, embedder=ToyEmbedder()) as memory:
            await ingest(memory, case, lambda: None)
            return await audit(memory, case, file)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bank.jsonl"
        return asyncio.run(found())


with_data = pytest.mark.skipif(
    not (DATA / "locomo" / "extractions").exists(), reason=f"LoCoMo and its recordings are not in {DATA}"
)


@with_data
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_each_speaker_is_one_entity(name: str) -> None:
    people = recorded(name).people
    assert len(people) == 2
    assert [(person.name, person.entities) for person in people if len(person.entities) != 1] == []


@with_data
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_nobody_is_taken_for_somebody_else(name: str) -> None:
    assert recorded(name).conflicts == ()


@with_data
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_what_caused_what_is_linked(name: str) -> None:
    counts = recorded(name).counts
    assert counts["temporal"] > 0
    assert counts["semantic"] > 0
    assert counts["causes"] + counts["caused_by"] > 0
