"""Every write has an audit entry before it takes effect, and its status afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import httpx2
import pytest
from pydantic import JsonValue
from test_idempotency import RETAIN, BlockingEmbedder

from live_server import LiveServer, live_server
from max_wait import MAX_WAIT
from vmemo.models import Message
from vmemo.ports import LLMRequest
from vmemo.providers import LocalExtractor
from vmemo_conformance.fake_llm import FakeLLM

EITHER = {"Accept": "application/json, text/event-stream"}
HINDSIGHT = {"items": [{"content": "I have a grey cat."}]}


class BrokenExtractor(LocalExtractor):
    """An extractor that fails in a way that nobody foresaw."""

    async def read(self, messages: Sequence[Message], before: Message | None) -> NoReturn:
        """Raise an error that is not one of vmemo."""
        raise ZeroDivisionError


class BrokenLLM:
    """A model that fails in a way that nobody foresaw."""

    name = "broken"

    async def complete(self, request: LLMRequest) -> NoReturn:
        """Raise an error that is not one of vmemo."""
        raise ZeroDivisionError


def entries(client: httpx2.Client) -> list[tuple[str, str, int | None]]:
    """Return interface, verb and status of all entries, oldest first."""
    found = client.get("/v1/audit").json()["items"]
    return [(entry["interface"], entry["verb"], entry["status"]) for entry in reversed(found)]


@pytest.mark.parametrize(
    ("interface", "path", "body"),
    [
        ("rest", "/v1/banks/a/profile/background", {"snippet": "I like tea."}),
        ("hindsight", "/v1/default/banks/a/background", {"content": "I like tea."}),
        ("mcp", "/mcp", {"query": "What do you think of tea?", "bank": "a"}),
    ],
)
def test_write_that_fails_unexpectedly_is_in_the_audit_log(
    database: str, interface: str, path: str, body: dict[str, object]
) -> None:
    if interface == "mcp":
        body = tool_call("reflect", **body)
    with live_server(database, llm=BrokenLLM()) as server, server.http() as client:
        server.memory.bank("a").add_message_sync("I have a grey cat.")
        response = client.post(path, json=body, headers=EITHER)
        assert response.status_code == (200 if interface == "mcp" else 500)
        assert [(kind, status) for kind, _, status in entries(client)] == [(interface, 500)]


@pytest.mark.parametrize(
    ("interface", "path", "body", "status"),
    [
        ("rest", "/v1/banks/a/messages", RETAIN, 202),
        ("hindsight", "/v1/default/banks/a/memories", HINDSIGHT, 200),
        ("mcp", "/mcp", {"content": "I have a grey cat.", "bank": "a"}, 200),
    ],
)
def test_a_retain_whose_extractor_fails_unexpectedly_is_in_the_audit_log_as_stored(
    database: str, interface: str, path: str, body: dict[str, object], status: int
) -> None:
    if interface == "mcp":
        body = tool_call("retain", **body)
    with live_server(database, llm=BrokenExtractor()) as server, server.http() as client:
        assert client.post(path, json=body, headers=EITHER).status_code == status
        assert len(client.get("/v1/banks/a/messages").json()["items"]) == 1
        assert [(kind, status) for kind, _, status in entries(client)] == [(interface, status)]


def test_entry_of_a_running_write_has_no_status(database: str) -> None:
    embedder = BlockingEmbedder()
    with (
        live_server(database, embedder=embedder) as server,
        server.http() as client,
        ThreadPoolExecutor(1) as other,
    ):
        running = other.submit(client.post, "/v1/banks/a/messages", json=RETAIN)
        assert embedder.started.wait(MAX_WAIT)
        assert entries(client) == [("rest", "POST /v1/banks/{bank}/messages", None)]
        embedder.released.set()
        running.result(MAX_WAIT)
        assert entries(client) == [("rest", "POST /v1/banks/{bank}/messages", 200)]


def tool_call(name: str, **arguments: object) -> dict[str, object]:
    """Return the body of an MCP tool call."""
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def test_reflection_that_may_store_opinions_is_in_the_audit_log(database: str) -> None:
    answer: JsonValue = {"calls": [], "steps": [], "found": True, "text": "A cat.", "opinions": [], "revised": []}
    asked = {"query": "Which pet?"}
    with live_server(database, llm=FakeLLM({"reflect": lambda _: answer})) as server, server.http() as client:
        client.put("/v1/banks/a", json={})
        client.post("/v1/banks/a/reflect", json=asked)
        client.post("/v1/default/banks/a/reflect", json=asked)
        client.post("/mcp", json=tool_call("reflect", bank="a", **asked), headers=EITHER)
        client.post("/v1/banks/a/reflect", json={**asked, "opinions": False})
        assert entries(client)[1:] == [
            ("rest", "POST /v1/banks/{bank}/reflect", 200),
            ("hindsight", "POST /v1/default/banks/{bank_id}/reflect", 200),
            ("mcp", "reflect", 200),
        ]


def test_rejected_write_is_in_the_audit_log_and_a_read_is_not(server: LiveServer) -> None:
    with server.http() as client:
        client.put("/v1/banks/a", json={})
        client.post("/v1/banks/a/forget", json={"messages": ["missing"]})
        client.get("/v1/banks/a")
        assert [status for _, _, status in entries(client)] == [200, 404]
