"""Reports that several tests look at, each measured once per module."""

from __future__ import annotations

import pytest
from small_data import MeasuredRun, measure


@pytest.fixture(scope="module")
def retrieval_run(tmp_path_factory: pytest.TempPathFactory) -> MeasuredRun:
    """A run of `ours` over the two conversations."""
    return measure(tmp_path_factory.mktemp("retrieval"))


@pytest.fixture(scope="module")
def ablation_run(tmp_path_factory: pytest.TempPathFactory) -> MeasuredRun:
    """An ablation over the two conversations."""
    return measure(tmp_path_factory.mktemp("ablation"), benchmark="ablation", dataset="ours")
