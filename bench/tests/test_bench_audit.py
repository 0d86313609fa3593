"""The audit of a bank: counts, links and merged names."""

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
from vmemo_bench.bank_contents import BankAudit, audit_bank, audit_tables
from vmemo_bench.case_run import retain_sessions
from vmemo_bench.datasets import load
from vmemo_bench.recordings import engine_of

DATA = Path(os.environ.get("VMEMO_DATA", Path(__file__).parents[3] / "shared" / "data"))
CONVERSATIONS = ("conv-26", "conv-30")


def test_an_audit_counts_a_bank_and_lists_merged_names(tmp_path: Path) -> None:
    async def found() -> BankAudit:
        async with Memory("sqlite:///:memory:", embedder=CountingEmbedder()) as memory:
            for day, text in enumerate(("Robert Stone sails to Malta.", "Bob Stone sails to Malta again."), start=1):
                await memory.retain(Message(content=text, timestamp=datetime(2023, 5, day, tzinfo=UTC)))
            return await audit_bank(memory, tmp_path / "bank.jsonl")

    audit = asyncio.run(found())
    assert audit.counts["facts"] == 2
    assert audit.merged == {"Bob Stone": "Robert Stone"}
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
            return await audit_bank(memory, file)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bank.jsonl"
        return asyncio.run(found())


with_data = pytest.mark.skipif(
    not (DATA / "locomo" / "extractions").exists(), reason=f"LoCoMo and its recordings are not in {DATA}"
)


@with_data
@pytest.mark.parametrize("name", CONVERSATIONS[:1])
def test_causes_and_effects_are_linked(name: str) -> None:
    counts = audited(name).counts
    assert counts["temporal"] > 0
    assert counts["semantic"] > 0
    assert counts["causes"] + counts["caused_by"] > 0
