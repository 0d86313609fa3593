"""The memory of a process that opens a bank and recalls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vmemo import Memory
from vmemo.errors import VmemoError
from vmemo_bench.fresh_process import measure_fresh_process


def test_a_new_process_reports_its_memory_and_its_first_recall(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'memory.db'}"

    async def measure() -> dict[str, float]:
        async with Memory(url, bank="ana") as memory:
            await memory.retain("Ana moved to Lisbon in May.")
        return await measure_fresh_process(url, "ana", ["Where does Ana live?", "Who moved?"])

    found = asyncio.run(measure())
    assert found.keys() == {"process_mb", "process_first_recall_ms"}
    assert min(found.values()) > 0


def test_a_process_that_fails_is_reported() -> None:
    with pytest.raises(VmemoError, match="ended with 1"):
        asyncio.run(measure_fresh_process("sqlite:////dev/null/memory.db", "ana", ["Who moved?"]))
