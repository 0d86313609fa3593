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
from mcp_clients import CASES, Results, call, call_error, fields_of, http_client, mcp_server, stdio_client, text_of

from vmemo import Memory
from vmemo.mcp.tool import NOTICE
from vmemo.mcp.tools import TOOLS

CONNECTIONS = [("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy")]
QUOTE_MEMORY = {"recall", "reflect", "why", "browse", "profile", "set_profile"}
WRITE = {"retain", "forget", "create_bank", "delete_bank", "set_profile"}
DESTRUCTIVE = {"forget", "delete_bank"}


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
        result = await client.call_tool(name, case.arguments(results))
        assert not result.is_error, f"{name}: {text_of(result)}"
        results[name] = fields_of(result)
        assert case.check(results[name]), f"{name}: {results[name]}"
        assert (NOTICE in text_of(result)) == (name in QUOTE_MEMORY), name


async def use_every_resource(client: Client) -> None:
    await call(client, "retain", content="Ana likes tea.", bank="a/b c")
    templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
    assert templates == ["vmemo://banks/{bank}", "vmemo://banks/{bank}/facts/{id}"]
    banks, bank, _ = [each.uri for each in (await client.list_resources()).resources]
    assert (banks, bank) == ("vmemo://banks", "vmemo://banks/a%2Fb%20c")
    assert (await read(client, banks))["banks"] == ["a/b c", "default"]
    resource = await read(client, bank)
    assert (resource["status"]["messages"], resource["profile"]["name"]) == (1, "assistant")
    fact = (await call(client, "recall", query="What does Ana like?", bank="a/b c"))["facts"][0]
    quoted = await read(client, f"{bank}/facts/{fact['id']}")
    assert (quoted["fact"]["text"], quoted["notice"]) == (fact["text"], NOTICE)
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
            assert set(listed) == set(CASES) - WRITE
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed.values())
            assert "Lisbon" in (await call(client, "recall", query="Where does Ana live?"))["facts"][0]["text"]
            other = await call_error(client, "recall", query="Where does Bob live?", bank="bob")
            assert "PermissionDenied: This connection does not have read permission for this bank." in other
            assert (await call(client, "list_banks")) == {"banks": ["alice"], "more": False, "default_bank": "alice"}
            assert "PermissionDenied" in await call_error(client, "retain", content="Ana lives in Porto.")
            assert (await call(client, "status"))["messages"] == 1

    asyncio.run(script())


def test_descriptions_say_when_to_use_a_tool_and_when_not() -> None:
    for tool in TOOLS.values():
        description = " ".join(tool.description.split())
        assert re.search(r"Use it (only )?(when|for|before)", description), tool.name
        assert "Do not use it" in description, tool.name
        assert 200 < len(description) < 1200, tool.name
        assert len(tool.title) > 5


def test_every_argument_is_described_and_no_other_is_accepted() -> None:
    for tool in TOOLS.values():
        schema = tool.definition("admin").input_schema
        assert schema["additionalProperties"] is False, tool.name
        for part in (schema, *schema.get("$defs", {}).values()):
            for name, argument in part.get("properties", {}).items():
                assert len(argument.get("description", "")) > 20, f"{tool.name}.{name}"


def test_annotations_describe_the_effects_of_a_tool() -> None:
    for tool in TOOLS.values():
        for permission in ("read", "admin"):
            annotations = tool.definition(permission).annotations
            assert annotations is not None
            stores_opinions = tool.name == "reflect" and permission == "admin"
            assert annotations.read_only_hint == (tool.name not in WRITE and not stores_opinions), tool.name
            assert annotations.destructive_hint == (tool.name in DESTRUCTIVE), tool.name
            assert annotations.open_world_hint is False
            assert annotations.idempotent_hint == (tool.name not in {"retain"} and not stores_opinions), tool.name


def test_every_tool_has_an_output_schema_with_an_object_at_its_root() -> None:
    for tool in TOOLS.values():
        schema = tool.definition("admin").output_schema
        assert schema is not None
        assert schema["type"] == "object", tool.name
