"""Whole runs over short conversations, with an embedder that costs nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_data import CountingEmbedder, Interrupted, MeasuredRun, StopAt, options, reproducible, run

from vmemo.text.names import find_names
from vmemo.text.temporal import find_times
from vmemo_bench import BenchOptions, Report, SpeedOptions, write_report
from vmemo_bench.environment import embedder_of
from vmemo_bench.pages.report_page import render
from vmemo_bench.speed import texts


def test_evidence_is_found_and_reported_by_category(retrieval_run: MeasuredRun) -> None:
    report = retrieval_run.report
    assert report.metrics["recall@10"] == 1.0
    assert report.metrics["evidence@1000"] == 1.0
    assert set(report.categories) == {"single", "multi"}
    assert report.config["questions"] == 7
    assert report.config["facts"] == 10
    assert "total" in report.timings


@pytest.mark.parametrize("step", [7])
def test_an_interrupted_run_resumes_and_gives_the_same_result(
    tmp_path: Path, retrieval_run: MeasuredRun, step: int
) -> None:
    with pytest.raises(Interrupted):
        run(options(tmp_path, CountingEmbedder()), StopAt(step))
    embedder = CountingEmbedder()
    resumed = run(options(tmp_path, embedder))
    assert reproducible(resumed) == reproducible(retrieval_run.report)
    # At step 9 the first case with its four questions is finished, and is not asked again.
    assert len(embedder.queries) == (3 if step == 9 else 7)


def test_documents_are_embedded_once_and_questions_in_every_run(tmp_path: Path) -> None:
    first, second = CountingEmbedder(), CountingEmbedder()
    one, two = run(options(tmp_path, first)), run(options(tmp_path, second))
    assert reproducible(one) == reproducible(two)
    assert first.documents
    assert second.documents == []
    assert len(second.queries) == len(first.queries) == 7


def test_the_embedder_of_a_run_can_be_named() -> None:
    assert embedder_of(BenchOptions(benchmark="sample", embedder="deep")).name == "vmemo-encoder-2.1-deep"


def test_a_finished_run_leaves_no_files(retrieval_run: MeasuredRun) -> None:
    assert list(retrieval_run.work.iterdir()) == []


def test_progress_counts_up_to_the_total(retrieval_run: MeasuredRun) -> None:
    assert [progress.done for progress in retrieval_run.progress] == list(range(13))
    assert {progress.total for progress in retrieval_run.progress} == {12}


def test_reports_are_written_to_new_folders(tmp_path: Path, retrieval_run: MeasuredRun) -> None:
    place = tmp_path / "out" / "report.json"
    write_report(retrieval_run.report, json=place, html=tmp_path / "out" / "report.html")
    body = json.loads(place.read_text())
    assert set(body) == {"benchmark", "metrics", "categories", "timings", "config"}
    assert {"recall@10", "evidence@1000", "recall_any@5", "recall_all@10", "ndcg@10", "mrr"} <= set(body["metrics"])
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")


def test_a_question_is_asked_at_its_own_time_or_after_the_last_session(tmp_path: Path) -> None:
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
    report = run(options(tmp_path, CountingEmbedder()))
    assert {kind: metrics["recall@1"] for kind, metrics in report.categories.items()} == {
        "january": 1.0,
        "february": 1.0,
        "none": 1.0,
    }


@pytest.fixture(scope="module")
def speed_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A speed run over two sizes, with enough queries to name times and people."""
    work = tmp_path_factory.mktemp("speed")
    speed = SpeedOptions(sizes=(60, 20), queries=30, messages=10, base_sentences=8)
    report = run(BenchOptions(benchmark="speed", work=work, embedder=CountingEmbedder(), speed=speed))
    assert list(work.iterdir()) == []
    return report


def test_speed_reports_ratios_for_every_size(speed_report: Report) -> None:
    assert {"retain_over_embed", "retain_facts_per_second", "bytes_per_fact"} <= set(speed_report.metrics)
    for size in (20, 60):
        ratios = ("recall_p50_over_embed", "recall_p95_over_embed", "recall_p95_over_p50")
        expected = (
            *ratios,
            "embed_p50_ms",
            "recall_cached_p50_ms",
            "rss_mb",
            "bytes_per_fact",
            "forget_ms",
            "forget_oldest_ms",
        )
        assert {f"{name}@{size}" for name in expected} <= set(speed_report.metrics)
        assert speed_report.metrics[f"facts@{size}"] == size
        assert {f"recall@{size}/total", f"embed@{size}", f"first_recall@{size}"} <= set(speed_report.timings)


def test_speed_times_every_stage_of_recall(speed_report: Report) -> None:
    stages = "analyse embed keyword semantic entities temporal graph fuse rerank load".split()
    assert {f"recall@60/{stage}" for stage in stages} <= set(speed_report.timings)


def test_speed_measures_each_budget_under_its_own_name(tmp_path: Path) -> None:
    shape = SpeedOptions(sizes=(40,), queries=3, messages=10, base_sentences=8, budgets=("low", 20))
    embedder = CountingEmbedder()
    asked = BenchOptions(benchmark="speed", work=tmp_path, embedder=embedder, speed=shape)
    report = run(asked)
    assert {"recall_low_p50_over_embed@40", "recall_20_p95_over_embed@40"} <= set(report.metrics)
    assert {"recall_low@40/total", "recall_20@40/semantic"} <= set(report.timings)
    assert report.config["budget"] == "low 20"
    page = render(report)
    assert "Recall (budget low)" in page
    assert "recall (budget 20), 40 facts" in page


def test_some_speed_queries_name_a_time_and_most_name_people() -> None:
    asked = texts.queries(200)
    timed = [query for query in asked if find_times(query, texts.ENDED)]
    named = [query for query in asked if find_names(query)]
    assert 25 <= len(timed) <= 60
    assert len(named) > 150
