"""Clients of the official SDK over both transports, and one call of every tool with its expected result."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2
import mcp_types as wire
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from live_server import HOST, TIMEOUT, LiveServer, live_server
from vmemo.server import Limits, ServerOptions

Results = dict[str, dict[str, Any]]
"""The result of each tool called so far."""
SECRET = "Zanzibar"
"""A word that no other bank holds."""


@dataclass(frozen=True)
class ToolCase:
    """A call of a tool, built from the results of earlier calls, and a check of its result."""

    arguments: Callable[[Results], dict[str, Any]]
    check: Callable[[dict[str, Any]], bool]


CASES: Mapping[str, ToolCase] = {
    "create_bank": ToolCase(
        lambda _: {"bank": "spare"}, lambda result: result["bank"] == "spare" and not result["messages"]
    ),
    "retain": ToolCase(
        lambda _: {
            "messages": [
                {"content": "I moved to Lisbon in March 2026.", "speaker": "Ana", "timestamp": "2026-04-01"},
                {"content": "Noted: you live in Lisbon now.", "role": "assistant", "timestamp": "2026-04-01T09:00Z"},
            ],
            "document": "chat-1",
            "tags": '["home"]',
        },
        lambda result: len(result["stored"]) == 2 and result["pending"] == 0 and "problem" not in result,
    ),
    "recall": ToolCase(
        lambda _: {"query": "Where does Ana live?", "tags": ["home"], "at_time": "2026-05-01"},
        lambda result: any("Lisbon" in fact["text"] for fact in result["facts"]) and result["tokens"] > 0,
    ),
    "why": ToolCase(
        lambda results: {"fact": results["recall"]["facts"][0]["id"]},
        lambda result: any("Lisbon" in message["content"] for message in result["messages"]),
    ),
    "reflect": ToolCase(
        lambda _: {"query": "Where does Ana live?"},
        lambda result: "Lisbon" in result["answer"] and result["quoted_only"] and result["found"],
    ),
    "browse": ToolCase(
        lambda _: {"kind": "messages", "document": "chat-1", "limit": 1},
        lambda result: len(result["messages"]) == 1 and result["next"] == result["messages"][0]["id"],
    ),
    "status": ToolCase(lambda _: {}, lambda result: result["messages"] == 2 and result["engine"] == "local"),
    "list_banks": ToolCase(
        lambda _: {"prefix": "sp"}, lambda result: result["banks"] == ["spare"] and not result["more"]
    ),
    "profile": ToolCase(lambda _: {}, lambda result: result["name"] == "assistant" and result["skepticism"] == 3),
    "set_profile": ToolCase(
        lambda _: {"name": "Ada", "skepticism": 5},
        lambda result: result["name"] == "Ada" and result["skepticism"] == 5 and result["empathy"] == 3,
    ),
    "forget": ToolCase(
        lambda _: {"document": "chat-1"}, lambda result: result["messages"] == 2 and result["facts"] > 0
    ),
    "delete_bank": ToolCase(
        lambda _: {"bank": "spare"},
        lambda result: result == {"bank": "spare", "messages": 0, "facts": 0, "scrub_pending": False},
    ),
}
"""Every tool, in an order in which each finds what it needs."""


@contextmanager
def mcp_server(
    folder: Path, *, keyless: bool = True, limits: Limits | None = None, mcp: bool = True
) -> Generator[LiveServer]:
    """Run a server without a worker."""
    options = ServerOptions(hosts=(HOST,), worker=False, mcp=mcp)
    database = f"sqlite:///{folder / 'memory.db'}"
    with live_server(database, keyless=keyless, limits=limits, options=options) as server:
        yield server


def list_tools(server: LiveServer, **headers: str) -> httpx2.Response:
    """Send a plain request for the list of tools."""
    body: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with server.http(Accept="application/json") as http:
        return http.post("/mcp", json=body, headers=headers)


@asynccontextmanager
async def http_client(server: LiveServer, secret: str | None = None, mode: str = "auto") -> AsyncGenerator[Client]:
    """Connect over HTTP, with a key if one is given."""
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=TIMEOUT, trust_env=False, verify=False) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def stdio_client(folder: Path, *options: str, mode: str = "auto") -> AsyncGenerator[Client]:
    """Start `vmemo mcp` as a host does, and connect to it."""
    arguments = ["-m", "vmemo", "mcp", "--db", str(folder / "memory.db"), *options]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(parameters, mode=mode) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that succeeds and return its fields."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return fields_of(result)


async def call_error(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that fails and return the text of the error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    assert result.structured_content is None
    return text_of(result)


def fields_of(result: wire.CallToolResult) -> dict[str, Any]:
    """Return the structured content of a result."""
    assert isinstance(result.structured_content, dict)
    return cast("dict[str, Any]", result.structured_content)


def text_of(result: wire.CallToolResult) -> str:
    """Return the text content of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, wire.TextContent))
