"""Whole runs over tiny conversations, with an embedder that costs nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from toy import ToyEmbedder, write_conversations

from vmemo.bench import BenchOptions, Progress, Report, SpeedOptions, run_benchmark, silent, write_report


def options(folder: Path, embedder: ToyEmbedder, *, work: str = "work") -> BenchOptions:
    data = folder / "data"
    if not data.exists():
        write_conversations(data)
    return BenchOptions(
        benchmark="ours", data=data, cache=folder / work, work=folder / work / "runs", embedder=embedder
    )


def lasting(report: Report) -> object:
    """The report without what differs from run to run."""
    return report.metrics, report.categories, report.config, set(report.timings)


class Interrupted(Exception):
    """Stands for a run that is killed."""


class StopAt:
    """A sink that breaks the run off at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, progress: Progress, /) -> None:
        if progress.done == self.step:
            raise Interrupted


def test_evidence_is_found_and_reported_by_kind(tmp_path: Path) -> None:
    report = asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder())))
    assert report.metrics["recall@10"] == 1.0
    assert report.metrics["evidence@1000"] == 1.0
    assert set(report.categories) == {"single", "multi"}
    assert report.config["questions"] == 7
    assert report.config["facts"] == 10
    assert "total" in report.timings


@pytest.mark.parametrize("step", [2, 7, 9])
def test_an_interrupted_run_goes_on_and_gives_the_same_result(tmp_path: Path, step: int) -> None:
    whole = asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder(), work="whole")))
    with pytest.raises(Interrupted):
        asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder()), StopAt(step)))
    assert lasting(asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder())))) == lasting(whole)


def test_a_finished_case_is_not_run_again(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder()), StopAt(9)))
    embedder = ToyEmbedder()
    asyncio.run(run_benchmark(options(tmp_path, embedder)))
    assert len(embedder.queries) == 3


def test_documents_are_embedded_once_for_all_runs_and_questions_every_time(tmp_path: Path) -> None:
    first, second = ToyEmbedder(), ToyEmbedder()
    one = asyncio.run(run_benchmark(options(tmp_path, first)))
    two = asyncio.run(run_benchmark(options(tmp_path, second)))
    assert lasting(one) == lasting(two)
    assert first.documents
    assert second.documents == []
    assert len(second.queries) == len(first.queries) == 7


def test_a_finished_run_leaves_no_bank_behind(tmp_path: Path) -> None:
    asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder())))
    assert list((tmp_path / "work" / "runs").iterdir()) == []


def test_progress_counts_up_to_the_whole(tmp_path: Path) -> None:
    seen: list[Progress] = []
    asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder()), seen.append))
    assert [progress.done for progress in seen] == list(range(13))
    assert {progress.total for progress in seen} == {12}


def test_reports_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    report = asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder()), silent))
    place = tmp_path / "out" / "report.json"
    write_report(report, json=place, html=tmp_path / "out" / "report.html")
    body = json.loads(place.read_text())
    assert set(body) == {"benchmark", "metrics", "categories", "timings", "config"}
    assert {"recall@10", "evidence@1000", "recall_any@5", "recall_all@10", "ndcg@10", "mrr"} <= set(body["metrics"])
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")


def test_speed_reports_ratios_for_every_size(tmp_path: Path) -> None:
    sizes = SpeedOptions(sizes=(60, 20), queries=4, messages=10, base_sentences=8)
    asked = BenchOptions(benchmark="speed", work=tmp_path, embedder=ToyEmbedder(), speed=sizes)
    report = asyncio.run(run_benchmark(asked))
    assert {"retain_over_embed", "retain_facts_per_second", "bytes_per_fact"} <= set(report.metrics)
    for size in (20, 60):
        expected = ("recall_p50_over_embed", "recall_p95_over_embed", "rss_mb", "bytes_per_fact")
        assert {f"{name}@{size}" for name in expected} <= set(report.metrics)
        assert report.metrics[f"facts@{size}"] == size
        assert {f"recall@{size}/total", f"embed@{size}", f"first_recall@{size}"} <= set(report.timings)
    assert list(tmp_path.iterdir()) == []
