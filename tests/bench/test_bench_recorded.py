"""The recorded engine tells what a recording holds, each fact with its session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError
from toy import ToyEmbedder

from vmemo import Memory, Message
from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, export_texts, run_benchmark
from vmemo_bench.datasets import Case, Session, Turn
from vmemo_bench.recorded import RecordedExtractor, RecordedFact, Recording, widened

DAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
CASE = Case(
    id="conv-x",
    sessions=tuple(
        Session(
            id=f"session-{n}",
            document=f"session-{n}",
            started_at=DAY.replace(month=n + 4),
            turns=tuple(Turn(id=f"D{n}:{k}", text=f"Line {k} of {n}.", speaker="Ada") for k in (1, 2, 3)),
        )
        for n in (1, 2)
    ),
    questions=(),
)


def line(text: str, *sources: str, **values: object) -> dict[str, object]:
    """A fact as a recording holds it."""
    return {
        "session": 1,
        "text": text,
        "fact_type": "world",
        "entities": [],
        "causal": [],
        "sources": sources,
        **values,
    }


def fact(text: str, *sources: str, **values: object) -> RecordedFact:
    return RecordedFact.model_validate(line(text, *sources, **values))


def said(session: int) -> list[Message]:
    return [
        Message(content=turn.text, timestamp=CASE.sessions[session - 1].started_at, metadata={"turn": turn.id})
        for turn in CASE.sessions[session - 1].turns
    ]


def told(extractor: RecordedExtractor, messages: Sequence[Message]) -> dict[str, list[str]]:
    """The turns behind each text that these messages tell."""
    turns = {message.id: str(message.metadata["turn"]) for message in messages}
    reading = asyncio.run(extractor.read(messages, None))
    return {draft.text: [turns[id] for id in draft.messages] for draft in reading.drafts}


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2023", (2023, 1, 1), (2024, 1, 1)),
        ("2023-12", (2023, 12, 1), (2024, 1, 1)),
        ("2024-02-28", (2024, 2, 28), (2024, 2, 29)),
    ],
)
def test_years_months_and_days_are_taken_whole(
    text: str, start: tuple[int, int, int], end: tuple[int, int, int]
) -> None:
    assert widened(text) == (datetime(*start, tzinfo=UTC), datetime(*end, tzinfo=UTC))


def test_a_fact_reaches_from_its_first_time_to_the_end_of_its_last() -> None:
    recorded = fact("Ada sailed.", "D1:1", occurred_start="2022-11", occurred_end="2023")
    assert recorded.occurred == (datetime(2022, 11, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC))
    assert fact("Ada sailed.", "D1:1", occurred_start="2022").occurred == widened("2022")
    assert fact("Ada sailed.", "D1:1").occurred is None


def test_causes_are_read_and_kept() -> None:
    (cause,) = fact("So she sailed.", "D1:2", causal=[{"target": 0, "type": "caused_by", "strength": 0.9}]).causal
    assert (cause.target, cause.type, cause.strength) == (0, "caused_by", 0.9)


def test_causes_lead_to_facts_of_their_own_session() -> None:
    because = {"target": 0, "type": "caused_by", "strength": 0.9}
    nowhere = {"target": 7, "type": "causes", "strength": 0.9}
    recording = [
        fact("One.", "D1:1"),
        fact("Two.", "D2:1", session=2),
        fact("Three.", "D2:2", session=2, causal=[because, nowhere]),
    ]
    two, three = asyncio.run(RecordedExtractor(Recording(CASE, recording)).read(said(2), None)).drafts
    assert [(cause.target, cause.kind, cause.strength) for cause in three.causes] == [(two.key, "caused_by", 0.9)]


def test_each_session_tells_its_own_facts_with_their_sources() -> None:
    recording = [fact("One.", "D1:3", "D1:1"), fact("Two.", "D2:2"), fact("Three.", "D2:9", "D2:1")]
    extractor = RecordedExtractor(Recording(CASE, recording))
    assert told(extractor, said(1)) == {"One.": ["D1:1", "D1:3"]}
    assert told(extractor, said(2)) == {"Two.": ["D2:2"], "Three.": ["D2:1"]}


def test_a_fact_of_two_sessions_is_told_once_by_the_later_one() -> None:
    extractor = RecordedExtractor(Recording(CASE, [fact("Both.", "D2:1", "D1:2")]))
    assert told(extractor, said(1)) == {}
    assert told(extractor, said(2)) == {"Both.": ["D2:1"]}


def test_a_fact_whose_sources_nobody_said_is_dropped_and_counted() -> None:
    recording = Recording(CASE, [fact("Lost.", "D9:9"), fact("Rootless."), fact("One.", "D1:1")])
    assert told(RecordedExtractor(recording), [*said(1), *said(2)]) == {"One.": ["D1:1"]}
    assert recording.unplaced == 2


def test_a_draft_carries_network_entities_and_time() -> None:
    entities = [{"name": "Ada", "type": "PERSON"}, {"name": "Malta", "type": "LOCATION"}]
    recording = [
        fact("Ada likes Malta.", "D1:1", fact_type="opinion", entities=entities, occurred_start="2023-05"),
        fact("I booked a flight.", "D1:2", fact_type="experience"),
    ]
    one, two = asyncio.run(RecordedExtractor(Recording(CASE, recording)).read(said(1), None)).drafts
    assert (one.network, two.network) == ("world", "experience")
    assert [(entity.name, entity.type) for entity in one.entities] == [("Ada", "PERSON"), ("Malta", "LOCATION")]
    assert one.occurred == widened("2023-05")
    assert one.mentioned_at == CASE.sessions[0].started_at


def test_a_time_of_another_form_is_refused() -> None:
    with pytest.raises(ValidationError):
        fact("Ada sailed.", "D1:1", occurred_start="spring")


def test_a_memory_takes_an_engine_of_the_callers_own() -> None:
    async def recalled() -> list[tuple[str, bool]]:
        engine = RecordedExtractor(Recording(CASE, [fact("Ada keeps bees.", "D1:1")]))
        async with Memory("sqlite:///:memory:", llm=engine, embedder=ToyEmbedder()) as memory:
            await memory.retain(said(1))
            assert (await memory.status()).engine == "recorded"
            found = await memory.recall("Who keeps bees, and what is line 2 of 1?")
            return [(hit.fact.text, hit.verbatim) for hit in found.hits]

    found = dict(asyncio.run(recalled()))
    assert found["Ada keeps bees."] is False
    assert any("Line 2 of 1." in text and verbatim for text, verbatim in found.items())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one conversation and its recording."""
    turns = [{"speaker": "Ada", "dia_id": f"D1:{n}", "text": text} for n, text in ((1, "I did it!"), (2, "Bye."))]
    conversation = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    questions = [{"question": "What did Ada buy from the shop?", "answer": "kite", "evidence": ["D1:1"], "category": 4}]
    place = tmp_path / "data" / "locomo"
    (place / "extractions").mkdir(parents=True)
    whole = [{"sample_id": "conv-x", "conversation": conversation, "qa": questions}]
    (place / "locomo_dev.json").write_text(json.dumps(whole))
    lines = [line("Ada bought a kite from the shop.", "D1:1"), line("Nobody said this.", "D7:7")]
    (place / "extractions" / "conv-x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path / "data"


def options(data: Path) -> BenchOptions:
    cache = data.parent / "cache"
    return BenchOptions(benchmark="locomo", engine="recorded", data=data, cache=cache, embedder=ToyEmbedder())


def test_a_run_with_recordings_finds_what_the_words_do_not_say(data: Path) -> None:
    report = asyncio.run(run_benchmark(options(data)))
    assert report.metrics["recall@1"] == 1.0
    assert (report.config["engine"], report.config["facts"], report.config["unplaced_facts"]) == ("recorded", 1, 1)
    assert asyncio.run(run_benchmark(replace(options(data), engine="local"))).config["engine"] == "local"


def test_recordings_lie_beside_a_file_that_is_named_alone(data: Path) -> None:
    alone = replace(options(data), data=None, file=data / "locomo" / "locomo_dev.json")
    assert asyncio.run(run_benchmark(alone)).config["facts"] == 1


def test_the_texts_of_recordings_can_be_embedded_elsewhere(data: Path) -> None:
    file = data.parent / "texts.jsonl"
    # The fact, and the messages by which episodes are told apart.
    assert asyncio.run(export_texts(options(data), file)) > 1
    assert "bought a kite" in file.read_text()


def test_recordings_are_of_locomo_only(data: Path) -> None:
    with pytest.raises(InvalidInput, match="locomo only"):
        asyncio.run(run_benchmark(replace(options(data), benchmark="sample")))


@pytest.mark.parametrize("content", ["{}", '{"session": 1', "plain words"])
def test_a_recording_of_another_form_is_refused(data: Path, content: str) -> None:
    (data / "locomo" / "extractions" / "conv-x.jsonl").write_text(content)
    with pytest.raises(InvalidInput, match="can't be read as a recording"):
        asyncio.run(run_benchmark(options(data)))


def test_a_missing_recording_says_what_to_pass(data: Path) -> None:
    (data / "locomo" / "extractions" / "conv-x.jsonl").unlink()
    with pytest.raises(InvalidInput, match="--data"):
        asyncio.run(run_benchmark(options(data)))
