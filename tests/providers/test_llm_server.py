"""The scripted server and the fake model that users get for their tests."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, IncompleteRead
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from pydantic import JsonValue

from max_wait import MAX_WAIT
from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.models.results import Usage
from vmemo.ports import LLM, Completion, LLMRequest, StreamingLLM
from vmemo_conformance.fake_llm import (
    ConnectionDropped,
    ConnectionReset,
    CutOff,
    Drip,
    EmptyBody,
    FakeLLM,
    Fault,
    Hang,
    HtmlPage,
    NoUsage,
    RawText,
    ReceivedRequest,
    Refusal,
    StatusResponse,
    ToolCall,
)
from vmemo_conformance.llm_server import ScriptedServer

ASK = LLMRequest(step="extract", system="Read this.", user="I have a cat.", schema={"type": "object"})


@dataclass(frozen=True)
class Heard:
    status: int
    retry_after: str | None
    body: bytes


def send(server: ScriptedServer, step: str = "extract", more: Mapping[str, JsonValue] | None = None) -> Heard:
    """A question by the plainest client there is, so that no provider of ours stands between."""
    parts = urlsplit(server.url)
    schema = {"type": "json_schema", "json_schema": {"name": step, "schema": {"type": "object"}}}
    messages = [{"role": "system", "content": "Read this."}, {"role": "user", "content": "I have a cat."}]
    body = json.dumps({"model": "m", "messages": messages, "response_format": schema, **(more or {})})
    headers = {"X-Vmemo-Step": step, "Authorization": "Bearer sk-secret"}
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=MAX_WAIT)) as connection:
        connection.request("POST", f"{parts.path}/chat/completions", body, headers)
        response = connection.getresponse()
        return Heard(response.status, response.headers["Retry-After"], response.read())


def answer(server: ScriptedServer, step: str = "extract") -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", json.loads(send(server, step).body))


def content(server: ScriptedServer, step: str = "extract") -> JsonValue:
    choices = cast("list[dict[str, dict[str, JsonValue]]]", answer(server, step)["choices"])
    return choices[0]["message"]["content"]


def test_a_value_becomes_the_assistants_message_with_usage() -> None:
    with ScriptedServer({"extract": {"facts": ["a cat"]}}) as server:
        said = answer(server)
    assert said["usage"] == {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    assert '{\\"facts\\": [\\"a cat\\"]}' in json.dumps(said["choices"])


def test_a_tool_call_is_sent_whole_or_streamed_with_an_id_of_its_own() -> None:
    with ScriptedServer({"": ToolCall("remember", {"text": "a cat"})}) as server:
        whole = answer(server, "")
        streamed = [
            json.loads(event) for event in send(server, "", {"stream": True}).body.decode().split("data: ")[1:3]
        ]
    choice = cast("list[dict[str, Any]]", whole["choices"])[0]
    [call], [delta] = choice["message"]["tool_calls"], streamed[0]["choices"][0]["delta"]["tool_calls"]
    assert call["function"] == delta["function"] == {"name": "remember", "arguments": '{"text": "a cat"}'}
    assert call["id"] != delta["id"]
    assert choice["finish_reason"] == streamed[1]["choices"][0]["finish_reason"] == "tool_calls"


def test_requests_are_recorded_without_credentials() -> None:
    with ScriptedServer({"extract": {}}) as server:
        answer(server)
        (received,) = server.received
    assert (received.step, received.system, received.user) == ("extract", "Read this.", "I have a cat.")
    assert (received.schema, received.model) == ({"type": "object"}, "m")
    assert "sk-secret" not in repr(received)


def test_a_list_is_used_in_order_and_a_value_repeats() -> None:
    with ScriptedServer({"extract": [{"n": 1}, "two"], "judge": {"same": True}}) as server:
        assert [content(server), content(server)] == ['{"n": 1}', "two"]
        assert [content(server, "judge"), content(server, "judge")] == ['{"same": true}'] * 2


def test_a_function_replies_to_its_request() -> None:
    def echo(received: ReceivedRequest) -> JsonValue:
        return {"said": received.user}

    with ScriptedServer(echo) as server:
        assert content(server) == '{"said": "I have a cat."}'
    with ScriptedServer({"extract": echo}) as server:
        assert content(server) == '{"said": "I have a cat."}'


def test_queued_faults_precede_the_scripts_replies() -> None:
    with ScriptedServer({"extract": {"n": 1}}) as server:
        server.faults("extract", [StatusResponse(503, "busy", retry_after=2), RawText("{oh")])
        assert send(server) == Heard(503, "2", b"busy")
        assert [content(server), content(server)] == ["{oh", '{"n": 1}']


@pytest.mark.parametrize(("step", "problem"), [("extract", "used up"), ("reflect", "no reply for step 'reflect'")])
def test_a_script_without_a_reply_fails_when_the_block_ends(step: str, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem), ScriptedServer({"extract": []}) as server:
        assert send(server, step).status == 400


def test_a_script_that_raises_fails_when_the_block_ends() -> None:
    def broken(received: ReceivedRequest) -> JsonValue:
        raise ValueError(f"no idea about {received.step}")

    with pytest.raises(AssertionError, match="ValueError: no idea about extract"), ScriptedServer(broken) as server:
        send(server)


def test_faults_have_the_expected_http_responses() -> None:
    faults: list[Fault] = [EmptyBody(), HtmlPage(), CutOff(), Refusal("no"), NoUsage({"n": 1})]
    with ScriptedServer({"extract": faults}) as server:
        bodies = [send(server).body for _ in faults]
    assert bodies[0] == b""
    assert b"<html>" in bodies[1]
    assert b'"finish_reason": "length"' in bodies[2]
    assert b'"refusal": "no"' in bodies[3]
    assert b"usage" not in bodies[4]


def test_a_reset_closes_the_connection_but_not_the_server() -> None:
    with ScriptedServer({"extract": [ConnectionReset(), {"n": 1}]}) as server:
        with pytest.raises(ConnectionResetError):
            send(server)
        assert content(server) == '{"n": 1}'


@pytest.mark.parametrize("fault", [Hang(3600), Drip(3600)])
def test_the_block_ends_immediately_while_a_client_waits(fault: Fault) -> None:
    asked = threading.Event()

    def stuck(received: ReceivedRequest) -> Fault:
        asked.set()
        return fault

    with (
        ScriptedServer(stuck) as server,
        socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0)) as open_,
    ):
        open_.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert asked.wait(MAX_WAIT)


def events(server: ScriptedServer, *, counted: bool = False) -> list[dict[str, JsonValue]]:
    options: dict[str, JsonValue] = {"stream_options": {"include_usage": True}} if counted else {}
    *told, done, rest = send(server, more={"stream": True, **options}).body.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in told]


def test_a_streaming_request_is_answered_with_events_and_an_end_marker() -> None:
    with ScriptedServer({"extract": {"facts": ["a cat"]}}) as server:
        *told, last = events(server)
    choices = [cast("list[dict[str, JsonValue]]", event["choices"])[0] for event in told]
    deltas = [cast("dict[str, str]", choice["delta"])["content"] for choice in choices]
    assert deltas == ['{"fac', 'ts": ', '["a c', 'at"]}']
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert all(event["object"] == "chat.completion.chunk" and "usage" not in event for event in [*told, last])


def test_a_stream_reports_usage_only_if_requested() -> None:
    with ScriptedServer({"extract": ["{}", NoUsage("{}")]}) as server:
        assert events(server, counted=True)[-1]["usage"] == {
            "prompt_tokens": 5,
            "completion_tokens": 1,
            "total_tokens": 6,
        }
        assert not any("usage" in event for event in events(server, counted=True))


@pytest.mark.parametrize("more", [{}, {"stream": True}])
def test_a_dropped_connection_does_not_stop_the_server(more: dict[str, JsonValue]) -> None:
    with ScriptedServer({"extract": [ConnectionDropped("a cat sleeps"), {"n": 1}]}) as server:
        with pytest.raises(IncompleteRead) as caught:
            send(server, more=more)
        assert b"sleeps" not in caught.value.partial
        assert content(server) == '{"n": 1}'


def test_many_concurrent_requests_are_all_received() -> None:
    with ScriptedServer({"extract": {"n": 1}}) as server:
        threads = [threading.Thread(target=answer, args=(server,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.received) == 20


def test_fake_llm_follows_its_script_and_records_requests() -> None:
    llm = FakeLLM({"extract": [{"n": 1}, RawText("prose"), NoUsage({"n": 2})]}, name="mine")
    assert isinstance(llm, LLM)
    said = [asyncio.run(llm.complete(ASK)) for _ in range(3)]
    assert [one.text for one in said] == ['{"n": 1}', "prose", '{"n": 2}']
    assert said[0].usage == Usage(calls=1, input_tokens=5, output_tokens=2)
    assert said[2].usage == Usage(calls=1)
    assert (llm.name, llm.received[0].user, llm.received[0].schema) == ("mine", "I have a cat.", {"type": "object"})


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Hang(3600), LLMUnavailable),
        (ConnectionReset(), LLMUnavailable),
        (Drip(1), LLMUnavailable),
        (StatusResponse(503), LLMUnavailable),
        (StatusResponse(401), LLMDenied),
        (Refusal(), LLMRefused),
        (EmptyBody(), LLMUnavailable),
        (HtmlPage(), LLMUnavailable),
        (CutOff(), LLMUnusable),
        (ConnectionDropped("{}"), LLMUnavailable),
    ],
)
def test_fake_llm_raises_the_errors_of_faults(fault: Fault, error: type[LLMFailed]) -> None:
    llm = FakeLLM({"extract": {"n": 1}})
    llm.faults("extract", [fault])
    with pytest.raises(error, match="on purpose"):
        asyncio.run(llm.complete(ASK))
    assert asyncio.run(llm.complete(ASK)).text == '{"n": 1}'
    llm.faults("extract", [fault])
    with pytest.raises(error, match="on purpose"):
        listen(llm)


def listen(llm: StreamingLLM, heard: list[str | Completion] | None = None) -> list[str | Completion]:
    told = [] if heard is None else heard

    async def work() -> None:
        async for piece in llm.stream(ASK):
            told.append(piece)

    asyncio.run(work())
    return told


def test_fake_llm_streams_its_replies() -> None:
    llm = FakeLLM({"extract": [{"n": 123}, NoUsage("{}")]})
    assert isinstance(llm, StreamingLLM)
    spent = Usage(calls=1, input_tokens=5, output_tokens=2)
    assert listen(llm) == ['{"n":', " 123}", Completion(text='{"n": 123}', usage=spent)]
    assert listen(llm) == ["{}", Completion(text="{}", usage=Usage(calls=1))]
    assert [received.step for received in llm.received] == ["extract"] * 2


@pytest.mark.parametrize("fault", [ConnectionDropped("0123456789" * 2), CutOff("0123456789")])
def test_fake_llm_yields_the_first_deltas_before_a_fault(fault: Fault) -> None:
    heard: list[str | Completion] = []
    with pytest.raises(LLMFailed, match="on purpose"):
        listen(FakeLLM({"extract": [fault]}), heard)
    assert heard == ["01234", "56789"]
