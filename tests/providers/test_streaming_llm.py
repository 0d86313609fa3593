"""Answers that stream from models behind OpenAI's protocol, against a scripted server."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Generator
from dataclasses import replace

import pytest
from listening import ASK, KEY, Heard, listen, made
from pydantic import JsonValue

from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnusable
from vmemo.llm.resilient import Busy, Garbled
from vmemo.models.results import Usage
from vmemo.ports.providers import Completion, StreamingLLM
from vmemo.testing import (
    CutOff,
    Drip,
    EmptyBody,
    Fault,
    Hang,
    Html,
    NoUsage,
    Raw,
    Received,
    Refusal,
    Reset,
    ScriptedServer,
    Status,
    Torn,
)

ANSWER: JsonValue = {"text": "Your cat is grey 🐈."}
WRITTEN = json.dumps(ANSWER, ensure_ascii=False)


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with ScriptedServer({"reflect": ANSWER}) as scripted:
        yield scripted


def hear(url: str, timeout: float = 30.0, times: int = 1) -> Heard:
    async def work() -> Heard:
        llm = made(url, timeout)
        try:
            return [await listen(llm) for _ in range(times)][-1]
        finally:
            await llm.close()

    return asyncio.run(work())


def test_an_answer_comes_in_pieces_and_last_whole_with_what_it_cost(server: ScriptedServer) -> None:
    async def work() -> Heard:
        llm = made(server.url, prices=(1.0, 10.0))
        assert isinstance(llm, StreamingLLM)
        try:
            return await listen(llm)
        finally:
            await llm.close()

    heard = asyncio.run(work())
    assert heard.last == Completion(
        text=WRITTEN, usage=Usage(calls=1, input_tokens=6, output_tokens=7, cost=76 / 1_000_000)
    )
    assert "".join(heard.pieces) == WRITTEN
    assert len(heard.pieces) > 3
    (seen,) = server.received
    assert (seen.step, seen.body["stream"], seen.body["stream_options"]) == ("reflect", True, {"include_usage": True})
    assert "text/event-stream" in seen.headers["accept"]


def test_a_server_that_hides_its_usage_counts_as_one_call(server: ScriptedServer) -> None:
    server.faults("reflect", [NoUsage(ANSWER)])
    assert hear(server.url).last == Completion(text=WRITTEN, usage=Usage(calls=1))


def test_a_server_that_ignores_the_wish_to_stream_answers_in_one_piece(server: ScriptedServer) -> None:
    server.faults("reflect", [Status(200, '{"choices": [{"message": {"content": "{}"}}]}')])
    heard = hear(server.url)
    assert (heard.pieces, heard.last) == (["{}"], Completion(text="{}", usage=Usage(calls=1)))


def test_a_server_that_refuses_to_count_is_asked_without_and_remembered(server: ScriptedServer) -> None:
    server.faults("reflect", [Status(400, "Unknown parameter: 'stream_options'.")])
    assert hear(server.url, times=2).last == Completion(text=WRITTEN, usage=Usage(calls=1))
    assert ["stream_options" in seen.body for seen in server.received] == [True, False, False]
    assert ["stream" in seen.body for seen in server.received] == [True, True, True]


def test_a_server_that_refuses_streams_is_asked_for_the_whole_and_remembered(server: ScriptedServer) -> None:
    server.faults("reflect", [Status(400, "Your organization must be verified to stream this model.")])
    assert hear(server.url, times=2).pieces == [WRITTEN]
    assert ["stream" in seen.body for seen in server.received] == [True, False, False]


def test_what_a_stream_learns_of_a_server_holds_for_whole_answers_too(server: ScriptedServer) -> None:
    async def work() -> None:
        llm = made(server.url)
        await listen(llm)
        await llm.complete(ASK)
        await llm.close()

    server.faults("reflect", [Status(422, "temperature?"), Status(400, "json_schema?")])
    asyncio.run(work())
    assert ["temperature" in seen.body for seen in server.received] == [True, False, False, False]
    assert ["stream" in seen.body for seen in server.received] == [True, True, True, False]
    assert server.received[-1].body["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Status(500, "I have a grey cat."), Busy, "status 500"),
        (Status(429), Busy, "status 429"),
        (Status(401, f"wrong key {KEY}"), LLMDenied, "check the API key"),
        (Status(400, "I have a grey cat."), LLMDenied, "status 400"),
        (Status(204), Garbled, "status 204"),
        (Status(200, "[1"), Garbled, "the body is wrong"),
        (Reset(), Busy, "broke the connection"),
        (Refusal("No grey cat."), LLMRefused, "declined"),
        (CutOff(), LLMUnusable, "cut off at 100 tokens"),
        (Torn("I have a grey cat."), Busy, "broke the connection"),
        (Torn("I have a grey cat.", keep=0), Busy, "broke the connection"),
        (EmptyBody(), Garbled, "something else than a chat completion"),
        (Html(), Garbled, "something else than a chat completion"),
        (Raw(""), Garbled, "empty answer"),
        (Raw("  \n" * 9), Garbled, "empty answer"),
    ],
)
def test_each_fault_is_one_of_our_errors(
    server: ScriptedServer, fault: Fault, error: type[LLMFailed], words: str
) -> None:
    server.faults("reflect", [fault])
    caught = hear(server.url).error
    assert isinstance(caught, error)
    assert words in str(caught)
    assert "127.0.0.1" in str(caught)
    printed = "".join(traceback.format_exception(caught))
    assert not any(secret in printed for secret in (KEY, "grey cat", "Read this."))
    assert len(server.received) == 1


@pytest.mark.parametrize("fault", [Hang(3600), Drip(0.001)])
def test_silence_and_a_trickle_end_at_the_deadline(server: ScriptedServer, fault: Fault) -> None:
    server.faults("reflect", [fault])
    assert "no whole answer within 0.2 seconds" in str(hear(server.url, timeout=0.2).error)


def test_a_wish_to_wait_is_carried_in_seconds(server: ScriptedServer) -> None:
    server.faults("reflect", [Status(429, retry_after=2.5)])
    caught = hear(server.url).error
    assert isinstance(caught, Busy)
    assert caught.retry_after == 2.5


def test_what_was_written_before_a_fault_is_heard(server: ScriptedServer) -> None:
    server.faults("reflect", [Torn("0123456789", keep=0.8), CutOff("0123456789"), Refusal()])
    assert ["".join(hear(server.url).pieces) for _ in range(3)] == ["01234567", "0123456789", ""]


def test_two_streams_at_the_same_time_do_not_mix() -> None:
    def echo(received: Received) -> JsonValue:
        return received.user * 50

    async def work(url: str) -> None:
        llm = made(url)
        asks = [replace(ASK, user=user) for user in ("abcde", "fghij", "klmno")]
        for ask, heard in zip(asks, await asyncio.gather(*(listen(llm, ask) for ask in asks)), strict=True):
            assert "".join(heard.pieces) == ask.user * 50
        await llm.close()

    with ScriptedServer(echo) as server:
        asyncio.run(work(server.url))
