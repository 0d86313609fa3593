"""Clients of the official SDK over both transports, and a call of every tool with what it must tell."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

import httpx2
import mcp_types as wire
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from vmemo import Memory
from vmemo.models.auth import Permission
from vmemo.server import House, Limits, ServerOptions, create_app
from vmemo.server.launch import Address
from vmemo.sync import portal
from vmemo.testing import HashEmbedder

Seen = dict[str, dict[str, Any]]
"""What each tool told so far."""
PATIENCE = 60.0
SECRET = "Zanzibar"
"""A word that no other bank holds."""


@dataclass(frozen=True)
class Case:
    """A call of a tool, made of what earlier calls told, and what must be true of its answer."""

    asks: Callable[[Seen], dict[str, Any]]
    tells: Callable[[dict[str, Any]], bool]


def _fact(seen: Seen) -> str:
    return seen["recall"]["facts"][0]["id"]


CASES: Mapping[str, Case] = {
    "create_bank": Case(lambda seen: {"bank": "spare"}, lambda told: told["bank"] == "spare" and not told["messages"]),
    "retain": Case(
        lambda seen: {
            "messages": [
                {"content": "I moved to Lisbon in March 2026.", "speaker": "Ana", "timestamp": "2026-04-01"},
                {"content": "Noted: you live in Lisbon now.", "role": "assistant", "timestamp": "2026-04-01T09:00Z"},
            ],
            "document": "chat-1",
            "tags": '["home"]',
        },
        lambda told: len(told["stored"]) == 2 and told["unread"] == 0 and "problem" not in told,
    ),
    "recall": Case(
        lambda seen: {"query": "Where does Ana live?", "tags": ["home"], "at_time": "2026-05-01"},
        lambda told: any("Lisbon" in fact["text"] for fact in told["facts"]) and told["tokens"] > 0,
    ),
    "why": Case(
        lambda seen: {"id": _fact(seen)}, lambda told: any("Lisbon" in said["content"] for said in told["messages"])
    ),
    "reflect": Case(
        lambda seen: {"query": "Where does Ana live?"},
        lambda told: "Lisbon" in told["answer"] and told["quoted_only"] and told["found"],
    ),
    "browse": Case(
        lambda seen: {"kind": "messages", "document": "chat-1", "limit": 1},
        lambda told: len(told["messages"]) == 1 and told["next"] == told["messages"][0]["id"],
    ),
    "status": Case(lambda seen: {}, lambda told: told["messages"] == 2 and told["engine"] == "local"),
    "list_banks": Case(lambda seen: {"prefix": "sp"}, lambda told: told["banks"] == ["spare"] and not told["more"]),
    "profile": Case(lambda seen: {}, lambda told: told["name"] == "assistant" and told["skepticism"] == 3),
    "set_profile": Case(
        lambda seen: {"name": "Ada", "skepticism": 5},
        lambda told: told["name"] == "Ada" and told["skepticism"] == 5 and told["empathy"] == 3,
    ),
    "forget": Case(lambda seen: {"document": "chat-1"}, lambda told: told["messages"] == 2 and told["facts"] > 0),
    "delete_bank": Case(
        lambda seen: {"bank": "spare"}, lambda told: told == {"bank": "spare", "messages": 0, "facts": 0}
    ),
}
"""Every tool in an order in which each has what it needs."""


@dataclass(frozen=True)
class Running:
    """A server with an MCP door."""

    url: str
    house: House

    def key(self, right: Permission = "admin", *banks: str) -> tuple[str, str]:
        """The id and the secret of a new key, to every bank unless some are named."""
        key, secret = portal.run(self.house.gate.create_key("an agent", banks=banks or ("*",), right=right))
        return key.id, secret

    def post(self, **headers: str) -> httpx2.Response:
        """A bare request for the tools."""
        body: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        told = {"Accept": "application/json", **headers}
        return httpx2.post(f"{self.url}/mcp", json=body, headers=told, timeout=PATIENCE, trust_env=False)


class _Server(uvicorn.Server):
    """uvicorn, which here tells when it has come up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.begun.set()


@contextmanager
def served(folder: Path, *, keyless: bool = True, limits: Limits | None = None, **options: Any) -> Generator[Running]:
    """A real server on a free port, in a thread."""
    memory = Memory(f"sqlite:///{folder / 'memory.db'}", embedder=HashEmbedder())
    house = House(memory, keyless, limits or Limits())
    app = create_app(house, ServerOptions(hosts=("127.0.0.1",), works=False, **options))
    with Address(port=0).socket() as listening:
        config = uvicorn.Config(app, lifespan="on", ws="none", log_config=None, timeout_graceful_shutdown=10)
        server = _Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            assert server.begun.wait(PATIENCE)
            assert server.started
            yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}", house)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@asynccontextmanager
async def over_http(running: Running, secret: str | None = None, mode: str = "auto") -> AsyncGenerator[Client]:
    """A client that comes with a key or without."""
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False) as http,
        Client(streamable_http_client(f"{running.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(folder: Path, *options: str, mode: str = "auto") -> AsyncGenerator[Client]:
    """A client that starts `vmemo mcp` as a host does."""
    arguments = ["-m", "vmemo", "mcp", "--db", str(folder / "memory.db"), *options]
    started = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(started, mode=mode) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool tells when all goes well."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return fields_of(result)


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """What a tool tells when it refuses."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    assert result.structured_content is None
    return text_of(result)


def fields_of(result: wire.CallToolResult) -> dict[str, Any]:
    """A result as a program reads it."""
    assert isinstance(result.structured_content, dict)
    return cast("dict[str, Any]", result.structured_content)


def text_of(result: wire.CallToolResult) -> str:
    """A result as a model reads it."""
    return "\n".join(block.text for block in result.content if isinstance(block, wire.TextContent))
