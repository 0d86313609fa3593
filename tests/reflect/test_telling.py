"""Streaming: the answer piece by piece, what memory is asked, and what is withdrawn; over real HTTP too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from thinking import citing, in_turn, leaking, looks, says, thinking, told

from vmemo import Answer, LLMFailed, Memory, Settings
from vmemo.models.results import Event, MemoryLookup, Retracted, TextDelta
from vmemo.ports import Completion, LLMRequest
from vmemo.testing import ConnectionDropped, FakeLLM, HashEmbedder, RawText, ScriptedServer

LONG = "She lives in Rome {}, in a house by the river, with two dogs and a cat {}. She has lived there for years."


def text_of(events: Sequence[Event]) -> str:
    """The pieces since the last withdrawal."""
    text = ""
    for event in events:
        if isinstance(event, Retracted):
            text = ""
        elif isinstance(event, TextDelta):
            text += event.text
    return text


def answer_of(events: Sequence[Event]) -> Answer:
    assert isinstance(events[-1], Answer)
    assert not any(isinstance(event, Answer) for event in events[:-1])
    return events[-1]


def test_the_pieces_are_the_answers_text(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.", "Vera has two dogs and a cat.")
    memory, _ = thinking(sqlite_url, citing(LONG, "Rome", "dogs"))
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        answer = answer_of(events)
        assert text_of(events) == answer.text
        assert len([event for event in events if isinstance(event, TextDelta)]) > 5
        assert len(answer.facts) == 2
        assert answer == memory.reflect_sync("Where does Vera live?")


def test_no_piece_ends_inside_a_mark(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.", "Vera has two dogs and a cat.")
    memory, _ = thinking(sqlite_url, citing(LONG, "Rome", "dogs"))
    with memory:
        text = ""
        for event in memory.reflect_stream_sync("Where does Vera live?"):
            if isinstance(event, TextDelta):
                text += event.text
                assert "[F" not in text
                assert text.count("[") == text.count("]")


def test_what_memory_is_asked_is_told_before_the_answer(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = thinking(sqlite_url, in_turn(looks("Vera's house"), citing("In Rome {}.", "Rome")))
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert isinstance(events[0], MemoryLookup)
        assert events[0].query == "Vera's house"
        assert not any(isinstance(event, Retracted) for event in events)
        assert text_of(events) == answer_of(events).text


def test_an_answer_that_is_written_anew_is_withdrawn_first(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = thinking(sqlite_url, in_turn(says("She lives in Oslo."), citing("In Rome {}.", "Rome")))
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert sum(isinstance(event, Retracted) for event in events) == 1
        assert text_of(events) == answer_of(events).text
        assert answer_of(events).plain == "In Rome."


@pytest.mark.parametrize("text", ["Oslo [F9], they say.", "Oslo, they say.", "In Rome [F1] [F9]"])
def test_flaws_are_told_as_well(sqlite_url: str, text: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = thinking(sqlite_url, says(text))
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert answer_of(events).flaws
        assert text_of(events) == answer_of(events).text
        assert "[F9]" not in text_of(events)


def test_an_answer_that_gives_the_rules_away_is_withdrawn(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = thinking(sqlite_url, leaking)
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert answer_of(events).extractive
        assert text_of(events) == answer_of(events).text
        assert isinstance(events[-3], Retracted)


@pytest.mark.parametrize(
    "written",
    [
        '{"text": "In Rome [F1].", "look_for": []}',
        '```json\n{"look_for": [], "steps": ["a"], "found": true, "text": "In Rome [F1]."}\n```',
        '<think>{"text": "Oslo"} hm</think>{"look_for": null, "text": "In Rome [F1]."}',
        '{"look_for": [], "text": "In R\\u006fme [F1]."}',
    ],
)
def test_any_order_and_wrapping_gives_the_same_text(sqlite_url: str, written: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = thinking(sqlite_url, lambda _: RawText(written))
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert answer_of(events).plain == "In Rome."
        assert text_of(events) == answer_of(events).text
        assert not any(isinstance(event, Retracted) for event in events)


def test_other_scripts_arrive_whole(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = thinking(sqlite_url, citing("Она живёт в Риме {} 🏛️ 日本語 {}", "Rome", "Rome"))
    with memory:
        events = list(memory.reflect_stream_sync("Где живёт Vera?"))
        assert text_of(events) == answer_of(events).text
        assert answer_of(events).plain == "Она живёт в Риме 🏛️ 日本語"


class Whole:
    """A model that can't stream."""

    name = "whole"

    def __init__(self, model: FakeLLM) -> None:
        self._model = model

    async def complete(self, request: LLMRequest) -> Completion:
        return await self._model.complete(request)


def test_a_model_that_can_not_stream_tells_its_answer_in_one_piece(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    model = Whole(FakeLLM({"reflect": says("In Rome [F1].")}))
    with Memory(sqlite_url, llm=model, embedder=HashEmbedder()) as memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert [type(event) for event in events] == [TextDelta, Answer]
        assert text_of(events) == answer_of(events).text


def test_without_a_model_the_quotations_are_one_piece(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert [type(event) for event in events] == [TextDelta, Answer]
        assert answer_of(events).extractive


def serving(url: str, server: ScriptedServer) -> Memory:
    settings = Settings(llm_tries=1, llm_timeout=20.0, background=False)
    return Memory(url, llm=f"{server.url}#scripted", embedder=HashEmbedder(), settings=settings)


def test_an_answer_streams_over_http(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.", "Vera has two dogs and a cat.")
    with ScriptedServer({"reflect": citing(LONG, "Rome", "dogs")}) as server, serving(sqlite_url, server) as memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        answer = answer_of(events)
        assert text_of(events) == answer.text
        assert len([event for event in events if isinstance(event, TextDelta)]) > 5
        assert server.received[0].body["stream"] is True
        assert answer.usage.output_tokens > 0
        memory.reflect_sync("What pets does Vera have?")
        assert not server.received[1].body.get("stream")


def test_a_stream_that_tears_is_an_error_and_the_next_one_works(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    with ScriptedServer({"reflect": says("In Rome [F1].")}) as server, serving(sqlite_url, server) as memory:
        server.faults("reflect", [ConnectionDropped('{"look_for": [], "text": "In Rome and elsewh')])
        with pytest.raises(LLMFailed):
            list(memory.reflect_stream_sync("Where does Vera live?"))
        assert answer_of(list(memory.reflect_stream_sync("Where does Vera live?"))).plain == "In Rome."


class Endless(Whole):
    """A model that never comes to an end."""

    stopped = False

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        yield '{"look_for": [], "text": "In Rome and '
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped = True


def test_who_stops_listening_stops_the_reflection(sqlite_url: str) -> None:
    told(sqlite_url, "My sister Vera lives in Rome.")
    model = Endless(FakeLLM({}))

    async def listen() -> None:
        async with Memory(sqlite_url, llm=model, embedder=HashEmbedder()) as memory:
            events = memory.reflect_stream("Where does Vera live?")
            assert await anext(events) == TextDelta(text="In Rome and")
            await events.aclose()
            assert model.stopped

    asyncio.run(listen())
    with Memory(sqlite_url, llm=model, embedder=HashEmbedder()) as memory:
        for event in memory.reflect_stream_sync("Where does Vera live?"):
            assert event == TextDelta(text="In Rome and")
            break


def test_bad_input_is_refused_when_the_stream_begins(sqlite_url: str) -> None:
    memory, model = thinking(sqlite_url, says("x"))
    with memory, pytest.raises(Exception, match="max_lookups: must be"):
        list(memory.reflect_stream_sync("Where?", max_lookups=9))
    assert model.received == []
