"""A client of the official SDK lists and calls every tool and reads every resource, over both transports."""

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
from agents import CASES, Seen, call, fields_of, over_http, over_stdio, refusal, served, text_of
from mcp import Client, MCPError

from vmemo import Memory
from vmemo.mcp.tool import NOTICE
from vmemo.mcp.tools import TOOLS

WAYS = [("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy")]
FROM_MEMORY = {"recall", "reflect", "why", "browse", "profile", "set_profile"}
WRITING = {"retain", "forget", "create_bank", "delete_bank", "set_profile"}
DESTROYING = {"forget", "delete_bank"}


@asynccontextmanager
async def connected(transport: str, mode: str, folder: Path) -> AsyncGenerator[Client]:
    if transport == "stdio":
        async with over_stdio(folder, mode=mode) as client:
            yield client
    else:
        with served(folder) as running:
            async with over_http(running, mode=mode) as client:
                yield client


@pytest.mark.parametrize(("transport", "mode"), WAYS, ids=[f"{transport}-{mode}" for transport, mode in WAYS])
def test_every_tool_and_resource_is_listed_and_does_its_work(transport: str, mode: str, tmp_path: Path) -> None:
    async def walk() -> None:
        async with connected(transport, mode, tmp_path) as client:
            await every_tool(client)
            await every_resource(client)

    asyncio.run(walk())


async def every_tool(client: Client) -> None:
    listed = {tool.name for tool in (await client.list_tools()).tools}
    assert listed == set(CASES), "a tool without a case"
    seen: Seen = {}
    for name, case in CASES.items():
        result = await client.call_tool(name, case.asks(seen))
        assert not result.is_error, f"{name}: {text_of(result)}"
        seen[name] = fields_of(result)
        assert case.tells(seen[name]), f"{name}: {seen[name]}"
        assert (NOTICE in text_of(result)) == (name in FROM_MEMORY), name


async def every_resource(client: Client) -> None:
    await call(client, "retain", content="Ana likes tea.", bank="a/b c")
    templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
    assert templates == ["vmemo://banks/{bank}", "vmemo://banks/{bank}/facts/{id}"]
    banks, bank, _ = [each.uri for each in (await client.list_resources()).resources]
    assert (banks, bank) == ("vmemo://banks", "vmemo://banks/a%2Fb%20c")
    assert (await read(client, banks))["banks"] == ["a/b c", "default"]
    described = await read(client, bank)
    assert (described["status"]["messages"], described["profile"]["name"]) == (1, "assistant")
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


def test_a_process_for_reading_one_bank_reaches_no_other_and_writes_nothing(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path / 'memory.db'}", "alice") as memory:
        memory.retain_sync("Ana lives in Lisbon.")
        memory.bank("bob").retain_sync("Bob lives in Porto.")

    async def walk() -> None:
        async with over_stdio(tmp_path, "--bank", "alice", "--read-only") as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(listed) == set(CASES) - WRITING
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed.values())
            assert "Lisbon" in (await call(client, "recall", query="Where does Ana live?"))["facts"][0]["text"]
            assert "alone" in await refusal(client, "recall", query="Where does Bob live?", bank="bob")
            assert (await call(client, "list_banks")) == {"banks": ["alice"], "more": False, "home": "alice"}
            assert "NotAllowed" in await refusal(client, "retain", content="Ana lives in Porto.")
            assert (await call(client, "status"))["messages"] == 1

    asyncio.run(walk())


def test_a_model_is_told_of_every_tool_when_to_use_it_and_when_not() -> None:
    for tool in TOOLS.values():
        described = " ".join(tool.description.split())
        assert re.search(r"Use it (only )?(when|for|before)", described), tool.name
        assert "Do not use it" in described, tool.name
        assert 200 < len(described) < 1200, tool.name
        assert len(tool.title) > 5


def test_every_argument_is_described_and_no_other_is_taken() -> None:
    for tool in TOOLS.values():
        schema = tool.listed("admin").input_schema
        assert schema["additionalProperties"] is False, tool.name
        for shape in (schema, *schema.get("$defs", {}).values()):
            for name, argument in shape["properties"].items():
                assert len(argument.get("description", "")) > 20, f"{tool.name}.{name}"


def test_annotations_tell_what_a_tool_does_to_memory() -> None:
    for tool in TOOLS.values():
        for right in ("read", "admin"):
            told = tool.listed(right).annotations
            assert told is not None
            keeps = tool.name == "reflect" and right == "admin"
            assert told.read_only_hint == (tool.name not in WRITING and not keeps), tool.name
            assert told.destructive_hint == (tool.name in DESTROYING), tool.name
            assert told.open_world_hint is False
            assert told.idempotent_hint == (tool.name not in {"retain"} and not keeps), tool.name


def test_every_tool_has_an_output_schema_with_an_object_at_its_root() -> None:
    for tool in TOOLS.values():
        schema = tool.listed("admin").output_schema
        assert schema is not None
        assert schema["type"] == "object", tool.name
