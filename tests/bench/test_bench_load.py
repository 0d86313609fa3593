"""The load benchmark: a real server, a restart in the middle, and nothing lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, LoadOptions, run_benchmark


def test_a_server_under_load_is_restarted_and_nothing_is_lost(tmp_path: Path) -> None:
    load = LoadOptions(clients=6, seconds=4, banks=2, retains=0.5)
    report = asyncio.run(run_benchmark(BenchOptions(benchmark="load", load=load, work=tmp_path, cache=tmp_path)))
    told = report.metrics
    assert (told["errors"], told["lost"], told["stored_twice"]) == (0, 0, 0)
    assert told["retain_calls"] >= 6
    assert told["recall_calls"] > 0
    assert told["server_mb"] > 0
    assert report.config["clients"] == 6


@pytest.mark.parametrize(
    "load",
    [LoadOptions(clients=0), LoadOptions(seconds=0), LoadOptions(retains=2)],
    ids=["clients", "seconds", "retains"],
)
def test_a_load_that_can_not_be_is_refused(load: LoadOptions, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="load needs"):
        asyncio.run(run_benchmark(BenchOptions(benchmark="load", load=load, work=tmp_path, cache=tmp_path)))
