"""Entity resolution in real conversations: one entity per speaker, and no two people in one entity."""

from __future__ import annotations

import asyncio
import os
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from small_data import CountingEmbedder

from vmemo import Memory
from vmemo.models import Message
from vmemo_bench import BenchOptions
from vmemo_bench.bank_audit import BankAudit, audit_bank, audit_tables, conflicts, is_form_of
from vmemo_bench.case_run import retain_sessions
from vmemo_bench.datasets import Case, load
from vmemo_bench.recordings import engine_of

DATA = Path(os.environ.get("VMEMO_DATA", Path(__file__).parents[3] / "shared" / "data"))
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
def test_forms_of_a_speakers_name_are_recognised(name: str, expected: bool) -> None:
    assert is_form_of(name, "Melanie") is expected


def test_two_people_in_one_entity_are_a_conflict() -> None:
    assert list(conflicts(["Ada", "Bo"], ["Ada", "Bo"])) == [("Ada", "Bo")]
    assert list(conflicts(["Ada Lovelace", "Ada Byron"], [])) == [("Ada Lovelace", "Ada Byron")]
    assert list(conflicts(["Ada", "Ada Lovelace", "A.D.A.", "ada"], ["Ada", "Bo"])) == []


def test_an_audit_counts_a_bank_and_lists_merged_names(tmp_path: Path) -> None:
    async def found() -> BankAudit:
        async with Memory("sqlite:///:memory:", embedder=CountingEmbedder()) as memory:
            for day, text in enumerate(("Robert Stone sails to Malta.", "Bob Stone sails to Malta again."), start=1):
                await memory.retain(Message(content=text, timestamp=datetime(2023, 5, day, tzinfo=UTC)))
            return await audit_bank(memory, Case(id="x", sessions=(), questions=()), tmp_path / "bank.jsonl")

    audit = asyncio.run(found())
    assert audit.counts["facts"] == 2
    assert [(each.name, each.entity) for each in audit.merged] == [("Bob Stone", "Robert Stone")]
    assert not list(tmp_path.iterdir())
    assert audit_tables({"x": audit})["banks"]["all"]["merges"] == 1
    assert audit_tables({}) == {}


@cache
def audited(name: str) -> BankAudit:
    """Return the audit of a conversation whose recording was replayed."""
    options = BenchOptions(benchmark="locomo", engine="recorded", data=DATA)
    dataset = load(options)
    case = next(case for case in dataset.cases if case.id == name)
    extractor = engine_of(options, dataset).extractors[name]

    async def found() -> BankAudit:
        async with Memory("sqlite:///:memory:", bank=name, llm=extractor, embedder=CountingEmbedder()) as memory:
            await retain_sessions(memory, case, lambda: None)
            return await audit_bank(memory, case, file)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bank.jsonl"
        return asyncio.run(found())


with_data = pytest.mark.skipif(
    not (DATA / "locomo" / "extractions").exists(), reason=f"LoCoMo and its recordings are not in {DATA}"
)


@with_data
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_each_speaker_is_one_entity(name: str) -> None:
    speakers = audited(name).speakers
    assert len(speakers) == 2
    assert [(each.name, each.entities) for each in speakers if len(each.entities) != 1] == []


@with_data
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_no_entity_has_the_names_of_two_people(name: str) -> None:
    assert audited(name).conflicts == ()


@with_data
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_causes_and_effects_are_linked(name: str) -> None:
    counts = audited(name).counts
    assert counts["temporal"] > 0
    assert counts["semantic"] > 0
    assert counts["causes"] + counts["caused_by"] > 0
