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
from vmemo.llm.openai import OpenAICompatible
from vmemo.llm.openai_request import strict
from vmemo.llm.resilient import Busy, Garbled
from vmemo.models.results import Usage
from vmemo.ports.providers import LLM, Completion, LLMRequest
from vmemo.testing.llm import CutOff, Drip, EmptyBody, Fault, Hang, Html, NoUsage, Raw, Refusal, Reset, Status
from vmemo.testing.llm_server import ScriptedServer

KEY = "sk-very-secret"
SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
}
ASK = LLMRequest(
    step="extract", system="Read this carefully.", user="I have a grey cat.", schema=SCHEMA, max_tokens=100
)
FACTS: JsonValue = {"facts": ["a grey cat"]}


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with ScriptedServer({"extract": FACTS}) as scripted:
        yield scripted


def made(server: ScriptedServer, timeout: float = 30.0, prices: tuple[float, float] | None = None) -> OpenAICompatible:
    return OpenAICompatible("small", base_url=server.url, api_key=KEY, timeout=timeout, prices=prices, trust_env=False)


def complete(llm: OpenAICompatible, times: int = 1) -> Completion:
    async def work() -> Completion:
        try:
            return [await llm.complete(ASK) for _ in range(times)][-1]
        finally:
            await llm.close()

    return asyncio.run(work())


def failure(server: ScriptedServer, fault: Fault, timeout: float = 30.0) -> LLMFailed:
    """The error, after a look for secrets in all that would be printed."""
    server.faults("extract", [fault])
    with pytest.raises(LLMFailed) as caught:
        complete(made(server, timeout))
    printed = "".join(traceback.format_exception(caught.value))
    assert not any(secret in printed for secret in (KEY, "grey cat", "Read this carefully."))
    assert "127.0.0.1" in str(caught.value)
    return caught.value


def test_an_answer_comes_with_what_it_cost(server: ScriptedServer) -> None:
    llm = made(server, prices=(1.0, 10.0))
    assert isinstance(llm, LLM)
    said = complete(llm)
    assert json.loads(said.text) == FACTS
    assert said.usage == Usage(calls=1, input_tokens=9, output_tokens=6, cost=69 / 1_000_000)


def test_a_question_carries_its_step_its_schema_and_the_key(server: ScriptedServer) -> None:
    complete(made(server))
    (seen,) = server.received
    assert (seen.step, seen.system, seen.user) == ("extract", "Read this carefully.", "I have a grey cat.")
    assert (seen.model, seen.headers["x-vmemo-step"]) == ("small", "extract")
    assert seen.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "extract", "schema": {**SCHEMA, "additionalProperties": False}, "strict": True},
    }
    assert (seen.body["max_tokens"], seen.body["temperature"]) == (100, 0.0)


def test_a_server_that_names_the_cost_is_believed(server: ScriptedServer) -> None:
    body: dict[str, JsonValue] = {"choices": [{"message": {"content": "{}"}}]}
    usage: JsonValue = {"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.5}
    server.faults("extract", [Status(200, json.dumps({**body, "usage": usage}))])
    assert complete(made(server, prices=(1, 1))).usage == Usage(calls=1, input_tokens=3, output_tokens=2, cost=0.5)


@pytest.mark.parametrize("usage", [None, {}, [], "many", {"prompt_tokens": -1}, {"prompt_tokens": "x"}, {"cost": None}])
def test_a_usage_that_is_missing_or_odd_counts_as_one_call(server: ScriptedServer, usage: JsonValue) -> None:
    body = json.dumps({"choices": [{"message": {"content": "{}"}}], "usage": usage})
    server.faults("extract", [Status(200, body), NoUsage({})])
    assert complete(made(server)).usage == complete(made(server)).usage == Usage(calls=1)


def test_text_in_parts_is_joined_and_thoughts_are_left_out(server: ScriptedServer) -> None:
    parts: JsonValue = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "{}"}]
    server.faults("extract", [Status(200, json.dumps({"choices": [{"message": {"content": parts}}]}))])
    assert complete(made(server)).text == "{}"


def shapes(server: ScriptedServer) -> list[str]:
    formats = [seen.body.get("response_format") for seen in server.received]
    return [str(one["type"]) if isinstance(one, dict) else "text" for one in formats]


