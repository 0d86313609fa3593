"""Answers that stream from models behind OpenAI's protocol, against a scripted server."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Generator
from dataclasses import replace

import pytest
from pydantic import JsonValue
from streams import KEY, REQUEST, CollectedStream, collect, openai_llm

from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.models.results import Usage
from vmemo.ports import Completion, StreamingLLM
from vmemo_conformance.fake_llm import (
    ConnectionDropped,
    ConnectionReset,
    CutOff,
    Drip,
    EmptyBody,
    Fault,
    Hang,
    HtmlPage,
    NoUsage,
    RawText,
    ReceivedRequest,
    Refusal,
    StatusResponse,
)
from vmemo_conformance.llm_server import ScriptedServer

ANSWER: JsonValue = {"text": "Your cat is grey 🐈."}
WRITTEN = json.dumps(ANSWER, ensure_ascii=False)


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with ScriptedServer({"reflect": ANSWER}) as scripted:
        yield scripted


def stream(url: str, timeout: float = 30.0, times: int = 1) -> CollectedStream:
    async def work() -> CollectedStream:
        llm = openai_llm(url, timeout)
        try:
            return [await collect(llm) for _ in range(times)][-1]
        finally:
            await llm.close()

    return asyncio.run(work())


def test_a_stream_yields_text_deltas_and_finally_the_completion_with_usage(server: ScriptedServer) -> None:
    async def work() -> CollectedStream:
        llm = openai_llm(server.url, prices=(1.0, 10.0))
        assert isinstance(llm, StreamingLLM)
        try:
            return await collect(llm)
        finally:
            await llm.close()

    streamed = asyncio.run(work())
    assert streamed.completion == Completion(
        text=WRITTEN, usage=Usage(calls=1, input_tokens=6, output_tokens=7, cost=76 / 1_000_000)
    )
    assert "".join(streamed.deltas) == WRITTEN
    assert len(streamed.deltas) > 3
    (received,) = server.received
    assert (received.step, received.body["stream"], received.body["stream_options"]) == (
        "reflect",
        True,
        {"include_usage": True},
    )
    assert "text/event-stream" in received.headers["accept"]


def test_a_stream_without_usage_counts_as_one_call(server: ScriptedServer) -> None:
    server.faults("reflect", [NoUsage(ANSWER)])
    assert stream(server.url).completion == Completion(text=WRITTEN, usage=Usage(calls=1))


def test_a_server_that_ignores_streaming_yields_one_delta(server: ScriptedServer) -> None:
    server.faults("reflect", [StatusResponse(200, '{"choices": [{"message": {"content": "{}"}}]}')])
    streamed = stream(server.url)
    assert (streamed.deltas, streamed.completion) == (["{}"], Completion(text="{}", usage=Usage(calls=1)))


def test_rejected_stream_usage_is_left_out_from_then_on(server: ScriptedServer) -> None:
    server.faults("reflect", [StatusResponse(400, "Unknown parameter: 'stream_options'.")])
    assert stream(server.url, times=2).completion == Completion(text=WRITTEN, usage=Usage(calls=1))
    assert ["stream_options" in received.body for received in server.received] == [True, False, False]
    assert ["stream" in received.body for received in server.received] == [True, True, True]


def test_rejected_streaming_is_left_out_from_then_on(server: ScriptedServer) -> None:
    server.faults("reflect", [StatusResponse(400, "Your organization must be verified to stream this model.")])
    assert stream(server.url, times=2).deltas == [WRITTEN]
    assert ["stream" in received.body for received in server.received] == [True, False, False]


def test_features_rejected_in_a_stream_are_left_out_of_whole_requests_too(server: ScriptedServer) -> None:
    async def work() -> None:
        llm = openai_llm(server.url)
        await collect(llm)
        await llm.complete(REQUEST)
        await llm.close()

    server.faults("reflect", [StatusResponse(422, "temperature?"), StatusResponse(400, "json_schema?")])
    asyncio.run(work())
    assert ["temperature" in received.body for received in server.received] == [True, False, False, False]
    assert ["stream" in received.body for received in server.received] == [True, True, True, False]
    assert server.received[-1].body["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (StatusResponse(500, "I have a grey cat."), LLMUnavailable, "status 500"),
        (StatusResponse(429), LLMUnavailable, "status 429"),
        (StatusResponse(401, f"wrong key {KEY}"), LLMDenied, "check the API key"),
        (StatusResponse(400, "I have a grey cat."), LLMDenied, "status 400"),
        (StatusResponse(204), LLMUnavailable, "status 204"),
        (StatusResponse(200, "[1"), LLMUnavailable, "the body is invalid"),
        (ConnectionReset(), LLMUnavailable, "broke the connection"),
        (Refusal("No grey cat."), LLMRefused, "declined"),
        (CutOff(), LLMUnusable, "cut off at 100 tokens"),
        (ConnectionDropped("I have a grey cat."), LLMUnavailable, "broke the connection"),
        (ConnectionDropped("I have a grey cat.", keep=0), LLMUnavailable, "broke the connection"),
        (EmptyBody(), LLMUnavailable, "something other than a chat completion"),
        (HtmlPage(), LLMUnavailable, "something other than a chat completion"),
        (RawText(""), LLMUnavailable, "empty answer"),
        (RawText("  \n" * 9), LLMUnavailable, "empty answer"),
    ],
)
def test_each_fault_maps_to_an_llm_error(
    server: ScriptedServer, fault: Fault, error: type[LLMFailed], words: str
) -> None:
    server.faults("reflect", [fault])
    caught = stream(server.url).error
    assert isinstance(caught, error)
    assert words in str(caught)
    assert "127.0.0.1" in str(caught)
    printed = "".join(traceback.format_exception(caught))
    assert not any(secret in printed for secret in (KEY, "grey cat", "Read this."))
    assert len(server.received) == 1


@pytest.mark.parametrize("fault", [Hang(3600), Drip(0.001)])
def test_silent_and_slow_responses_end_at_the_deadline(server: ScriptedServer, fault: Fault) -> None:
    server.faults("reflect", [fault])
    assert "did not finish its answer within 0.2 seconds" in str(stream(server.url, timeout=0.2).error)


def test_retry_after_seconds_are_reported(server: ScriptedServer) -> None:
    server.faults("reflect", [StatusResponse(429, retry_after=2.5)])
    caught = stream(server.url).error
    assert isinstance(caught, LLMUnavailable)
    assert caught.retry_after == 2.5


def test_deltas_before_a_fault_are_yielded(server: ScriptedServer) -> None:
    server.faults("reflect", [ConnectionDropped("0123456789", keep=0.8), CutOff("0123456789"), Refusal()])
    assert ["".join(stream(server.url).deltas) for _ in range(3)] == ["01234567", "0123456789", ""]


def test_concurrent_streams_do_not_mix() -> None:
    def echo(received: ReceivedRequest) -> JsonValue:
        return received.user * 50

    async def work(url: str) -> None:
        llm = openai_llm(url)
        asks = [replace(REQUEST, user=user) for user in ("abcde", "fghij", "klmno")]
        for ask, streamed in zip(asks, await asyncio.gather(*(collect(llm, ask) for ask in asks)), strict=True):
            assert "".join(streamed.deltas) == ask.user * 50
        await llm.close()

    with ScriptedServer(echo) as server:
        asyncio.run(work(server.url))
