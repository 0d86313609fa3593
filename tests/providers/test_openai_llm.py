"""Models behind OpenAI's protocol, against a scripted server on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import traceback
from collections.abc import Generator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import BaseModel, JsonValue

from vmemo.errors import InvalidInput, LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.llm.openai import OpenAICompatible, strict_schema
from vmemo.models.results import Usage
from vmemo.ports import LLM, Completion, LLMRequest
from vmemo_conformance.fake_llm import (
    ConnectionReset,
    CutOff,
    Drip,
    EmptyBody,
    Fault,
    Hang,
    HtmlPage,
    NoUsage,
    RawText,
    Refusal,
    StatusResponse,
)
from vmemo_conformance.llm_server import ScriptedServer

KEY = "sk-very-secret"
SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
}
REQUEST = LLMRequest(
    step="extract", system="Read this carefully.", user="I have a grey cat.", schema=SCHEMA, max_tokens=100
)
FACTS: JsonValue = {"facts": ["a grey cat"]}


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with ScriptedServer({"extract": FACTS}) as scripted:
        yield scripted


def openai_llm(
    server: ScriptedServer, timeout: float = 30.0, prices: tuple[float, float] | None = None
) -> OpenAICompatible:
    return OpenAICompatible("small", base_url=server.url, api_key=KEY, timeout=timeout, prices=prices, trust_env=False)


def complete(llm: OpenAICompatible, times: int = 1) -> Completion:
    async def work() -> Completion:
        try:
            return [await llm.complete(REQUEST) for _ in range(times)][-1]
        finally:
            await llm.close()

    return asyncio.run(work())


def failure(server: ScriptedServer, fault: Fault, timeout: float = 30.0) -> LLMFailed:
    """The error, after a look for secrets in all that would be printed."""
    server.faults("extract", [fault])
    with pytest.raises(LLMFailed) as caught:
        complete(openai_llm(server, timeout))
    printed = "".join(traceback.format_exception(caught.value))
    assert not any(secret in printed for secret in (KEY, "grey cat", "Read this carefully."))
    assert "127.0.0.1" in str(caught.value)
    return caught.value


def test_an_answer_has_usage_and_cost(server: ScriptedServer) -> None:
    llm = openai_llm(server, prices=(1.0, 10.0))
    assert isinstance(llm, LLM)
    completion = complete(llm)
    assert json.loads(completion.text) == FACTS
    assert completion.usage == Usage(calls=1, input_tokens=9, output_tokens=6, cost=69 / 1_000_000)


def test_a_request_contains_its_step_its_schema_and_the_key(server: ScriptedServer) -> None:
    complete(openai_llm(server))
    (received,) = server.received
    assert (received.step, received.system, received.user) == ("extract", "Read this carefully.", "I have a grey cat.")
    assert (received.model, received.headers["x-vmemo-step"]) == ("small", "extract")
    assert received.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "extract", "schema": {**SCHEMA, "additionalProperties": False}, "strict": True},
    }
    assert (received.body["max_tokens"], received.body["temperature"]) == (100, 0.0)


def test_a_cost_reported_by_the_server_is_used(server: ScriptedServer) -> None:
    body: dict[str, JsonValue] = {"choices": [{"message": {"content": "{}"}}]}
    usage: JsonValue = {"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.5}
    server.faults("extract", [StatusResponse(200, json.dumps({**body, "usage": usage}))])
    assert complete(openai_llm(server, prices=(1, 1))).usage == Usage(
        calls=1, input_tokens=3, output_tokens=2, cost=0.5
    )


@pytest.mark.parametrize("usage", [None, {}, [], "many", {"prompt_tokens": -1}, {"prompt_tokens": "x"}, {"cost": None}])
def test_missing_or_invalid_usage_counts_as_one_call(server: ScriptedServer, usage: JsonValue) -> None:
    body = json.dumps({"choices": [{"message": {"content": "{}"}}], "usage": usage})
    server.faults("extract", [StatusResponse(200, body), NoUsage({})])
    assert complete(openai_llm(server)).usage == complete(openai_llm(server)).usage == Usage(calls=1)


def test_content_parts_are_joined_and_reasoning_is_left_out(server: ScriptedServer) -> None:
    parts: JsonValue = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "{}"}]
    server.faults("extract", [StatusResponse(200, json.dumps({"choices": [{"message": {"content": parts}}]}))])
    assert complete(openai_llm(server)).text == "{}"


def response_formats(server: ScriptedServer) -> list[str]:
    formats = [received.body.get("response_format") for received in server.received]
    return [str(one["type"]) if isinstance(one, dict) else "text" for one in formats]


@pytest.mark.parametrize("status", [400, 404, 415, 422])
def test_a_rejected_schema_is_left_out_from_then_on(server: ScriptedServer, status: int) -> None:
    refused = StatusResponse(status, '{"error": {"message": "response_format of this type is unavailable"}}')
    server.faults("extract", [refused])
    assert json.loads(complete(openai_llm(server), times=2).text) == FACTS
    assert response_formats(server) == ["json_schema", "json_object", "json_object"]
    assert '"facts"' in server.received[-1].system
    assert server.received[-1].system.startswith("Read this carefully.")


def test_a_rejected_json_format_moves_the_schema_into_the_prompt(server: ScriptedServer) -> None:
    server.faults("extract", [StatusResponse(400, "json_schema?"), StatusResponse(422, "grammar?")])
    complete(openai_llm(server), times=2)
    assert response_formats(server) == ["json_schema", "json_object", "text", "text"]
    assert '"facts"' in server.received[-1].system


def test_a_rejected_temperature_is_left_out_from_then_on(server: ScriptedServer) -> None:
    server.faults("extract", [StatusResponse(400, "Unsupported value: 'temperature' does not support 0.0")])
    complete(openai_llm(server), times=2)
    assert ["temperature" in received.body for received in server.received] == [True, False, False]
    assert response_formats(server) == ["json_schema"] * 3


def test_a_reasoning_model_gets_the_newer_limit_with_reasoning_tokens(server: ScriptedServer) -> None:
    server.faults("extract", [StatusResponse(400, "Unsupported 'max_tokens'. Use 'max_completion_tokens' instead.")])
    complete(openai_llm(server), times=2)
    assert ["max_tokens" in received.body for received in server.received] == [True, False, False]
    assert server.received[-1].body["max_completion_tokens"] == 100 + 8192


def test_a_persistent_rejection_is_a_denial_and_is_not_remembered(server: ScriptedServer) -> None:
    server.faults("extract", [StatusResponse(400, "schema temperature max_completion_tokens")] * 5)
    llm = openai_llm(server)
    with pytest.raises(LLMDenied, match="status 400"):
        complete(llm)
    assert len(server.received) == 5
    complete(llm)
    assert response_formats(server)[-1] == "json_schema"


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (StatusResponse(500, "I have a grey cat."), LLMUnavailable, "status 500"),
        (StatusResponse(529), LLMUnavailable, "status 529"),
        (StatusResponse(408), LLMUnavailable, "status 408"),
        (StatusResponse(429), LLMUnavailable, "status 429"),
        (ConnectionReset(), LLMUnavailable, "broke the connection"),
        (StatusResponse(401, f"wrong key {KEY}"), LLMDenied, "check the API key"),
        (StatusResponse(403), LLMDenied, "status 403"),
        (StatusResponse(404), LLMDenied, "base URL and the model's name"),
        (StatusResponse(400, "I have a grey cat."), LLMDenied, "status 400"),
        (StatusResponse(413), LLMDenied, "too long"),
        (StatusResponse(307), LLMDenied, "a redirect, which is not followed"),
        (Refusal("No grey cat."), LLMRefused, "declined"),
        (CutOff(), LLMUnusable, "cut off at 100 tokens"),
        (EmptyBody(), LLMUnavailable, "something other than a chat completion"),
        (HtmlPage(), LLMUnavailable, "something other than a chat completion"),
        (RawText(""), LLMUnavailable, "empty answer"),
        (RawText("  \n"), LLMUnavailable, "empty answer"),
        (StatusResponse(204), LLMUnavailable, "status 204"),
        (StatusResponse(200, '{"choices": [], "x": "grey cat"}'), LLMUnavailable, "choices is invalid"),
        (StatusResponse(200, '{"choices": "grey cat"}'), LLMUnavailable, "choices is invalid"),
        (StatusResponse(200, '{"error": "grey cat"}'), LLMUnavailable, "choices is invalid"),
        (StatusResponse(200, "[1"), LLMUnavailable, "the body is invalid"),
        (
            StatusResponse(200, '{"choices": [{"finish_reason": "content_filter", "message": {}}]}'),
            LLMRefused,
            "declined",
        ),
        (StatusResponse(200, " " * (9 * 1024 * 1024)), LLMUnusable, "more than 8388608 bytes"),
    ],
)
def test_each_fault_maps_to_an_llm_error(
    server: ScriptedServer, fault: Fault, error: type[LLMFailed], words: str
) -> None:
    caught = failure(server, fault)
    assert isinstance(caught, error)
    assert words in str(caught)
    assert len(server.received) == 1


@pytest.mark.parametrize("fault", [Hang(3600), Drip(0.001)])
def test_silent_and_slow_responses_end_at_the_deadline(server: ScriptedServer, fault: Fault) -> None:
    assert "did not finish its answer within 0.2 seconds" in str(failure(server, fault, timeout=0.2))


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_seconds_are_reported(server: ScriptedServer, status: int) -> None:
    caught = failure(server, StatusResponse(status, retry_after=2.5))
    assert isinstance(caught, LLMUnavailable)
    assert caught.retry_after == 2.5


def test_a_retry_after_date_is_reported_in_seconds(server: ScriptedServer) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    caught = failure(server, StatusResponse(429, retry_after=format_datetime(moment, usegmt=True)))
    assert isinstance(caught, LLMUnavailable)
    assert caught.retry_after == pytest.approx(3600, abs=60)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("Sun, 06 Nov 1994 08:49:37 GMT", 0.0), ("soon", None), ("-5", None), ("1e9", None), ("", None)],
)
def test_past_and_invalid_retry_after_values(server: ScriptedServer, text: str, seconds: float | None) -> None:
    caught = failure(server, StatusResponse(429, retry_after=text))
    assert isinstance(caught, LLMUnavailable)
    assert caught.retry_after == seconds


def test_an_unreachable_server_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LLMUnavailable, match=f"at 127.0.0.1:{port} can't be reached"):
        complete(OpenAICompatible("m", base_url=f"http://127.0.0.1:{port}/v1", trust_env=False))


def test_lone_surrogates_and_unusual_step_names_are_accepted(server: ScriptedServer) -> None:
    server.faults("ex_tr", [RawText("{}")])
    ask = LLMRequest(step="ex tr", system="\ud83d", user="é", schema={})

    async def work() -> Completion:
        llm = openai_llm(server)
        try:
            return await llm.complete(ask)
        finally:
            await llm.close()

    assert asyncio.run(work()).text == "{}"
    assert (server.received[0].system, server.received[0].user) == ("?", "é")


def test_event_loops_share_one_model_and_close_reaches_all(server: ScriptedServer) -> None:
    llm = openai_llm(server)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(llm.complete(REQUEST), loop).result()
    complete(llm)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    complete(llm)
    assert len(server.received) == 3


def test_the_key_is_not_shown(server: ScriptedServer) -> None:
    llm = openai_llm(server)
    assert KEY not in repr(llm) + str(vars(llm).get("_url"))
    assert llm.name == "small"
    assert OpenAICompatible("small", base_url=server.url, name="openai:small").name == "openai:small"


@pytest.mark.parametrize(
    "url", ["", "host/v1", "ftp://host", "https://", "https://h:0/", f"https://u:{KEY}@h/", "http://a b"]
)
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput, match="The model's base URL") as caught:
        OpenAICompatible("m", base_url=url)
    assert KEY not in str(caught.value)


def test_an_invalid_key_or_timeout_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="API key") as caught:
        OpenAICompatible("m", base_url="http://host/v1", api_key=KEY + "\n")
    assert KEY not in str(caught.value)
    with pytest.raises(InvalidInput, match="timeout must be"):
        OpenAICompatible("m", base_url="http://host/v1", timeout=0)


class Place(BaseModel):
    city: str
    country: str | None = None


class Person(BaseModel):
    name: str
    age: int = 0
    home: Place | None = None
    born: Place = Place(city="?")
    received: list[Place] = []


def test_a_strict_schema_requires_every_property_and_makes_optional_ones_nullable() -> None:
    schema = strict_schema(Person.model_json_schema())
    assert schema["required"] == ["name", "age", "home", "born", "received"]
    assert schema["additionalProperties"] is False
    assert "default" not in json.dumps(schema)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert properties["age"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert properties["home"] == {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]}
    assert properties["born"] == {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]}
    places = schema["$defs"]
    assert isinstance(places, dict)
    assert isinstance(places["Place"], dict)
    assert places["Place"]["required"] == ["city", "country"]
    assert places["Place"]["additionalProperties"] is False


def test_a_strict_schema_keeps_a_property_named_default_and_free_keys() -> None:
    free: JsonValue = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = strict_schema(
        {"type": "object", "properties": {"default": {"type": "string"}, "any": free}, "required": ["any"]}
    )
    assert schema["properties"] == {"default": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "any": free}