@pytest.mark.parametrize("status", [400, 404, 415, 422])
def test_a_server_that_refuses_schemas_is_asked_more_plainly_and_remembered(
    server: ScriptedServer, status: int
) -> None:
    refused = Status(status, '{"error": {"message": "response_format of this type is unavailable"}}')
    server.faults("extract", [refused])
    assert json.loads(complete(made(server), times=2).text) == FACTS
    assert shapes(server) == ["json_schema", "json_object", "json_object"]
    assert '"facts"' in server.received[-1].system
    assert server.received[-1].system.startswith("Read this carefully.")


def test_a_server_that_refuses_json_is_asked_in_words(server: ScriptedServer) -> None:
    server.faults("extract", [Status(400, "json_schema?"), Status(422, "grammar?")])
    complete(made(server), times=2)
    assert shapes(server) == ["json_schema", "json_object", "text", "text"]
    assert '"facts"' in server.received[-1].system


def test_a_refused_temperature_is_left_out_from_then_on(server: ScriptedServer) -> None:
    server.faults("extract", [Status(400, "Unsupported value: 'temperature' does not support 0.0")])
    complete(made(server), times=2)
    assert ["temperature" in seen.body for seen in server.received] == [True, False, False]
    assert shapes(server) == ["json_schema"] * 3


def test_a_model_that_thinks_gets_the_newer_limit_and_room_for_it(server: ScriptedServer) -> None:
    server.faults("extract", [Status(400, "Unsupported 'max_tokens'. Use 'max_completion_tokens' instead.")])
    complete(made(server), times=2)
    assert ["max_tokens" in seen.body for seen in server.received] == [True, False, False]
    assert server.received[-1].body["max_completion_tokens"] == 100 + 8192


def test_a_complaint_that_never_ends_is_a_denial_and_teaches_nothing(server: ScriptedServer) -> None:
    server.faults("extract", [Status(400, "schema temperature max_completion_tokens")] * 5)
    llm = made(server)
    with pytest.raises(LLMDenied, match="status 400"):
        complete(llm)
    assert len(server.received) == 5
    complete(llm)
    assert shapes(server)[-1] == "json_schema"


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Status(500, "I have a grey cat."), LLMUnavailable, "status 500"),
        (Status(529), LLMUnavailable, "status 529"),
        (Status(408), LLMUnavailable, "status 408"),
        (Status(429), LLMUnavailable, "status 429"),
        (Reset(), LLMUnavailable, "broke the connection"),
        (Status(401, f"wrong key {KEY}"), LLMDenied, "check the API key"),
        (Status(403), LLMDenied, "status 403"),
        (Status(404), LLMDenied, "base URL and the model's name"),
        (Status(400, "I have a grey cat."), LLMDenied, "status 400"),
        (Status(413), LLMDenied, "too long"),
        (Status(307), LLMDenied, "a redirect, which is not followed"),
        (Refusal("No grey cat."), LLMRefused, "declined"),
        (CutOff(), LLMUnusable, "cut off at 100 tokens"),
        (EmptyBody(), Garbled, "something else than a chat completion"),
        (Html(), Garbled, "something else than a chat completion"),
        (Raw(""), Garbled, "empty answer"),
        (Raw("  \n"), Garbled, "empty answer"),
        (Status(204), Garbled, "status 204"),
        (Status(200, '{"choices": [], "x": "grey cat"}'), Garbled, "choices is wrong"),
        (Status(200, '{"choices": "grey cat"}'), Garbled, "choices is wrong"),
        (Status(200, '{"error": "grey cat"}'), Garbled, "choices is wrong"),
        (Status(200, "[1"), Garbled, "the body is wrong"),
        (Status(200, '{"choices": [{"finish_reason": "content_filter", "message": {}}]}'), LLMRefused, "declined"),
        (Status(200, " " * (9 * 1024 * 1024)), LLMUnusable, "more than 8388608 bytes"),
    ],
)
def test_each_fault_is_one_of_our_errors(
    server: ScriptedServer, fault: Fault, error: type[LLMFailed], words: str
) -> None:
    caught = failure(server, fault)
    assert isinstance(caught, error)
    assert words in str(caught)
    assert len(server.received) == 1


