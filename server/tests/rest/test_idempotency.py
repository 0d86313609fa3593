"""Writes with an Idempotency-Key run once and return the stored response when repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx2

from live_server import LiveServer, live_server
from max_wait import MAX_WAIT
from vmemo.models.search import Vectors
from vmemo.ports import TextKind
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, StatusResponse

RETAIN = {"messages": [{"content": "I have a grey cat."}]}
KEY, OTHER_KEY = {"Idempotency-Key": "once"}, {"Idempotency-Key": "another"}


def contents(client: httpx2.Client) -> list[str]:
    return [message["content"] for message in client.get("/v1/banks/a/messages").json()["items"]]


def test_repeated_write_returns_the_stored_response_and_runs_once(server: LiveServer) -> None:
    with server.http() as client:
        first = client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY)
        again = client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY)
        assert (first.status_code, again.status_code) == (200, 200)
        assert first.content == again.content
        assert again.headers["idempotent-replayed"] == "true"
        assert "idempotent-replayed" not in first.headers
        assert contents(client) == ["I have a grey cat."]


def test_key_belongs_to_one_request(server: LiveServer) -> None:
    with server.http() as client:
        client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY)
        other = client.post("/v1/banks/a/messages", json={"messages": [{"content": "A dog."}]}, headers=KEY)
        other_bank = client.post("/v1/banks/b/messages", json=RETAIN, headers=KEY)
        assert (other.status_code, other_bank.status_code) == (422, 422)
        assert other.json()["type"] == "urn:vmemo:problem:IdempotencyKeyReused"
        assert contents(client) == ["I have a grey cat."]
        assert client.get("/v1/banks/b").status_code == 404


def test_idempotency_keys_of_two_api_keys_are_independent(keyed_server: LiveServer) -> None:
    for secret in (keyed_server.key("write"), keyed_server.key("write")):
        with keyed_server.http(secret) as client:
            assert "idempotent-replayed" not in client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY).headers


def test_failed_request_releases_its_key(server: LiveServer) -> None:
    with server.http() as client:
        wrong = client.post("/v1/banks/a/messages", json={"messages": [{"content": "x", "id": "\n"}]}, headers=KEY)
        assert wrong.status_code == 422
        assert client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY).status_code == 200


def test_forget_deletes_the_banks_stored_responses_but_not_its_own(server: LiveServer) -> None:
    with server.http() as client:
        client.post("/v1/banks/a/messages", json={"messages": [{"content": "A cat.", "id": "m"}]}, headers=KEY)
        forgotten = [
            client.post("/v1/banks/a/forget", json={"messages": ["m"]}, headers={"Idempotency-Key": "forget-1"})
            for _ in range(2)
        ]
        assert [response.json()["messages"] for response in forgotten] == [1, 1]
        again = client.post("/v1/banks/a/messages", json={"messages": [{"content": "A cat.", "id": "m"}]}, headers=KEY)
        assert "idempotent-replayed" not in again.headers
        assert again.json()["stored"] == ["m"]


def test_repeated_deletion_of_a_bank_returns_the_first_response(server: LiveServer) -> None:
    with server.http() as client:
        client.post("/v1/banks/a/messages", json=RETAIN)
        first, again = (client.delete("/v1/banks/a", headers=KEY) for _ in range(2))
        assert (first.status_code, first.json()["messages"]) == (200, 1)
        assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
        missing = [client.delete("/v1/banks/a", headers=headers).status_code for headers in ({}, OTHER_KEY)]
        assert missing == [404, 404]


def test_repeated_import_returns_the_first_response(server: LiveServer) -> None:
    lines = {**KEY, "Content-Type": "application/x-ndjson"}
    with server.http() as client:
        client.post("/v1/banks/a/messages", json=RETAIN)
        exported = client.get("/v1/banks/a/export").content
        first, again = (client.post("/v1/banks/b/import", content=exported, headers=lines) for _ in range(2))
        assert (first.status_code, first.json()["messages"]) == (200, 1)
        assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
        other = client.post("/v1/banks/b/import", content=exported + b"{}", headers=lines)
        assert (other.status_code, other.json()["type"]) == (422, "urn:vmemo:problem:IdempotencyKeyReused")


def test_repeated_creation_of_a_key_makes_one_and_returns_no_secret(keyed_server: LiveServer, database: str) -> None:
    with keyed_server.http(keyed_server.key()) as client:
        first, again = (client.post("/v1/keys", json={"name": "agent"}, headers=KEY) for _ in range(2))
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.json() == {"id": first.json()["id"], "secret": None}
        assert [key["name"] for key in client.get("/v1/keys").json()["items"]].count("agent") == 1
    with keyed_server.http(first.json()["secret"]) as client:
        assert client.get("/v1/banks").status_code == 200
    files = Path(database.removeprefix("sqlite:///")).parent.iterdir()
    assert not any(first.json()["secret"].encode() in file.read_bytes() for file in files)


def test_reflection_that_changes_nothing_is_not_stored_and_a_streamed_one_takes_no_key(server: LiveServer) -> None:
    question = {"query": "Which pet do I have?"}
    with server.http() as client:
        client.post("/v1/banks/a/messages", json=RETAIN)
        answers = [client.post("/v1/banks/a/reflect", json=question, headers=KEY) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert "idempotent-replayed" not in answers[1].headers
        streamed = client.post("/v1/banks/a/reflect", json=question, headers={**KEY, "Accept": "text/event-stream"})
        assert (streamed.status_code, streamed.json()["type"]) == (422, "urn:vmemo:problem:InvalidInput")


def test_retain_with_a_failing_model_reports_stored_messages_and_the_problem(database: str) -> None:
    with live_server(database, llm=FakeLLM({"extract": [StatusResponse(400)] * 9})) as server, server.http() as client:
        kept = client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY)
        assert kept.status_code == 202
        assert kept.json()["problem"]["type"] == "urn:vmemo:problem:LLMDenied"
        assert kept.json()["pending"] == 1
        assert client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY).content == kept.content
        assert contents(client) == ["I have a grey cat."]


class BlockingEmbedder(HashEmbedder):
    """An embedder that blocks on documents until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.released = Event(), Event()

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Embed after the release."""
        if kind == "document":
            self.started.set()
            await asyncio.to_thread(self.released.wait, 60)
        return await super().embed(texts, kind)


def test_paths_that_differ_in_an_encoded_slash_are_different_requests(server: LiveServer) -> None:
    with server.http() as client:
        client.put("/v1/banks/a", json={})
        assert client.put("/v1/banks/a%2Fprofile", json={"name": "Mira"}, headers=KEY).status_code == 200
        other = client.put("/v1/banks/a/profile", json={"name": "Mira"}, headers=KEY)
        assert (other.status_code, other.json()["type"]) == (422, "urn:vmemo:problem:IdempotencyKeyReused")
        assert client.get("/v1/banks/a/profile").json()["name"] == "assistant"


def test_repetition_of_a_running_request_is_rejected(database: str) -> None:
    embedder = BlockingEmbedder()
    with (
        live_server(database, embedder=embedder) as server,
        server.http() as client,
        ThreadPoolExecutor(1) as other,
    ):
        first = other.submit(client.post, "/v1/banks/a/messages", json=RETAIN, headers=KEY)
        assert embedder.started.wait(MAX_WAIT)
        repeated = client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY)
        embedder.released.set()
        assert (repeated.status_code, repeated.json()["type"]) == (409, "urn:vmemo:problem:RequestInProgress")
        assert first.result(MAX_WAIT).status_code == 200
        assert client.post("/v1/banks/a/messages", json=RETAIN, headers=KEY).headers["idempotent-replayed"] == "true"
