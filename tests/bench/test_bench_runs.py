"""Whole runs over tiny conversations, with an embedder that costs nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from toy import Interrupted, StopAt, ToyEmbedder, lasting, options

from vmemo.text.names.find import find_names
from vmemo.text.temporal import find_times
from vmemo_bench import BenchOptions, Progress, SpeedOptions, run_benchmark, silent, write_report
from vmemo_bench.html import render
from vmemo_bench.speed import texts


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


def test_a_question_is_asked_at_its_own_moment_or_when_the_last_session_is_over(tmp_path: Path) -> None:
    place = tmp_path / "data" / "training" / "conversations"
    place.mkdir(parents=True)
    bought: list[dict[str, object]] = [
        {
            "n": n,
            "date": f"2024-0{n}-11T20:40",
            "turns": [{"id": f"D{n}:1", "speaker": "Ada", "text": "I bought a kite at the shop."}],
        }
        for n in (1, 2, 4)
    ]
    week = "Which kite was bought at the shop last week?"
    asked: list[dict[str, object]] = [
        {"question": week, "kind": "january", "evidence": ["D1:1"], "asked_at": "2024-01-17"},
        {"question": week, "kind": "february", "evidence": ["D2:1"], "asked_at": "2024-02-14"},
        {"question": "Which kite was bought at the shop today?", "kind": "none", "evidence": ["D4:1"]},
    ]
    (place / "one.json").write_text(json.dumps({"id": "one", "sessions": bought, "questions": asked}))
    report = asyncio.run(run_benchmark(options(tmp_path, ToyEmbedder())))
    assert {kind: metrics["recall@1"] for kind, metrics in report.categories.items()} == {
        "january": 1.0,
        "february": 1.0,
        "none": 1.0,
    }


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


def test_speed_measures_each_budget_under_its_own_name(tmp_path: Path) -> None:
    shape = SpeedOptions(sizes=(40,), queries=3, messages=10, base_sentences=8, budgets=("low", 20))
    embedder = ToyEmbedder()
    asked = BenchOptions(benchmark="speed", work=tmp_path, embedder=embedder, speed=shape)
    report = asyncio.run(run_benchmark(asked))
    assert {"recall_low_p50_over_embed@40", "recall_20_p95_over_embed@40"} <= set(report.metrics)
    assert {"recall_low@40/total", "recall_20@40/semantic"} <= set(report.timings)
    assert report.config["budget"] == "low 20"
    page = render(report)
    assert "Recall (budget low)" in page
    assert "recall (budget 20), 40 facts" in page


def test_speed_times_every_stage_that_recall_has(tmp_path: Path) -> None:
    shape = SpeedOptions(sizes=(60,), queries=30, messages=10, base_sentences=8)
    report = asyncio.run(
        run_benchmark(BenchOptions(benchmark="speed", work=tmp_path, embedder=ToyEmbedder(), speed=shape))
    )
    stages = "analyse embed keyword semantic entities temporal graph fuse rerank load".split()
    assert {f"recall@60/{stage}" for stage in stages} <= set(report.timings)


def test_some_speed_queries_name_a_time_and_most_name_people() -> None:
    asked = texts.queries(200)
    timed = [query for query in asked if find_times(query, texts.ENDED)]
    named = [query for query in asked if find_names(query)]
    assert 25 <= len(timed) <= 60
    assert len(named) > 150
