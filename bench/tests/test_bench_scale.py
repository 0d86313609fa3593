"""The scale benchmark, at a small size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from qa_data import LONGMEMEVAL
from small_data import CountingEmbedder, run

from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, ScaleOptions


def small(folder: Path, scale: ScaleOptions) -> BenchOptions:
    file = folder / "haystacks.json"
    file.write_text(json.dumps(LONGMEMEVAL), encoding="utf-8")
    return BenchOptions(benchmark="scale", file=file, work=folder, embedder=CountingEmbedder(), scale=scale)


def test_every_part_prints_latency_memory_disk_and_quality(tmp_path: Path) -> None:
    scale = ScaleOptions(facts=30, banks=3, facts_per_bank=5, tokens=10, queries=3, base_sentences=8)
    rows = run(small(tmp_path, scale)).tables["scale"]
    large, many, haystack = rows.values()
    assert [*rows][:2] == ["30 facts in one bank", "3 banks of 5 facts"]
    for row in (large, many, haystack):
        assert min(float(row[name] or 0) for name in ("recall p50 ms", "recall p95 ms", "memory MB", "disk MB")) > 0
    assert float(large["found@10"] or 0) > 0.9
    assert "kB per idle bank" in many
    # The second question shares its conversations with the first, so that their tokens are not enough.
    assert (haystack["questions"], haystack["recall@10"]) == (1, 1.0)


def test_parts_of_size_zero_are_left_out_and_negative_sizes_refused(tmp_path: Path) -> None:
    scale = ScaleOptions(facts=0, banks=2, facts_per_bank=5, tokens=0, queries=2, base_sentences=8)
    assert [*run(small(tmp_path, scale)).tables["scale"]] == ["2 banks of 5 facts"]


def test_a_large_bank_is_filled_once_and_kept(tmp_path: Path) -> None:
    scale = ScaleOptions(facts=30, banks=0, tokens=0, queries=3, base_sentences=8)
    asked = replace(small(tmp_path, scale), keep_banks=tmp_path / "kept")
    [filled], [copied] = (run(asked).tables["scale"].values() for _ in range(2))
    assert filled.keys() - copied.keys() == {"filled facts/s"}
    assert copied["found@10"] == filled["found@10"]
    with pytest.raises(InvalidInput, match="must not be negative"):
        run(small(tmp_path, ScaleOptions(facts=-1)))
