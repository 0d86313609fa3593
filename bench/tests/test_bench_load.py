"""The load benchmark restarts a real server and loses no message."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_data import run

from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, LoadOptions


def test_a_server_under_load_is_restarted_and_nothing_is_lost(tmp_path: Path) -> None:
    load = LoadOptions(clients=4, seconds=1, banks=2, retain_share=0.5, workers=(1,))
    report = run(BenchOptions(benchmark="load", load=load, work=tmp_path, cache=tmp_path))
    metrics = report.metrics
    assert (metrics["errors"], metrics["lost"], metrics["stored_twice"]) == (0, 0, 0)
    assert metrics["retain_calls"] >= 4
    assert metrics["recall_calls"] > 0
    assert metrics["server_mb"] > 0
    assert report.config["clients"] == 4
    (row,) = report.tables["load"].values()
    assert (row["errors"], row["lost"]) == (0, 0)
    assert row["recall p50 ms"]


@pytest.mark.parametrize(
    "load",
    [LoadOptions(clients=0), LoadOptions(seconds=0), LoadOptions(retain_share=2)],
    ids=["clients", "seconds", "retain_share"],
)
def test_invalid_load_options_are_rejected(load: LoadOptions, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="load needs"):
        run(BenchOptions(benchmark="load", load=load, work=tmp_path, cache=tmp_path))
