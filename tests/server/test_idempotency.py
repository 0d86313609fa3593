"""A write with an Idempotency-Key is done once, and its answer can be had again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx2

from live_server import LiveServer, live_server
from vmemo.models.search import Vectors
from vmemo.ports import TextKind
from vmemo.testing import FakeLLM, HashEmbedder, StatusResponse

KEPT = {"messages": [{"content": "I have a grey cat."}]}
ONCE = {"Idempotency-Key": "once"}


def said(client: httpx2.Client) -> list[str]:
    return [message["content"] for message in client.get("/v1/banks/a/messages").json()["items"]]


def test_a_repeated_write_is_answered_as_before_and_not_done_again(server: LiveServer) -> None:
    with server.http() as client:
        first = client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE)
        again = client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE)
        assert (first.status_code, again.status_code) == (200, 200)
        assert first.content == again.content
        assert again.headers["idempotent-replayed"] == "true"
        assert "idempotent-replayed" not in first.headers
        assert said(client) == ["I have a grey cat."]


def test_a_token_is_for_one_request_only(server: LiveServer) -> None:
    with server.http() as client:
        client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE)
        other = client.post("/v1/banks/a/messages", json={"messages": [{"content": "A dog."}]}, headers=ONCE)
        elsewhere = client.post("/v1/banks/b/messages", json=KEPT, headers=ONCE)
        assert (other.status_code, elsewhere.status_code) == (422, 422)
        assert other.json()["type"] == "urn:vmemo:problem:IdempotencyKeyReused"
        assert said(client) == ["I have a grey cat."]
        assert client.get("/v1/banks/b").status_code == 404


def test_a_token_belongs_to_a_key(keyed_server: LiveServer) -> None:
    for secret in (keyed_server.key("write"), keyed_server.key("write")):
        with keyed_server.http(secret) as client:
            assert "idempotent-replayed" not in client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE).headers


def test_a_request_that_changed_nothing_frees_its_token(server: LiveServer) -> None:
    with server.http() as client:
        wrong = client.post("/v1/banks/a/messages", json={"messages": [{"content": "x", "id": "\n"}]}, headers=ONCE)
        assert wrong.status_code == 422
        assert client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE).status_code == 200


def test_forgetting_is_answered_again_and_takes_other_answers_with_it(server: LiveServer) -> None:
    with server.http() as client:
        client.post("/v1/banks/a/messages", json={"messages": [{"content": "A cat.", "id": "m"}]}, headers=ONCE)
        gone = [
            client.post("/v1/banks/a/forget", json={"messages": ["m"]}, headers={"Idempotency-Key": "gone"})
            for _ in range(2)
        ]
        assert [answer.json()["messages"] for answer in gone] == [1, 1]
        again = client.post("/v1/banks/a/messages", json={"messages": [{"content": "A cat.", "id": "m"}]}, headers=ONCE)
        assert "idempotent-replayed" not in again.headers
        assert again.json()["stored"] == ["m"]


def test_stored_messages_that_a_model_could_not_read_are_told_with_the_reason(database: str) -> None:
    with live_server(database, llm=FakeLLM({"extract": [StatusResponse(400)] * 9})) as server, server.http() as client:
        kept = client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE)
        assert kept.status_code == 202
        assert kept.json()["problem"]["type"] == "urn:vmemo:problem:LLMDenied"
        assert kept.json()["pending"] == 1
        assert client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE).content == kept.content
        assert said(client) == ["I have a grey cat."]


class Waiting(HashEmbedder):
    """An embedder that embeds no document before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may = Event(), Event()

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Wait, then embed."""
        if kind == "document":
            self.begun.set()
            await asyncio.to_thread(self.may.wait, 60)
        return await super().embed(texts, kind)


def test_a_repetition_that_comes_too_early_is_told_so(database: str) -> None:
    embedder = Waiting()
    with (
        live_server(database, embedder=embedder) as server,
        server.http() as client,
        ThreadPoolExecutor(1) as other,
    ):
        first = other.submit(client.post, "/v1/banks/a/messages", json=KEPT, headers=ONCE)
        assert embedder.begun.wait(60)
        early = client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE)
        embedder.may.set()
        assert (early.status_code, early.json()["type"]) == (409, "urn:vmemo:problem:RequestInProgress")
        assert first.result(60).status_code == 200
        assert client.post("/v1/banks/a/messages", json=KEPT, headers=ONCE).headers["idempotent-replayed"] == "true"
