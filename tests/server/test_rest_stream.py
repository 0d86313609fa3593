"""A reflection is told piece by piece, and ends when nobody listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from threading import Event

import pytest
from pydantic import JsonValue

from live_server import live_server
from vmemo import Answer, LLMFailed, Memory, TextDelta
from vmemo.client import Client
from vmemo.ports import Completion, LLMRequest
from vmemo.testing import FakeLLM, HashEmbedder, StatusResponse

SAYS: dict[str, JsonValue] = {
    "look_for": [],
    "steps": [],
    "found": True,
    "text": "Ana has a grey cat.",
    "opinions": [],
    "revised": [],
}
STREAM = {"Accept": "text/event-stream"}


def told(text: str) -> list[tuple[str, object]]:
    """The events of a stream by name and data."""
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\r\n\r\n") if block]
    return [(block["event"], json.loads(block["data"])) for block in blocks]


def filled(database: str) -> None:
    with Memory(database, "a", embedder=HashEmbedder()) as memory:
        memory.retain_sync("I have a grey cat.", speaker="Ana")


class Hanging:
    """A model that never answers, and notes when it is no longer asked."""

    name = "hanging"

    def __init__(self) -> None:
        self.asked, self.left = Event(), Event()

    async def complete(self, request: LLMRequest) -> Completion:
        """Never an answer."""
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError("unreachable")

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """Never a word."""
        yield await self.complete(request)


def test_an_answer_comes_in_events_with_the_whole_as_the_last(database: str) -> None:
    filled(database)
    with live_server(database, llm=FakeLLM({"reflect": [SAYS] * 2})) as server, server.http() as client:
        body = {"query": "What pet has Ana?", "max_lookups": 0}
        answer = client.post("/v1/banks/a/reflect", json=body, headers=STREAM)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        events = told(answer.text)
        assert {name for name, _ in events[:-1]} <= {"delta", "lookup", "retracted"}
        assert events[-1][0] == "answer"
        assert Answer.model_validate(events[-1][1]).text.startswith("Ana has a grey cat.")


def test_a_failure_on_the_way_is_told_as_an_event_and_raised_by_the_client(database: str) -> None:
    filled(database)
    with live_server(database, llm=FakeLLM({"reflect": [StatusResponse(400)] * 4})) as server:
        with server.http() as client:
            answer = client.post("/v1/banks/a/reflect", json={"query": "What pet has Ana?"}, headers=STREAM)
            (name, problem) = told(answer.text)[-1]
            assert (answer.status_code, name) == (200, "problem")
            assert isinstance(problem, dict)
            assert problem["type"] == "urn:vmemo:problem:LLMDenied"
        with Client(server.url, "a") as client, pytest.raises(LLMFailed, match="fake"):
            list(client.reflect_stream_sync("What pet has Ana?"))


def test_a_mistake_is_told_by_the_status_before_anything_streams(database: str) -> None:
    filled(database)
    with live_server(database) as server, server.http() as client:
        for bank, body in (("a", {"query": ""}), ("a", {"query": "x", "max_lookups": 9}), ("b", {"query": "x"})):
            answer = client.post(f"/v1/banks/{bank}/reflect", json=body, headers=STREAM)
            assert answer.status_code in (404, 422)


def test_whoever_leaves_ends_the_work(database: str) -> None:
    filled(database)
    model = Hanging()
    with live_server(database, llm=model) as server, server.http() as client:
        body = {"query": "What pet has Ana?"}
        with client.stream("POST", "/v1/banks/a/reflect", json=body, headers=STREAM) as answer:
            assert answer.status_code == 200
            assert model.asked.wait(60)
            assert not model.left.is_set()
        assert model.left.wait(60)


def test_silence_is_broken_so_that_a_connection_is_not_taken_for_dead(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(database)
    monkeypatch.setattr("vmemo.server.routes.query.PING_SECONDS", 0.05)
    body = {"query": "What pet has Ana?"}
    with (
        live_server(database, llm=Hanging()) as server,
        server.http() as client,
        client.stream("POST", "/v1/banks/a/reflect", json=body, headers=STREAM) as answer,
    ):
        assert next(answer.iter_lines()).startswith(": ping")


def test_a_client_that_stops_listening_closes_the_stream(database: str) -> None:
    filled(database)

    async def listen(url: str) -> None:
        async with Client(url, "a") as client:
            events = client.reflect_stream("What pet has Ana?", max_lookups=0)
            assert isinstance(await anext(events), TextDelta)
            await events.aclose()
            assert (await client.status()).messages == 1

    with live_server(database, llm=FakeLLM({"reflect": [SAYS] * 3})) as server:
        asyncio.run(listen(server.url))
