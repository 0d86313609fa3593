"""Clients of the official SDK over both transports, and one call of every tool with its expected result."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as wire
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from live_server import HOST, LiveServer, live_server
from max_wait import MAX_WAIT
from vmemo_server.app import ServerOptions
from vmemo_server.auth import Limits

Results = dict[str, str]
"""The result of each tool called so far."""
SECRET = "Zanzibar"
"""A word that no other bank holds."""
_ID = re.compile(r"\[([0-9a-f][0-9a-f-]+)\]")


def first_id(text: str) -> str:
    """Return the first id that a result cites."""
    found = _ID.search(text)
    assert found is not None, text
    return found[1]


@dataclass(frozen=True)
class ToolCase:
    """A call of a tool, built from the results of earlier calls, and a pattern of its result."""

    arguments: Callable[[Results], dict[str, Any]]
    expected: str


CASES: Mapping[str, ToolCase] = {
    "retain": ToolCase(
        lambda _: {
            "messages": [
                {"content": "I moved to Lisbon in March 2026.", "speaker": "Ana", "timestamp": "2026-04-01"},
                {"content": "Noted: you live in Lisbon now.", "role": "assistant", "timestamp": "2026-04-01T09:00Z"},
            ],
            "document": "chat-1",
            "tags": '["home"]',
        },
        r"Stored 2 messages, derived \d facts?",
    ),
    "recall": ToolCase(
        lambda _: {"query": "Where does Ana live?", "tags": ["home"], "at_time": "2026-05-01"},
        r"## 1 April 2026\S*.*\n- \[[-0-9a-f]+\] .*Lisbon",
    ),
    "why": ToolCase(
        lambda results: {"fact": first_id(results["recall"])},
        r"Messages:\n- \[[-0-9a-f]+\] 2026-04-01 .* in 'chat-1': .*Lisbon",
    ),
    "edit_memory": ToolCase(
        lambda results: {
            "fact": first_id(results["recall"]),
            "text": "Ana lives in Lisbon now.",
            "valid_at": "2026-03-01",
            "pinned": True,
        },
        r"\n- \[[-0-9a-f]+\] \d{4}-\d\d-\d\d \(pinned\) Ana lives in Lisbon now\.$",
    ),
    "context": ToolCase(lambda _: {"query": "Where does Ana live?", "user": "Ana"}, r"# \w+(.|\n)*Lisbon"),
    "reflect": ToolCase(lambda _: {"query": "Where does Ana live?"}, "Lisbon"),
    "browse": ToolCase(
        lambda _: {"kind": "messages", "document": "chat-1", "limit": 1},
        r"- \[(\S+)\] 2026-04-01 00:00 Ana in 'chat-1': I moved to Lisbon in March 2026\.\nMore: pass cursor '\1'\.$",
    ),
    "set_profile": ToolCase(
        lambda _: {"name": "Ada", "skepticism": 5}, "Profile: Ada, skepticism 5, literalism 3, empathy 3, bias"
    ),
    "status": ToolCase(lambda _: {}, r"Bank '\w+': 2 messages, \d facts?.*\. Engine: local\.\nProfile: Ada"),
    "list_banks": ToolCase(lambda _: {"prefix": "def"}, r'^{"banks": \["default"\], "default": "default"}$'),
    "forget": ToolCase(lambda _: {"document": "chat-1"}, r"^Deleted for good: 2 messages and [1-9]\d* facts?\.$"),
    "delete_bank": ToolCase(lambda _: {"bank": "default"}, r"^Deleted bank 'default': 0 messages and 0 facts\.$"),
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
        httpx2.AsyncClient(headers=headers, timeout=MAX_WAIT, trust_env=False, verify=False) as http,
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


async def call(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that succeeds and return its text; nothing else is sent."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is None
    return text_of(result)


async def call_error(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that fails and return the text of the error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


def text_of(result: wire.CallToolResult) -> str:
    """Return the text content of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, wire.TextContent))
