"""Streamed reflections: events, errors, pings and disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from threading import Event

import pytest
from pydantic import JsonValue

from live_server import live_server
from max_wait import MAX_WAIT
from vmemo import Answer, LLMFailed, Memory, TextDelta
from vmemo.client import Client
from vmemo.ports import Completion, LLMRequest
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, StatusResponse

ANSWER: dict[str, JsonValue] = {
    "calls": [],
    "steps": [],
    "found": True,
    "text": "Ana has a grey cat.",
    "opinions": [],
    "revised": [],
}
EVENT_STREAM = {"Accept": "text/event-stream"}


def parse_events(text: str) -> list[tuple[str, object]]:
    """Return name and data of each event of a stream."""
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\r\n\r\n") if block]
    return [(block["event"], json.loads(block["data"])) for block in blocks]


def fill(database: str) -> None:
    with Memory(database, "a", embedder=HashEmbedder()) as memory:
        memory.retain_sync("I have a grey cat.", speaker="Ana")


class HangingLLM:
    """A model that never answers, and signals when a call is cancelled."""

    name = "hanging"

    def __init__(self) -> None:
        self.called, self.cancelled = Event(), Event()

    async def complete(self, request: LLMRequest) -> Completion:
        """Wait until the call is cancelled."""
        self.called.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError("unreachable")

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """Wait until the call is cancelled."""
        yield await self.complete(request)


def test_answer_is_streamed_as_events_and_ends_with_the_complete_answer(database: str) -> None:
    fill(database)
    with live_server(database, llm=FakeLLM({"reflect": [ANSWER] * 2})) as server, server.http() as client:
        response = client.post(
            "/v1/banks/a/reflect", json={"query": "What pet has Ana?", "max_lookups": 0}, headers=EVENT_STREAM
        )
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        events = parse_events(response.text)
        assert {name for name, _ in events[:-1]} <= {"delta", "lookup", "retracted"}
        assert events[-1][0] == "answer"
        assert Answer.model_validate(events[-1][1]).text.startswith("Ana has a grey cat.")


def test_failure_while_streaming_is_an_event_that_the_client_raises(database: str) -> None:
    fill(database)
    with live_server(database, llm=FakeLLM({"reflect": [StatusResponse(400)] * 4})) as server:
        with server.http() as client:
            response = client.post("/v1/banks/a/reflect", json={"query": "What pet has Ana?"}, headers=EVENT_STREAM)
            (name, problem) = parse_events(response.text)[-1]
            assert (response.status_code, name) == (200, "problem")
            assert isinstance(problem, dict)
            assert problem["type"] == "urn:vmemo:problem:LLMDenied"
        with Client(server.url, "a") as client, pytest.raises(LLMFailed, match="FakeLLM"):
            list(client.reflect_stream_sync("What pet has Ana?"))


def test_invalid_request_is_rejected_before_streaming_starts(database: str) -> None:
    fill(database)
    with live_server(database) as server, server.http() as client:
        for bank, body in (("a", {"query": ""}), ("a", {"query": "x", "max_lookups": 9}), ("b", {"query": "x"})):
            response = client.post(f"/v1/banks/{bank}/reflect", json=body, headers=EVENT_STREAM)
            assert response.status_code in (404, 422)


def test_disconnecting_cancels_the_model_call(database: str) -> None:
    fill(database)
    model = HangingLLM()
    with live_server(database, llm=model) as server, server.http() as client:
        body = {"query": "What pet has Ana?"}
        with client.stream("POST", "/v1/banks/a/reflect", json=body, headers=EVENT_STREAM) as response:
            assert response.status_code == 200
            assert model.called.wait(MAX_WAIT)
            assert not model.cancelled.is_set()
        assert model.cancelled.wait(MAX_WAIT)


def test_pings_keep_a_silent_connection_alive(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(database)
    monkeypatch.setattr("vmemo_server.routes.query.PING_SECONDS", 0.05)
    body = {"query": "What pet has Ana?"}
    with (
        live_server(database, llm=HangingLLM()) as server,
        server.http() as client,
        client.stream("POST", "/v1/banks/a/reflect", json=body, headers=EVENT_STREAM) as response,
    ):
        assert next(response.iter_lines()).startswith(": ping")


def test_client_can_close_the_stream_early(database: str) -> None:
    fill(database)

    async def read_first_event(url: str) -> None:
        async with Client(url, "a") as client:
            events = client.reflect_stream("What pet has Ana?", max_lookups=0)
            assert isinstance(await anext(events), TextDelta)
            await events.aclose()
            assert (await client.status()).messages == 1

    with live_server(database, llm=FakeLLM({"reflect": [ANSWER] * 3})) as server:
        asyncio.run(read_first_event(server.url))
