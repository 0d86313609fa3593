"""An ablation asks the same banks in many ways and says what each part is worth."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from toy import Interrupted, StopAt, ToyEmbedder, options

from vmemo import Message
from vmemo.retain.local import LocalExtractor
from vmemo.settings import Settings
from vmemo_bench import BenchOptions, Outcome, Progress, Report, run_benchmark
from vmemo_bench.ablation.readers import WithoutContext, WithoutDates, WithoutDays
from vmemo_bench.html import render

RECALLS = [
    "full",
    "without semantic",
    "without keyword",
    "without graph",
    "without temporal",
    "without verbatim",
    "without analysis",
    "without reranking",
    "ranks instead of sums",
]
RETAINS = ["without dates", "without day", "without context"]
SAID = [
    Message(content="I sold my kite yesterday.", speaker="Ada", timestamp=datetime(2024, 5, 8, 9, tzinfo=UTC)),
    Message(content="Last week I sold mine.", speaker="Bo", timestamp=datetime(2024, 5, 8, 9, 1, tzinfo=UTC)),
]
REPORT = Report(
    benchmark="ablation",
    metrics={"recall@10": 0.7},
    variants={
        "full": Outcome(metrics={"recall@10": 0.7}, categories={"<b>": {"recall@10": 0.5}}),
        "without keyword": Outcome(metrics={"recall@10": 0.65}, categories={"<b>": {"recall@10": 0.75}}),
    },
)


def ablation(folder: Path, embedder: ToyEmbedder, *, work: str = "work") -> BenchOptions:
    return replace(options(folder, embedder, work=work), benchmark="ablation", dataset="ours")


def test_every_part_is_left_out_in_turn(tmp_path: Path) -> None:
    report = asyncio.run(run_benchmark(ablation(tmp_path, ToyEmbedder())))
    assert list(report.variants) == [*RECALLS, *RETAINS]
    assert (report.benchmark, report.config["ablation_of"], report.config["questions"]) == ("ablation", "ours", 7)
    for outcome in report.variants.values():
        assert {"recall@10", "evidence@500", "evidence@1000", "evidence@2000"} <= set(outcome.metrics)
        assert set(outcome.categories) == {"single", "multi"}


def test_the_whole_scores_as_the_plain_benchmark_does(tmp_path: Path) -> None:
    asked = ablation(tmp_path, ToyEmbedder())
    plain = asyncio.run(run_benchmark(replace(asked, benchmark="ours")))
    report = asyncio.run(run_benchmark(asked))
    assert (report.metrics, report.categories) == (plain.metrics, plain.categories)
    assert report.full.metrics.items() <= plain.metrics.items()


def test_a_part_that_matters_shows(tmp_path: Path) -> None:
    asked = ablation(tmp_path, ToyEmbedder())
    alone = replace(asked, settings=Settings(channels=frozenset({"keyword"})))
    report = asyncio.run(run_benchmark(alone))
    change = report.variants["without keyword"].less(report.full)
    assert report.full.metrics["recall@10"] == 1.0
    assert change.metrics["recall@10"] == -1.0
    assert report.variants["without graph"].less(report.full).metrics["recall@10"] == 0.0


def test_recall_is_varied_over_banks_that_are_retained_once(tmp_path: Path) -> None:
    seen: list[Progress] = []
    asyncio.run(run_benchmark(ablation(tmp_path, ToyEmbedder()), seen.append))
    banks, sessions, questions = 1 + len(RETAINS), 5, 7
    total = banks * sessions + (len(RECALLS) + len(RETAINS)) * questions
    assert [seen[0].done, seen[-1].done] == [0, total]
    assert {progress.total for progress in seen} == {total}


@pytest.mark.parametrize("step", [2, 60])
def test_an_interrupted_ablation_goes_on_and_gives_the_same_result(tmp_path: Path, step: int) -> None:
    whole = asyncio.run(run_benchmark(ablation(tmp_path, ToyEmbedder(), work="whole")))
    with pytest.raises(Interrupted):
        asyncio.run(run_benchmark(ablation(tmp_path, ToyEmbedder()), StopAt(step)))
    again = asyncio.run(run_benchmark(ablation(tmp_path, ToyEmbedder())))
    assert (again.variants, again.config) == (whole.variants, whole.config)


def test_a_variant_that_was_asked_is_not_asked_again(tmp_path: Path) -> None:
    first, second = ToyEmbedder(), ToyEmbedder()
    with pytest.raises(Interrupted):
        asyncio.run(run_benchmark(ablation(tmp_path, first), StopAt(3 + 4 * 4)))
    asyncio.run(run_benchmark(ablation(tmp_path, second)))
    whole = (len(RECALLS) + len(RETAINS)) * 7
    assert len(second.queries) < whole
    assert whole <= len(first.queries) + len(second.queries) <= whole + 4


def test_a_finished_ablation_leaves_nothing_behind(tmp_path: Path) -> None:
    asyncio.run(run_benchmark(ablation(tmp_path, ToyEmbedder())))
    assert list((tmp_path / "work" / "runs").iterdir()) == []


def test_dates_context_and_day_can_be_left_out_alone() -> None:
    async def drafts() -> list[tuple[str, str]]:
        readers = (LocalExtractor(), WithoutDates(), WithoutContext())
        readings = [(await reader.read(SAID, None)).drafts[1] for reader in readers]
        return [(draft.text, draft.context) for draft in readings]

    whole, undated, alone = asyncio.run(drafts())
    assert "2024" in whole[0]
    assert whole[1] == "Ada: I sold my kite yesterday."
    assert undated == ("Bo: Last week I sold mine.", whole[1])
    assert alone == (whole[0], "")


def test_the_day_is_left_out_of_documents_only(tmp_path: Path) -> None:
    embedder = ToyEmbedder()
    report = asyncio.run(run_benchmark(ablation(tmp_path, embedder)))
    assert "without day" in report.variants
    bare = [text for text in embedder.documents if text.startswith("Ada: I bought")]
    dayed = [text for text in embedder.documents if text.startswith("11 January 2024. Ada: I bought")]
    assert len(bare) == 5
    assert len(dayed) == 2
    asyncio.run(WithoutDays(embedder).embed(["8 May 2024. Really?"], "query"))
    assert embedder.queries[-1] == "8 May 2024. Really?"


def test_a_recordings_ablation_leaves_retain_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "locomo" / "extractions"
    place.mkdir(parents=True)
    turns = [{"speaker": "Ada", "dia_id": "D1:1", "text": "I bought a kite."}]
    conversation = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    asked = [{"question": "What did Ada buy?", "evidence": ["D1:1"], "category": 4}]
    whole = [{"sample_id": "conv-x", "conversation": conversation, "qa": asked}]
    (tmp_path / "locomo" / "locomo_dev.json").write_text(json.dumps(whole))
    fact = {"session": 1, "text": "Ada bought a kite.", "fact_type": "world", "sources": ["D1:1"]}
    (place / "conv-x.jsonl").write_text(json.dumps(fact))
    wanted = BenchOptions(
        benchmark="ablation", engine="recorded", data=tmp_path, cache=tmp_path / "cache", embedder=ToyEmbedder()
    )
    report = asyncio.run(run_benchmark(wanted))
    assert list(report.variants) == RECALLS
    assert (report.config["engine"], report.config["unplaced_facts"]) == ("recorded", 0)


def test_the_json_tells_every_variant_and_its_difference() -> None:
    body = json.loads(REPORT.to_json())["variants"]["without keyword"]
    assert body["metrics"] == {"recall@10": 0.65}
    assert body["difference"]["metrics"]["recall@10"] == pytest.approx(-0.05)
    assert body["difference"]["categories"]["<b>"]["recall@10"] == pytest.approx(0.25)


def test_the_page_shows_signed_differences_in_colour() -> None:
    page = render(REPORT)
    assert '<td class="down">0.650 -0.050</td>' in page
    assert '<td class="up">0.750 +0.250</td>' in page
    assert "<td>0.700</td>" in page
    assert page.count("<svg") == 2
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
