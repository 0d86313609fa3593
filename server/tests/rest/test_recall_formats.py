"""Formats of recalls and contexts over HTTP: all fields, lean fields, and text for a prompt."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from live_server import LiveServer, live_server
from vmemo import PromptContext, Recalled
from vmemo.embedding.token_counter import count_tokens

ROUTES = {"recall": {"query": "Where does Ana live?", "max_tokens": 80}, "retrieve": {"query": "Lisbon", "top_k": 2}}
CONTEXT = {"query": "Where does Ana live?", "max_tokens": 200}
SAID = ["I moved to Lisbon with Ben.", "Always answer in French.", "Ruth likes tea with Ana."]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(f"sqlite:///{tmp_path_factory.mktemp('formats') / 'memory.db'}") as server:
        with server.http() as client:
            messages = [{"content": text, "speaker": "Ana", "timestamp": "2024-05-06T12:00Z"} for text in SAID]
            client.post("/v1/banks/a/messages", json={"messages": messages}).raise_for_status()
        yield server


@pytest.fixture
def client(shared: LiveServer) -> Iterator[httpx2.Client]:
    with shared.http() as client:
        yield client


@pytest.mark.parametrize("name", ROUTES)
def test_a_prompt_is_plain_text(client: httpx2.Client, name: str) -> None:
    path = f"/v1/banks/a/{name}"
    by_format = client.post(f"{path}?format=prompt", json=ROUTES[name])
    by_accept = client.post(path, json=ROUTES[name], headers={"Accept": "text/plain"})
    assert by_format.headers["content-type"] == "text/plain; charset=utf-8"
    assert by_format.text == by_accept.text
    assert "Ana: I moved to Lisbon with Ben." in by_format.text
    assert name == "retrieve" or count_tokens(by_format.text) <= 80


@pytest.mark.parametrize("accept", ["*/*", "application/json, text/plain, */*", "application/json"])
def test_json_is_the_default_also_for_clients_that_accept_both(client: httpx2.Client, accept: str) -> None:
    response = client.post("/v1/banks/a/recall", json=ROUTES["recall"], headers={"Accept": accept})
    assert response.headers["content-type"] == "application/json"
    assert response.json()["hits"][0]["channels"]


def test_lean_facts_are_small_and_have_the_same_meaning(client: httpx2.Client) -> None:
    full, lean = (
        client.post(f"/v1/banks/a/recall?format={format}", json=ROUTES["recall"]) for format in ("full", "lean")
    )
    facts = len(full.json()["hits"]) + len(full.json()["instructions"])
    assert facts
    assert len(lean.content) < 450 * facts
    assert 2 * len(lean.content) < len(full.content)
    parsed, whole = Recalled.model_validate_json(lean.content), Recalled.model_validate_json(full.content)
    assert [(hit.id, hit.text, hit.score, hit.status) for hit in parsed.hits] == [
        (hit.id, hit.text, hit.score, hit.status) for hit in whole.hits
    ]
    assert [fact.text for fact in parsed.instructions] == ["Ana: Always answer in French."]
    assert parsed.hits[0].fact.entities == whole.hits[0].fact.entities


def test_a_context_has_the_same_formats(client: httpx2.Client) -> None:
    full, lean, prompt = (
        client.post(f"/v1/banks/a/context?format={format}", json=CONTEXT) for format in ("full", "lean", "prompt")
    )
    context = PromptContext.model_validate_json(full.content)
    assert context.text == prompt.text == PromptContext.model_validate_json(lean.content).text
    assert context.user == "Ana"
    assert len(lean.content) < len(full.content)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/banks/a/recall?format=xml", ROUTES["recall"], 422),
        ("/v1/banks/a/context", {"max_tokens": 0}, 422),
        ("/v1/banks/a/context", {"tags": ["x"]}, 422),
        ("/v1/banks/missing/context", {}, 404),
    ],
)
def test_invalid_requests_are_rejected(client: httpx2.Client, path: str, body: dict[str, object], status: int) -> None:
    assert client.post(path, json=body).status_code == status


def test_a_key_of_another_bank_may_not_read_a_context(keyed_server: LiveServer) -> None:
    with keyed_server.http(keyed_server.key("write", "a")) as client:
        client.put("/v1/banks/a").raise_for_status()
    with keyed_server.http(keyed_server.key("read", "b")) as client:
        assert client.post("/v1/banks/a/context", json={}).status_code == 403
    with keyed_server.http(keyed_server.key("read", "a")) as client:
        assert client.post("/v1/banks/a/context", json={}).status_code == 200
