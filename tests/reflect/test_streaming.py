"""Streaming: text deltas, lookups and retractions, also over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import accumulate

import pytest
from reflect_fixtures import answers_in_turn, citing, leaking, lookup_request, memory_with_model, retain_lines, says

from max_wait import MAX_WAIT
from vmemo import Answer, LLMFailed, Memory, Settings
from vmemo.models.results import Event, MemoryLookup, Retracted, TextDelta
from vmemo.ports import Completion, LLMRequest
from vmemo.reflect.streaming import AnswerStreamer
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import ConnectionDropped, FakeLLM, RawText
from vmemo_conformance.llm_server import ScriptedServer

STORES = ("sqlite",)

LONG = "She lives in Rome {}, in a house by the river, with two dogs and a cat {}. She has lived there for years."


def text_of(events: Sequence[Event]) -> str:
    """Return the text of the deltas since the last retraction."""
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


def test_the_deltas_form_the_answers_text(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.", "Vera has two dogs and a cat.")
    memory, _ = memory_with_model(sqlite_url, citing(LONG, "Rome", "dogs"))
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        answer = answer_of(events)
        assert text_of(events) == answer.text
        assert len([event for event in events if isinstance(event, TextDelta)]) > 5
        assert len(answer.facts) == 2
        assert answer == memory.reflect_sync("Where does Vera live?")


def test_no_delta_ends_inside_a_mark(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.", "Vera has two dogs and a cat.")
    memory, _ = memory_with_model(sqlite_url, citing(LONG, "Rome", "dogs"))
    with memory:
        text = ""
        for event in memory.reflect_stream_sync("Where does Vera live?"):
            if isinstance(event, TextDelta):
                text += event.text
                assert "[F" not in text
                assert text.count("[") == text.count("]")


def test_the_work_for_a_streamed_answer_grows_linearly() -> None:
    def parsed(length: int) -> int:
        """Return the characters that are parsed for an answer that arrives one character at a time."""
        events: list[Event] = []
        streamer = AnswerStreamer(events.append)
        for character in f'{{"text": "{"x" * length}':
            streamer.feed(character)
        streamer.finish("x" * length)
        assert text_of(events) == "x" * length
        return sum(accumulate(len(event.text) for event in events if isinstance(event, TextDelta)))

    assert parsed(16_000) < 2.2 * parsed(8_000)


def test_lookups_are_streamed_before_the_answer(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = memory_with_model(
        sqlite_url, answers_in_turn(lookup_request("Vera's house"), citing("In Rome {}.", "Rome"))
    )
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert isinstance(events[0], MemoryLookup)
        assert events[0].query == "Vera's house"
        assert not any(isinstance(event, Retracted) for event in events)
        assert text_of(events) == answer_of(events).text


def test_a_repaired_answer_is_streamed_after_a_retraction(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = memory_with_model(
        sqlite_url, answers_in_turn(says("She lives in Oslo."), citing("In Rome {}.", "Rome"))
    )
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert sum(isinstance(event, Retracted) for event in events) == 1
        assert text_of(events) == answer_of(events).text
        assert answer_of(events).plain == "In Rome."


@pytest.mark.parametrize("text", ["Oslo [F9], they say.", "Oslo, they say.", "In Rome [F1] [F9]"])
def test_flaws_are_streamed_too(sqlite_url: str, text: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = memory_with_model(sqlite_url, says(text))
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert answer_of(events).flaws
        assert text_of(events) == answer_of(events).text
        assert "[F9]" not in text_of(events)


def test_a_streamed_answer_that_reveals_the_rules_is_retracted(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = memory_with_model(sqlite_url, leaking)
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert answer_of(events).extractive
        assert text_of(events) == answer_of(events).text
        assert isinstance(events[-3], Retracted)


@pytest.mark.parametrize(
    "written",
    [
        '{"text": "In Rome [F1].", "calls": []}',
        '```json\n{"calls": [], "steps": ["a"], "found": true, "text": "In Rome [F1]."}\n```',
        '<think>{"text": "Oslo"} hm</think>{"calls": null, "text": "In Rome [F1]."}',
        '{"calls": [], "text": "In R\\u006fme [F1]."}',
    ],
)
def test_any_order_and_wrapping_gives_the_same_text(sqlite_url: str, written: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = memory_with_model(sqlite_url, lambda _: RawText(written))
    with memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert answer_of(events).plain == "In Rome."
        assert text_of(events) == answer_of(events).text
        assert not any(isinstance(event, Retracted) for event in events)


def test_other_scripts_arrive_whole(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = memory_with_model(sqlite_url, citing("Она живёт в Риме {} 🏛️ 日本語 {}", "Rome", "Rome"))
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


def test_a_model_that_cannot_stream_emits_one_delta(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    model = Whole(FakeLLM({"reflect": says("In Rome [F1].")}))
    with Memory(sqlite_url, llm=model, embedder=HashEmbedder()) as memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert [type(event) for event in events] == [TextDelta, Answer]
        assert text_of(events) == answer_of(events).text


def test_an_extractive_answer_is_streamed_as_one_delta(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        assert [type(event) for event in events] == [TextDelta, Answer]
        assert answer_of(events).extractive


def serving(url: str, server: ScriptedServer) -> Memory:
    settings = Settings(attempts=1, llm_timeout=MAX_WAIT, background=False)
    return Memory(url, llm=f"{server.url}#scripted", embedder=HashEmbedder(), settings=settings)


def test_an_answer_streams_over_http(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.", "Vera has two dogs and a cat.")
    with ScriptedServer({"reflect": citing(LONG, "Rome", "dogs")}) as server, serving(sqlite_url, server) as memory:
        events = list(memory.reflect_stream_sync("Where does Vera live?"))
        answer = answer_of(events)
        assert text_of(events) == answer.text
        assert len([event for event in events if isinstance(event, TextDelta)]) > 5
        assert server.received[0].body["stream"] is True
        assert answer.usage.output_tokens > 0
        memory.reflect_sync("What pets does Vera have?")
        assert not server.received[1].body.get("stream")


def test_an_interrupted_connection_is_an_error_and_the_next_stream_works(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    with ScriptedServer({"reflect": says("In Rome [F1].")}) as server, serving(sqlite_url, server) as memory:
        server.faults("reflect", [ConnectionDropped('{"calls": [], "text": "In Rome and elsewh')])
        with pytest.raises(LLMFailed):
            list(memory.reflect_stream_sync("Where does Vera live?"))
        assert answer_of(list(memory.reflect_stream_sync("Where does Vera live?"))).plain == "In Rome."


class Endless(Whole):
    """A model that never comes to an end."""

    stopped = False

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        yield '{"calls": [], "text": "In Rome and '
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped = True


def test_closing_the_stream_cancels_the_reflection(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
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
    memory, model = memory_with_model(sqlite_url, says("x"))
    with memory, pytest.raises(Exception, match="max_lookups: must be"):
        list(memory.reflect_stream_sync("Where?", max_lookups=9))
    assert model.received == []
