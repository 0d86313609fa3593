"""The recorded engine returns the facts of a recording, each with its session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError
from small_data import CountingEmbedder, recorded_fact, recorded_line, run, write_locomo

from vmemo import Memory, Message
from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, export_texts
from vmemo_bench.datasets import Case, ChatSession, Turn
from vmemo_bench.recordings import RecordedExtractor, Recording, parse_period

DAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
CASE = Case(
    id="conv-x",
    sessions=tuple(
        ChatSession(
            id=f"session-{n}",
            document=f"session-{n}",
            started_at=DAY.replace(month=n + 4),
            turns=tuple(Turn(id=f"D{n}:{k}", text=f"Line {k} of {n}.", speaker="Ada") for k in (1, 2, 3)),
        )
        for n in (1, 2)
    ),
    questions=(),
)


def messages_of(session: int) -> list[Message]:
    return [
        Message(content=turn.text, timestamp=CASE.sessions[session - 1].started_at, metadata={"turn": turn.id})
        for turn in CASE.sessions[session - 1].turns
    ]


def extracted(extractor: RecordedExtractor, messages: Sequence[Message]) -> dict[str, list[str]]:
    """Return the source turns of each text that is extracted from these messages."""
    turns = {message.id: str(message.metadata["turn"]) for message in messages}
    result = asyncio.run(extractor.read(messages, None))
    return {draft.text: [turns[id] for id in draft.messages] for draft in result.drafts}


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2023", (2023, 1, 1), (2024, 1, 1)),
        ("2023-12", (2023, 12, 1), (2024, 1, 1)),
        ("2024-02-28", (2024, 2, 28), (2024, 2, 29)),
    ],
)
def test_a_period_is_a_whole_year_month_or_day(
    text: str, start: tuple[int, int, int], end: tuple[int, int, int]
) -> None:
    assert parse_period(text) == (datetime(*start, tzinfo=UTC), datetime(*end, tzinfo=UTC))


def test_a_fact_lasts_from_its_first_period_to_the_end_of_its_last() -> None:
    recorded = recorded_fact("Ada sailed.", "D1:1", occurred_start="2022-11", occurred_end="2023")
    assert recorded.occurred == (datetime(2022, 11, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC))
    assert recorded_fact("Ada sailed.", "D1:1", occurred_start="2022").occurred == parse_period("2022")
    assert recorded_fact("Ada sailed.", "D1:1").occurred is None


def test_causes_are_parsed() -> None:
    (cause,) = recorded_fact(
        "So she sailed.", "D1:2", causal=[{"target": 0, "type": "caused_by", "strength": 0.9}]
    ).causal
    assert (cause.target, cause.type, cause.strength) == (0, "caused_by", 0.9)


def test_causes_refer_to_facts_of_their_own_session() -> None:
    because = {"target": 0, "type": "caused_by", "strength": 0.9}
    nowhere = {"target": 7, "type": "causes", "strength": 0.9}
    recording = [
        recorded_fact("One.", "D1:1"),
        recorded_fact("Two.", "D2:1", session=2),
        recorded_fact("Three.", "D2:2", session=2, causal=[because, nowhere]),
    ]
    two, three = asyncio.run(RecordedExtractor(Recording(CASE, recording)).read(messages_of(2), None)).drafts
    assert [(cause.target, cause.kind, cause.strength) for cause in three.causes] == [(two.key, "caused_by", 0.9)]


def test_each_session_yields_its_own_facts_with_their_sources() -> None:
    recording = [
        recorded_fact("One.", "D1:3", "D1:1"),
        recorded_fact("Two.", "D2:2"),
        recorded_fact("Three.", "D2:9", "D2:1"),
    ]
    extractor = RecordedExtractor(Recording(CASE, recording))
    assert extracted(extractor, messages_of(1)) == {"One.": ["D1:1", "D1:3"]}
    assert extracted(extractor, messages_of(2)) == {"Two.": ["D2:2"], "Three.": ["D2:1"]}


def test_a_fact_of_two_sessions_is_extracted_once_from_the_later_one() -> None:
    extractor = RecordedExtractor(Recording(CASE, [recorded_fact("Both.", "D2:1", "D1:2")]))
    assert extracted(extractor, messages_of(1)) == {}
    assert extracted(extractor, messages_of(2)) == {"Both.": ["D2:1"]}


def test_a_fact_with_unknown_sources_is_dropped_and_counted() -> None:
    recording = Recording(
        CASE, [recorded_fact("Lost.", "D9:9"), recorded_fact("Rootless."), recorded_fact("One.", "D1:1")]
    )
    assert extracted(RecordedExtractor(recording), [*messages_of(1), *messages_of(2)]) == {"One.": ["D1:1"]}
    assert recording.unplaced == 2


def test_a_draft_has_network_entities_and_time() -> None:
    entities = [{"name": "Ada", "type": "PERSON"}, {"name": "Malta", "type": "LOCATION"}]
    recording = [
        recorded_fact("Ada likes Malta.", "D1:1", fact_type="opinion", entities=entities, occurred_start="2023-05"),
        recorded_fact("I booked a flight.", "D1:2", fact_type="experience"),
    ]
    one, two = asyncio.run(RecordedExtractor(Recording(CASE, recording)).read(messages_of(1), None)).drafts
    assert (one.network, two.network) == ("world", "experience")
    assert [(entity.name, entity.type) for entity in one.entities] == [("Ada", "PERSON"), ("Malta", "LOCATION")]
    assert one.occurred == parse_period("2023-05")
    assert one.mentioned_at == CASE.sessions[0].started_at


def test_a_time_in_another_format_is_rejected() -> None:
    with pytest.raises(ValidationError):
        recorded_fact("Ada sailed.", "D1:1", occurred_start="spring")


def test_a_memory_accepts_a_custom_extractor() -> None:
    async def recalled() -> list[tuple[str, bool]]:
        extractor = RecordedExtractor(Recording(CASE, [recorded_fact("Ada keeps bees.", "D1:1")]))
        async with Memory("sqlite:///:memory:", llm=extractor, embedder=CountingEmbedder()) as memory:
            await memory.retain(messages_of(1))
            assert (await memory.status()).engine == "recorded"
            found = await memory.recall("Who keeps bees, and what is line 2 of 1?")
            return [(hit.fact.text, hit.verbatim) for hit in found.hits]

    found = dict(asyncio.run(recalled()))
    assert found["Ada keeps bees."] is False
    assert any("Line 2 of 1." in text and verbatim for text, verbatim in found.items())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one conversation and its recording."""
    questions = [{"question": "What did Ada buy from the shop?", "answer": "kite", "evidence": ["D1:1"], "category": 4}]
    recording = [
        recorded_line("Ada bought a kite from the shop.", "D1:1"),
        recorded_line("Not in the conversation.", "D7:7"),
    ]
    return write_locomo(tmp_path / "data", {1: ["I did it!", "Bye."]}, questions, recording)


