"""An ablation measures recall and retain with one component disabled at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from small_data import (
    CountingEmbedder,
    Interrupted,
    MeasuredRun,
    StopAt,
    measure,
    options,
    recorded_line,
    run,
    write_conversations,
    write_locomo,
)

from vmemo import Memory, Message
from vmemo.providers import LocalExtractor
from vmemo.settings import Settings
from vmemo_bench import BenchOptions
from vmemo_bench.ablation import (
    ChangedExtractor,
    DaylessEmbedder,
    retain_settings,
    without_context,
    without_dates,
    without_entities,
)

RECALL_VARIANTS = [
    "full",
    "without semantic",
    "without keyword",
    "without graph",
    "without temporal",
    "without verbatim",
    "without analysis",
    "ranks instead of sums",
    "without reranking",
]
RETAIN_VARIANTS = [
    "without dates",
    "without day",
    "without context",
    "without entities",
    "without links",
    "without resolution",
    "without segmentation",
    "without revision",
]
MESSAGES = [
    Message(content="I sold my kite yesterday.", speaker="Ada", timestamp=datetime(2024, 5, 8, 9, tzinfo=UTC)),
    Message(content="Last week (really) I sold mine.", speaker="Bo", timestamp=datetime(2024, 5, 8, 9, 1, tzinfo=UTC)),
]


def small_ablation(folder: Path, embedder: CountingEmbedder, *, work: str = "work") -> BenchOptions:
    """Return options of an ablation over one conversation of one session."""
    write_conversations(folder / "data", {"one": ("kite",)})
    return replace(options(folder, embedder, work=work), benchmark="ablation", dataset="ours")


def test_every_component_is_disabled_in_turn(ablation_run: MeasuredRun) -> None:
    report = ablation_run.report
    assert list(report.tables["variants"]) == [*RECALL_VARIANTS, *RETAIN_VARIANTS]
    assert (report.benchmark, report.config["ablation_of"], report.config["questions"]) == ("ablation", "ours", 7)
    for name, scores in report.tables["variants"].items():
        assert {"recall@10", "evidence@500", "evidence@1000", "evidence@2000"} <= set(scores)
        assert set(report.tables["recall@10 by category"][name]) == {"single", "multi"}


def test_the_full_variant_scores_like_the_plain_benchmark(
    ablation_run: MeasuredRun, retrieval_run: MeasuredRun
) -> None:
    full, plain = ablation_run.report, retrieval_run.report
    assert (full.metrics, full.categories) == (plain.metrics, plain.categories)
    assert full.tables["variants"]["full"].items() <= plain.metrics.items()


def test_a_component_that_matters_changes_the_scores(tmp_path: Path) -> None:
    write_conversations(tmp_path / "data", {"one": ("kite",)})
    keyword = Settings(channels=frozenset({"keyword"}))
    report = measure(tmp_path, benchmark="ablation", dataset="ours", settings=keyword).report
    differences = report.tables["difference to full"]
    assert report.tables["variants"]["full"]["recall@10"] == 1.0
    assert differences["without keyword"]["recall@10"] == -1.0
    assert differences["without graph"]["recall@10"] == 0.0


def test_variants_of_recall_share_a_bank(ablation_run: MeasuredRun) -> None:
    banks, sessions, questions = 1 + len(RETAIN_VARIANTS), 5, 7
    total = banks * sessions + (len(RECALL_VARIANTS) + len(RETAIN_VARIANTS)) * questions
    assert [ablation_run.progress[0].done, ablation_run.progress[-1].done] == [0, total]
    assert {progress.total for progress in ablation_run.progress} == {total}


def test_an_interrupted_ablation_resumes_and_gives_the_same_result(tmp_path: Path) -> None:
    whole = run(small_ablation(tmp_path, CountingEmbedder(), work="whole"))
    first, second = CountingEmbedder(), CountingEmbedder()
    # Interrupted while the first bank is filled, and after four variants were asked two questions each.
    for step in (1, 1 + 4 * 2):
        with pytest.raises(Interrupted):
            run(small_ablation(tmp_path, first), StopAt(step))
    resumed = run(small_ablation(tmp_path, second))
    assert (resumed.tables, resumed.config) == (whole.tables, whole.config)
    questions = (len(RECALL_VARIANTS) + len(RETAIN_VARIANTS)) * 2
    assert len(second.queries) < questions
    assert questions <= len(first.queries) + len(second.queries) <= questions + 2


def test_a_finished_ablation_leaves_no_files(ablation_run: MeasuredRun) -> None:
    assert list(ablation_run.work.iterdir()) == []


def test_the_day_is_removed_from_documents_only(ablation_run: MeasuredRun) -> None:
    embedder = ablation_run.embedder
    without_day = [text for text in embedder.documents if text.startswith("Ada: I bought")]
    with_day = [text for text in embedder.documents if text.startswith("11 January 2024. Ada: I bought")]
    assert (len(without_day), len(with_day)) == (5, 2)
    other = CountingEmbedder()
    asyncio.run(DaylessEmbedder(other).embed(["8 May 2024. Really?"], "query"))
    assert other.queries == ["8 May 2024. Really?"]


def test_dates_and_context_are_removed_separately() -> None:
    async def drafts() -> list[tuple[str, str]]:
        extractors = (LocalExtractor(), ChangedExtractor(without_dates), ChangedExtractor(without_context))
        results = [(await extractor.read(MESSAGES, None)).drafts[1] for extractor in extractors]
        return [(draft.text, draft.context) for draft in results]

    full, undated, contextless = asyncio.run(drafts())
    assert "2024" in full[0]
    assert full[1] == "Ada: I sold my kite yesterday."
    assert undated == ("Bo: Last week (really) I sold mine.", full[1])
    assert contextless == (full[0], "")


def test_each_disabled_step_of_retain_leaves_its_records_out(tmp_path: Path) -> None:
    lines = ["I work at Acme.", "I met Robert Hale.", "Bob Hale likes tea.", "I work at Globex now."]
    talk = [at_minute(line, minute) for minute, line in enumerate(lines)]

    def counts(name: str, settings: Settings, llm: object = None) -> tuple[int, int, int, int]:
        url = f"sqlite:///{tmp_path / name}.db"
        with Memory(url, llm=llm, embedder=CountingEmbedder(), settings=settings) as memory:
            memory.retain_sync(talk)
            status = memory.status_sync()
        return status.links, status.entities, status.episodes, status.closed_facts

    links, entities, episodes, closed = counts("full", Settings())
    assert (links > 0, episodes < len(talk), closed) == (True, True, 0)
    without = {name: counts(name, settings) for name, settings in retain_settings(Settings()).items()}
    # A fact that is closed stays linked to the one that replaced it.
    assert without["without links"] == (closed, entities, episodes, closed)
    assert without["without resolution"] == (links, entities + 1, episodes, closed)
    assert without["without segmentation"] == (links, entities, len(talk), closed)
    assert without["without revision"] == (links - closed, entities, episodes, 0)
    assert not retain_settings(Settings())["without revision"].revision
    assert counts("nameless", Settings(), ChangedExtractor(without_entities))[1] == 0


def at_minute(line: str, minute: int) -> Message:
    return Message(content=line, speaker="Ada", timestamp=datetime(2024, 5, 8, 9, minute, tzinfo=UTC))


def test_an_ablation_of_recordings_has_no_variants_of_retain(tmp_path: Path) -> None:
    questions = [{"question": "What did Ada buy?", "evidence": ["D1:1"], "category": 4}]
    data = write_locomo(tmp_path, {1: ["I bought a kite."]}, questions, [recorded_line("Ada bought a kite.", "D1:1")])
    report = run(
        BenchOptions(
            benchmark="ablation", engine="recorded", data=data, cache=tmp_path / "cache", embedder=CountingEmbedder()
        )
    )
    assert list(report.tables["variants"]) == RECALL_VARIANTS
    assert (report.config["engine"], report.config["unplaced_facts"]) == ("recorded", 0)
