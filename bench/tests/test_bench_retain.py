"""The cost of retain: a model that replays recordings answers every prompt, and its calls are counted by step."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from small_data import CountingEmbedder, recorded_fact, recorded_line, run, write_locomo

from vmemo import Memory
from vmemo.errors import InvalidInput, LLMDenied
from vmemo.models import Fact, records
from vmemo.models.results import Status
from vmemo.ports import LLMRequest
from vmemo.reflect import profiles
from vmemo.settings import Settings
from vmemo_bench import BenchOptions, write_report
from vmemo_bench.case_run import sessions_of
from vmemo_bench.datasets import Case, ChatSession, Turn
from vmemo_bench.recordings import Recording
from vmemo_bench.retain.recorded_llm import RecordedLLM

DAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
SETTINGS = Settings(background=False, observe_delay=1e9)


def conversation(*texts: str) -> Case:
    """Return a conversation of one session."""
    turns = tuple(Turn(id=f"D1:{n}", text=text, speaker="Ada") for n, text in enumerate(texts, start=1))
    session = ChatSession(id="session-1", document="session-1", started_at=DAY, turns=turns)
    return Case(id="conv-x", sessions=(session,), questions=())


async def retained(case: Case, recording: Recording) -> tuple[list[Fact], Status, RecordedLLM]:
    """Retain a conversation with a model that replays the recording."""
    model = RecordedLLM(case, recording)
    async with Memory("sqlite:///:memory:", llm=model, embedder=CountingEmbedder(), settings=SETTINGS) as memory:
        for _, messages in sessions_of(case):
            await memory.retain(messages)
        return await memory.facts(), await memory.status(), model


def test_facts_are_returned_with_their_source_lines() -> None:
    case = conversation("I bought a kite yesterday.", "Then I flew it.", "The kite broke.")
    ada = [{"name": "Ada", "type": "PERSON"}]
    recording = [
        recorded_fact("Ada bought a kite.", "D1:1", occurred_start="2023-05-07", entities=ada),
        recorded_fact(
            "The kite of Ada broke.", "D1:2", "D1:3", causal=[{"target": 0, "type": "caused_by", "strength": 0.8}]
        ),
    ]
    facts, status, model = asyncio.run(retained(case, Recording(case, recording)))
    assert [(f.text, len(f.messages)) for f in facts] == [("Ada bought a kite.", 1), ("The kite of Ada broke.", 2)]
    assert facts[0].occurred_start == datetime(2023, 5, 7, tzinfo=UTC)
    assert facts[0].occurred_end == datetime(2023, 5, 8, tzinfo=UTC)
    assert (status.episodes, status.entities, status.pending, model.split_sources) == (1, 1, 0, 0)
    assert status.engine == "recorded"


def test_a_long_session_is_divided_and_split_sources_are_counted() -> None:
    case = conversation(*(f"Line {n} tells of kite {n}." for n in range(1, 31)))
    facts, status, model = asyncio.run(
        retained(case, Recording(case, [recorded_fact("Kite 1 and kite 30.", "D1:1", "D1:30")]))
    )
    assert (status.episodes, len(facts), len(facts[0].messages), model.split_sources) == (2, 1, 1, 1)
    assert {each.step: each.calls for each in status.spending} == {"segment": 1, "extract": 2}


def test_turns_with_equal_lines_are_not_distinguished() -> None:
    case = conversation("Kites!", "Yes, kites.", "Kites!")
    facts, _, _ = asyncio.run(retained(case, Recording(case, [recorded_fact("Ada likes kites.", "D1:3")])))
    assert [len(each.messages) for each in facts] == [2]


def test_tokens_of_prompt_schema_and_answer_are_counted() -> None:
    case = conversation("I bought a kite.")
    _, status, _ = asyncio.run(retained(case, Recording(case, [recorded_fact("Ada bought a kite.", "D1:1")])))
    (extract,) = status.spending
    assert (extract.calls, extract.failures) == (1, 0)
    assert extract.input_tokens > 1000 > extract.output_tokens > 10


def test_a_step_without_recording_is_rejected() -> None:
    case = conversation("I bought a kite.")
    with pytest.raises(LLMDenied, match="dream"):
        asyncio.run(
            RecordedLLM(case, Recording(case, [])).complete(LLMRequest(step="dream", system="", user="", schema={}))
        )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one conversation of four sessions and its recording."""
    filler = [f"Word {k}." for k in range(8)]
    sessions = {n: [f"I bought kite number {n} of colour {n}.", "It flies well.", *filler] for n in range(1, 5)}
    ada = [{"name": "Ada", "type": "PERSON"}]
    recording = [recorded_line(f"Ada bought kite number {n}.", f"D{n}:1", session=n, entities=ada) for n in sessions]
    return write_locomo(tmp_path / "data", sessions, (), recording)


def options(data: Path) -> BenchOptions:
    return BenchOptions(benchmark="retain", data=data, cache=data.parent / "cache", embedder=CountingEmbedder())


def test_the_report_contains_the_cost_of_each_step(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PERSON_FACTS", 3)
    monkeypatch.setattr(profiles, "LEAST_NEW_FACTS", 3)
    report = run(replace(options(data), settings=Settings(observe_delay=0.0)))
    steps = report.tables["retain by step"]
    assert set(steps) >= {"extract", "all"}
    assert "observe" not in steps
    assert report.tables["retain by step, with observations"]["observe"]["calls"] == 1
    tokens = [float(row["tokens / message"] or 0) for name, row in steps.items() if name != "all"]
    assert sum(tokens) == pytest.approx(report.metrics["retain_tokens_per_message"])
    assert report.tables["retained"]["conv-x"]["messages"] == 40
    assert report.tables["banks"]["all"]["facts"] == 4
    assert report.metrics["retain_calls_per_episode_observed"] > report.metrics["retain_calls_per_episode"]
    file = data.parent / "report.html"
    write_report(report, html=file)
    assert "Retain by step, with observations" in file.read_text()


def test_retain_needs_recordings_of_locomo(data: Path) -> None:
    with pytest.raises(InvalidInput, match="locomo only"):
        run(replace(options(data), dataset="sample"))


def test_a_queue_is_drained_completely(tmp_path: Path) -> None:
    wanted = BenchOptions(benchmark="retain", drain=200, cache=tmp_path, embedder=CountingEmbedder())
    report = run(wanted)
    assert list(report.tables["drain"])[-1] == "200"
    assert report.metrics["drained_per_second"] > 0
    with pytest.raises(InvalidInput, match="at least"):
        run(replace(wanted, drain=1))
    with pytest.raises(InvalidInput, match="not of sample"):
        run(replace(wanted, benchmark="sample"))
