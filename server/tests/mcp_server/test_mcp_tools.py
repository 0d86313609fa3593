"""Every tool and resource, listed and used by a client of the official SDK over both transports."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as wire
import pytest
from mcp import Client, MCPError
from mcp_clients import CASES, Results, call, call_error, first_id, http_client, mcp_server, stdio_client

from vmemo import Memory
from vmemo.embedding.token_counter import count_tokens
from vmemo.models.records import Permission
from vmemo_server.auth import Principal
from vmemo_server.mcp.render import NOTICE
from vmemo_server.mcp.tools import TOOLS

CONNECTIONS = [("stdio", "auto"), ("http", "auto"), ("http", "legacy")]
QUOTE_MEMORY = {"recall", "edit_memory", "context", "reflect", "why", "browse", "status", "set_profile"}
WRITE = {"retain", "edit_memory", "forget", "delete_bank", "set_profile"}
NOT_IDEMPOTENT = {"retain", "reflect", "edit_memory"}
"""Tools that may change something again when they are called again."""
DESTRUCTIVE = {"forget", "delete_bank"}
NAME_BANKS = {"list_banks", "delete_bank"}
MAX_TOKENS = 1850
"""Tokens of all tools, which a host adds to the context of its model."""


@asynccontextmanager
async def connect(transport: str, mode: str, folder: Path) -> AsyncGenerator[Client]:
    if transport == "stdio":
        async with stdio_client(folder, mode=mode) as client:
            yield client
    else:
        with mcp_server(folder) as server:
            async with http_client(server, mode=mode) as client:
                yield client


@pytest.mark.parametrize(("transport", "mode"), CONNECTIONS, ids=[f"{each}-{mode}" for each, mode in CONNECTIONS])
def test_every_tool_and_resource_is_listed_and_works(transport: str, mode: str, tmp_path: Path) -> None:
    async def script() -> None:
        async with connect(transport, mode, tmp_path) as client:
            await use_every_tool(client)
            await use_every_resource(client)

    asyncio.run(script())


async def use_every_tool(client: Client) -> None:
    listed = {tool.name for tool in (await client.list_tools()).tools}
    assert listed == set(CASES), "a tool has no case"
    results: Results = {}
    for name, case in CASES.items():
        results[name] = await call(client, name, **case.arguments(results))
        assert re.search(case.expected, results[name]), f"{name}: {results[name]}"
        assert (NOTICE in results[name]) == (name in QUOTE_MEMORY), name


async def use_every_resource(client: Client) -> None:
    await call(client, "retain", content="Ana likes tea.", bank="a/b c")
    templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
    assert templates == ["vmemo://banks/{bank}", "vmemo://banks/{bank}/facts/{id}"]
    banks, bank = [each.uri for each in (await client.list_resources()).resources]
    assert (banks, bank) == ("vmemo://banks", "vmemo://banks/a%2Fb%20c")
    assert (await read(client, banks))["banks"] == ["a/b c"]
    resource = await read(client, bank)
    assert (resource["status"]["messages"], resource["profile"]["name"]) == (1, "assistant")
    fact = first_id(await call(client, "recall", query="What does Ana like?", bank="a/b c"))
    quoted = await read(client, f"{bank}/facts/{fact}")
    assert (quoted["fact"]["text"], quoted["notice"]) == ("User: Ana likes tea.", NOTICE)
    for missing in ("vmemo://banks/nobody", f"{bank}/facts/none", "vmemo://elsewhere", "vmemo://banks/"):
        with pytest.raises(MCPError, match="NotFound: There is no"):
            await client.read_resource(missing)


async def read(client: Client, uri: str) -> dict[str, Any]:
    (found,) = (await client.read_resource(uri)).contents
    assert isinstance(found, wire.TextResourceContents)
    assert found.mime_type == "application/json"
    return json.loads(found.text)


def test_read_only_process_of_one_bank_reaches_no_other_and_writes_nothing(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path / 'memory.db'}", "alice") as memory:
        memory.retain_sync("Ana lives in Lisbon.")
        memory.bank("bob").retain_sync("Bob lives in Porto.")

    async def script() -> None:
        async with stdio_client(tmp_path, "--bank", "alice", "--read-only") as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(listed) == set(CASES) - WRITE - NAME_BANKS
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed.values())
            assert "Lisbon" in await call(client, "recall", query="Where does Ana live?")
            other = await call_error(client, "recall", query="Where does Bob live?", bank="bob")
            assert "PermissionDenied: This connection does not have read permission for this bank: it has read" in other
            assert "permission for bank 'alice'." in other
            assert (await call(client, "list_banks")) == '{"banks": ["alice"], "default": "alice"}'
            assert "PermissionDenied" in await call_error(client, "retain", content="Ana lives in Porto.")
            assert "Bank 'alice': 1 message, 1 fact" in await call(client, "status")

    asyncio.run(script())


def tokens_of(principal: Principal) -> int:
    """Return the tokens of the list of tools as it is sent."""
    listed = [tool.definition(principal) for tool in TOOLS.values() if tool.listed(principal)]
    return count_tokens(wire.ListToolsResult(tools=listed).model_dump_json(by_alias=True, exclude_none=True))


def test_tools_cost_few_tokens_and_fewer_with_a_single_bank() -> None:
    assert tokens_of(Principal()) <= MAX_TOKENS
    assert tokens_of(Principal(banks=("alice",))) < 0.9 * tokens_of(Principal())
    assert tokens_of(Principal(banks=("alice",), permission="read")) < 0.5 * tokens_of(Principal())


def test_descriptions_are_short_and_schemas_hold_nothing_that_a_model_does_not_need() -> None:
    for tool in TOOLS.values():
        assert 40 < len(tool.description) < 300, tool.name
        assert tool.description.endswith("."), tool.name
        definition = tool.definition(Principal())
        assert definition.output_schema is None
        schema = json.dumps(definition.input_schema)
        assert not [word for word in ("$defs", "$ref", "anyOf", '"title"', '"default"') if word in schema], tool.name
        assert definition.input_schema["type"] == "object"
        pinned = tool.definition(Principal(banks=("alice",))).input_schema
        assert "bank" not in pinned["properties"], tool.name


def test_annotations_describe_the_effects_of_a_tool() -> None:
    permissions: tuple[Permission, ...] = ("read", "admin")
    for tool in TOOLS.values():
        for permission in permissions:
            annotations = tool.definition(Principal(permission=permission)).annotations
            assert annotations is not None
            stores_opinions = tool.name == "reflect" and permission == "admin"
            reads = tool.name not in WRITE and not stores_opinions
            assert bool(annotations.read_only_hint) == reads, tool.name
            # The protocol's defaults are destructive and open; a tool that only reads needs no other hint.
            assert reads or annotations.destructive_hint == (tool.name in DESTRUCTIVE), tool.name
            assert annotations.open_world_hint is False
            assert reads or bool(annotations.idempotent_hint) == (tool.name not in NOT_IDEMPOTENT), tool.name
