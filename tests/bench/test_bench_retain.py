"""What writing costs: a model that replays recordings answers every prompt, and its calls are counted by step."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from toy import ToyEmbedder

from vmemo import Memory
from vmemo.errors import InvalidInput, LLMDenied
from vmemo.models import Fact
from vmemo.models.results import Status
from vmemo.ports import LLMRequest
from vmemo.settings import Settings
from vmemo_bench import BenchOptions, run_benchmark, write_report
from vmemo_bench.datasets import Case, Session, Turn
from vmemo_bench.recorded import RecordedFact, Recording
from vmemo_bench.retain.model import RecordedLLM
from vmemo_bench.runner import sessions_of

DAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
SETTINGS = Settings(background=False, observe_delay=1e9)


def case(*words: str) -> Case:
    """A conversation of one session."""
    turns = tuple(Turn(id=f"D1:{n}", text=text, speaker="Ada") for n, text in enumerate(words, start=1))
    session = Session(id="session-1", document="session-1", started_at=DAY, turns=turns)
    return Case(id="conv-x", sessions=(session,), questions=())


def fact(text: str, *sources: str, **values: object) -> RecordedFact:
    return RecordedFact.model_validate(
        {"session": 1, "text": text, "fact_type": "world", "sources": sources, "entities": [], **values}
    )


async def retained(told: Case, recording: Recording) -> tuple[list[Fact], Status, RecordedLLM]:
    """The bank after its conversation was read by a model that replays the recording."""
    model = RecordedLLM(told, recording)
    async with Memory("sqlite:///:memory:", llm=model, embedder=ToyEmbedder(), settings=SETTINGS) as memory:
        for _, messages in sessions_of(told):
            await memory.retain(messages)
        return await memory.facts(), await memory.status(), model


def test_facts_are_told_with_the_lines_they_come_from() -> None:
    told = case("I bought a kite yesterday.", "Then I flew it.", "The kite broke.")
    ada = [{"name": "Ada", "type": "PERSON"}]
    recording = [
        fact("Ada bought a kite.", "D1:1", occurred_start="2023-05-07", entities=ada),
        fact("The kite of Ada broke.", "D1:2", "D1:3", causal=[{"target": 0, "type": "caused_by", "strength": 0.8}]),
    ]
    facts, status, model = asyncio.run(retained(told, Recording(told, recording)))
    assert [(f.text, len(f.messages)) for f in facts] == [("Ada bought a kite.", 1), ("The kite of Ada broke.", 2)]
    assert facts[0].occurred_start == datetime(2023, 5, 7, tzinfo=UTC)
    assert facts[0].occurred_end == datetime(2023, 5, 8, tzinfo=UTC)
    assert (status.episodes, status.entities, status.pending, model.split_sources) == (1, 1, 0, 0)
    assert status.engine == "recorded"


def test_a_long_session_becomes_episodes_and_sources_beyond_them_are_counted() -> None:
    told = case(*(f"Line {n} tells of kite {n}." for n in range(1, 31)))
    facts, status, model = asyncio.run(retained(told, Recording(told, [fact("Kite 1 and kite 30.", "D1:1", "D1:30")])))
    assert (status.episodes, len(facts), len(facts[0].messages), model.split_sources) == (2, 1, 1, 1)
    assert {each.step: each.calls for each in status.spending} == {"segment": 1, "extract": 2}


def test_turns_that_look_the_same_are_the_same() -> None:
    told = case("Kites!", "Yes, kites.", "Kites!")
    facts, _, _ = asyncio.run(retained(told, Recording(told, [fact("Ada likes kites.", "D1:3")])))
    assert [len(each.messages) for each in facts] == [2]


def test_tokens_are_counted_as_they_are_sent() -> None:
    told = case("I bought a kite.")
    _, status, _ = asyncio.run(retained(told, Recording(told, [fact("Ada bought a kite.", "D1:1")])))
    (extract,) = status.spending
    assert (extract.calls, extract.failures) == (1, 0)
    assert extract.input_tokens > 1000 > extract.output_tokens > 10


def test_a_step_that_nobody_recorded_is_refused() -> None:
    told = case("I bought a kite.")
    with pytest.raises(LLMDenied, match="dream"):
        asyncio.run(
            RecordedLLM(told, Recording(told, [])).complete(LLMRequest(step="dream", system="", user="", schema={}))
        )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one conversation of four sessions and its recording."""
    conversation: dict[str, object] = {}
    lines: list[str] = []
    for n in range(1, 5):
        words = [f"I bought kite number {n} of colour {n}.", "It flies well.", *(f"Word {k}." for k in range(8))]
        conversation[f"session_{n}_date_time"] = f"1:56 pm on {n} May, 2023"
        conversation[f"session_{n}"] = [
            {"speaker": "Ada", "dia_id": f"D{n}:{k}", "text": text} for k, text in enumerate(words, start=1)
        ]
        entities = [{"name": "Ada", "type": "PERSON"}]
        told = fact(f"Ada bought kite number {n}.", f"D{n}:1", session=n)
        lines.append(json.dumps({**told.model_dump(mode="json", exclude_none=True), "entities": entities}))
    place = tmp_path / "data" / "locomo"
    (place / "extractions").mkdir(parents=True)
    whole: list[dict[str, object]] = [{"sample_id": "conv-x", "conversation": conversation, "qa": ()}]
    (place / "locomo_dev.json").write_text(json.dumps(whole))
    (place / "extractions" / "conv-x.jsonl").write_text("\n".join(lines))
    return tmp_path / "data"


def options(data: Path) -> BenchOptions:
    return BenchOptions(benchmark="retain", data=data, cache=data.parent / "cache", embedder=ToyEmbedder())


def test_the_report_tells_each_steps_share(data: Path) -> None:
    report = asyncio.run(run_benchmark(replace(options(data), settings=Settings(observe_delay=0.0))))
    steps = report.tables["steps"]
    assert set(steps) >= {"predict", "extract", "all"}
    assert "observe" not in steps
    assert report.tables["steps with observations"]["observe"]["calls / 100 messages"] == 100 * 1 / 40
    shares = [float(row["share of tokens, %"] or 0) for name, row in steps.items() if name != "all"]
    assert sum(shares) == pytest.approx(100)
    assert report.tables["conversations"]["conv-x"]["messages"] == 40
    assert report.tables["banks"]["all"]["facts"] == 4
    assert report.tables["speakers"] == {"conv-x Ada": {"entities": 1, "names": "Ada"}}
    assert report.metrics["calls_per_100_messages_observed"] > report.metrics["calls_per_100_messages"]
    file = data.parent / "report.html"
    write_report(report, html=file)
    assert "Steps with observations" in file.read_text()


def test_only_locomo_was_recorded(data: Path) -> None:
    with pytest.raises(InvalidInput, match="locomo only"):
        asyncio.run(run_benchmark(replace(options(data), dataset="sample")))


def test_a_queue_is_drained_whole(tmp_path: Path) -> None:
    wanted = BenchOptions(benchmark="retain", drain=200, cache=tmp_path, embedder=ToyEmbedder())
    report = asyncio.run(run_benchmark(wanted))
    assert list(report.tables["drain"])[-1] == "200"
    assert report.metrics["drained_per_second"] > 0
    with pytest.raises(InvalidInput, match="at least"):
        asyncio.run(run_benchmark(replace(wanted, drain=1)))
    with pytest.raises(InvalidInput, match="not for sample"):
        asyncio.run(run_benchmark(replace(wanted, benchmark="sample")))
