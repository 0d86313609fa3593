"""Searches of several banks over HTTP: permissions for each bank, errors, and both clients' requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live_server import LiveServer, live_server
from vmemo.client import Client
from vmemo.errors import NotFound
from vmemo_conformance.embedders import HashEmbedder

QUESTION = "Who hid the map, and who the compass?"
VERBS = ("recall", "retrieve", "context")


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server(":memory:", keyless=False, embedder=HashEmbedder()) as running:
        running.memory.bank("bob").retain_sync("Bob hid the map in Zanzibar.")
        running.memory.bank("alice").retain_sync("Alice hid the compass in the cellar.")
        yield running


def test_a_client_searches_several_banks(server: LiveServer) -> None:
    with Client(server.url, "alice", key=server.key("read", "alice", "bob")) as client:
        found = client.recall_sync(QUESTION, banks=["bob", "alice"])
        assert found.banks == ("bob", "alice")
        assert {hit.bank for hit in found.hits} == {"bob", "alice"}
        assert "(bank bob) " in found.to_prompt()
        assert len(client.retrieve_sync(QUESTION, top_k=1, banks=["bob", "alice"]).hits) == 1
        assert "Zanzibar" in client.context_sync(QUESTION, banks=["alice", "bob"]).text


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("banks", [["bob", "alice"], ["alice", "bob"], ["bob"]])
def test_a_key_that_lacks_a_bank_gets_an_error_and_nothing_else(
    server: LiveServer, verb: str, banks: list[str]
) -> None:
    with server.http(server.key("read", "alice")) as http:
        denied = http.post(f"/v1/banks/alice/{verb}", json={"query": QUESTION, "banks": banks})
        missing = http.post(f"/v1/banks/alice/{verb}", json={"query": QUESTION, "banks": ["nobody"]})
    assert denied.status_code == 403
    assert denied.json()["detail"] == missing.json()["detail"], "reveals if a bank exists"
    assert "Zanzibar" not in denied.text


@pytest.mark.parametrize("verb", VERBS)
def test_a_bank_that_is_missing_is_an_error_and_is_not_created(server: LiveServer, verb: str) -> None:
    with server.http(server.key("admin")) as http:
        missing = http.post(f"/v1/banks/alice/{verb}", json={"query": QUESTION, "banks": ["alice", "nobody"]})
        assert missing.status_code == 404
        assert "nobody" not in http.get("/v1/banks").text


def test_a_client_gets_the_errors_of_the_library(server: LiveServer) -> None:
    with Client(server.url, "alice", key=server.key("read")) as client, pytest.raises(NotFound, match="nobody"):
        client.recall_sync(QUESTION, banks=["alice", "nobody"])