@pytest.mark.parametrize("fault", [Hang(3600), Drip(0.001)])
def test_silence_and_a_trickle_end_at_the_deadline(server: ScriptedServer, fault: Fault) -> None:
    assert "no whole answer within 0.2 seconds" in str(failure(server, fault, timeout=0.2))


@pytest.mark.parametrize("status", [429, 503])
def test_a_wish_to_wait_is_carried_in_seconds(server: ScriptedServer, status: int) -> None:
    caught = failure(server, Status(status, retry_after=2.5))
    assert isinstance(caught, Busy)
    assert caught.retry_after == 2.5


def test_a_wish_to_wait_until_a_date_is_carried_in_seconds(server: ScriptedServer) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    caught = failure(server, Status(429, retry_after=format_datetime(moment, usegmt=True)))
    assert isinstance(caught, Busy)
    assert caught.retry_after == pytest.approx(3600, abs=60)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("Sun, 06 Nov 1994 08:49:37 GMT", 0.0), ("soon", None), ("-5", None), ("1e9", None), ("", None)],
)
def test_a_wish_that_is_past_or_no_time_is_none(server: ScriptedServer, text: str, seconds: float | None) -> None:
    caught = failure(server, Status(429, retry_after=text))
    assert isinstance(caught, Busy)
    assert caught.retry_after == seconds


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LLMUnavailable, match=f"at 127.0.0.1:{port} can't be reached"):
        complete(OpenAICompatible("m", base_url=f"http://127.0.0.1:{port}/v1", trust_env=False))


def test_half_a_surrogate_pair_and_an_odd_step_are_no_failure(server: ScriptedServer) -> None:
    server.faults("ex_tr", [Raw("{}")])
    ask = LLMRequest(step="ex tr", system="\ud83d", user="é", schema={})

    async def work() -> Completion:
        llm = made(server)
        try:
            return await llm.complete(ask)
        finally:
            await llm.close()

    assert asyncio.run(work()).text == "{}"
    assert (server.received[0].system, server.received[0].user) == ("?", "é")


def test_event_loops_share_one_model_and_one_of_them_closes_all(server: ScriptedServer) -> None:
    llm = made(server)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(llm.complete(ASK), loop).result()
    complete(llm)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    complete(llm)
    assert len(server.received) == 3


def test_neither_the_key_nor_the_address_with_it_is_shown(server: ScriptedServer) -> None:
    llm = made(server)
    assert KEY not in repr(llm) + str(vars(llm).get("_url"))
    assert llm.name == "small"
    assert OpenAICompatible("small", base_url=server.url, name="openai:small").name == "openai:small"


@pytest.mark.parametrize(
    "url", ["", "host/v1", "ftp://host", "https://", "https://h:0/", f"https://u:{KEY}@h/", "http://a b"]
)
def test_a_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="The model's base URL") as caught:
        OpenAICompatible("m", base_url=url)
    assert KEY not in str(caught.value)


def test_a_key_or_a_timeout_that_can_not_be_is_refused() -> None:
    with pytest.raises(InvalidInput, match="API key") as caught:
        OpenAICompatible("m", base_url="http://host/v1", api_key=KEY + "\n")
    assert KEY not in str(caught.value)
    with pytest.raises(InvalidInput, match="timeout is"):
        OpenAICompatible("m", base_url="http://host/v1", timeout=0)


class Place(BaseModel):
    city: str
    country: str | None = None


class Person(BaseModel):
    name: str
    age: int = 0
    home: Place | None = None
    born: Place = Place(city="?")
    seen: list[Place] = []


def test_a_strict_schema_names_every_property_and_lets_optional_ones_be_null() -> None:
    schema = strict(Person.model_json_schema())
    assert schema["required"] == ["name", "age", "home", "born", "seen"]
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


def test_a_strict_schema_keeps_a_property_that_is_called_default_and_free_keys() -> None:
    free: JsonValue = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = strict({"type": "object", "properties": {"default": {"type": "string"}, "any": free}, "required": ["any"]})
    assert schema["properties"] == {"default": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "any": free}