def options(data: Path) -> BenchOptions:
    cache = data.parent / "cache"
    return BenchOptions(benchmark="locomo", engine="recorded", data=data, cache=cache, embedder=CountingEmbedder())


def test_a_run_with_recordings_finds_recorded_facts(data: Path) -> None:
    report = run(options(data))
    assert report.metrics["recall@1"] == 1.0
    assert (report.config["engine"], report.config["facts"], report.config["unplaced_facts"]) == ("recorded", 1, 1)
    assert run(replace(options(data), engine="local")).config["engine"] == "local"


def test_recordings_are_found_beside_a_single_file(data: Path) -> None:
    alone = replace(options(data), data=None, file=data / "locomo" / "locomo_dev.json")
    assert run(alone).config["facts"] == 1


def test_the_texts_of_recordings_can_be_exported(data: Path) -> None:
    file = data.parent / "texts.jsonl"
    # The fact, and the messages that are embedded to find episodes.
    assert asyncio.run(export_texts(options(data), file)) > 1
    assert "bought a kite" in file.read_text()


def test_recordings_exist_for_locomo_only(data: Path) -> None:
    with pytest.raises(InvalidInput, match="locomo only"):
        run(replace(options(data), benchmark="sample"))


@pytest.mark.parametrize("content", ["{}", '{"session": 1', "plain words"])
def test_a_recording_in_another_format_is_rejected(data: Path, content: str) -> None:
    (data / "locomo" / "extractions" / "conv-x.jsonl").write_text(content)
    with pytest.raises(InvalidInput, match=r"conv-x\.jsonl, line 1: "):
        run(options(data))


def test_the_error_for_a_missing_recording_names_the_option(data: Path) -> None:
    (data / "locomo" / "extractions" / "conv-x.jsonl").unlink()
    with pytest.raises(InvalidInput, match="--data"):
        run(options(data))
