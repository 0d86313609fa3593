"""API keys over MCP: banks and permissions, the audit log, and the limits of the other interfaces."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp_clients import CASES, SECRET, Results, call, call_error, http_client, list_tools, mcp_server

from live_server import LiveServer
from vmemo.sync import portal
from vmemo_server.auth import Limits
from vmemo_server.mcp.tools import TOOLS


@pytest.fixture
def server(tmp_path: Path) -> Generator[LiveServer]:
    """Run a server that requires keys, with a bank that holds a secret and an empty one."""
    with mcp_server(tmp_path, keyless=False) as running:
        portal.run(running.memory.bank("bob").retain(f"Bob hid the map in {SECRET}.", document="chat-1"))
        portal.run(running.memory.bank("alice").open())
        yield running


def arguments_for(bank: str, fact: str) -> dict[str, dict[str, Any]]:
    """Return arguments for every tool that takes a bank, with another bank's name and ids."""
    results: Results = {"recall": f"[{fact}]"}
    names = [name for name, tool in TOOLS.items() if "bank" in tool.arguments.model_fields]
    return {name: {**CASES[name].arguments(results), "bank": bank} for name in names}


def test_several_banks_are_searched_with_permission_for_each(server: LiveServer) -> None:
    portal.run(server.memory.bank("alice").retain("Alice hid the compass in the cellar."))

    async def script() -> None:
        asked = {"query": "Who hid the map, and who the compass?", "banks": ["bob", "alice"]}
        async with http_client(server, server.key("read", "alice", "bob")) as client:
            found = await call(client, "recall", **asked)
            assert "(bank bob) " in found
            assert "(bank alice) " in found
            assert "(bank bob) " in await call(client, "context", **asked)
            missing = await call_error(client, "recall", query="Who?", banks=["bob", "nobody"])
            assert missing.startswith("PermissionDenied: ")
        async with http_client(server, server.key("read", "alice")) as client:
            for tool in ("recall", "context"):
                for banks in (["bob", "alice"], ["alice", "bob"]):
                    denied = await call_error(client, tool, query="Who hid the map?", banks=banks)
                    assert denied.startswith("PermissionDenied: ")
                    assert SECRET not in denied
        async with http_client(server, server.key("read")) as client:
            missing = await call_error(client, "recall", query="Who?", banks=["bob", "nobody"])
            assert missing.startswith("NotFound: There is no bank 'nobody'")

    asyncio.run(script())
    assert "nobody" not in portal.run(server.memory.banks())


def test_key_of_one_bank_reaches_no_other_through_any_tool(server: LiveServer) -> None:
    bob = server.memory.bank("bob")
    (fact,) = portal.run(bob.facts())
    before = portal.run(bob.status())

    async def script() -> None:
        async with http_client(server, server.key("admin", "alice")) as client:
            calls = arguments_for("bob", fact.id)
            assert set(calls) == set(TOOLS) - {"list_banks"}
            for name, arguments in calls.items():
                text = await call_error(client, name, **arguments)
                assert text.startswith("PermissionDenied: "), name
                assert SECRET not in text
            existing = await call_error(client, "status", bank="bob")
            assert existing == await call_error(client, "status", bank="nobody"), "reveals if a bank exists"
            assert "NotFound" in await call_error(client, "why", fact=fact.id)
            assert "NotFound" in await call_error(client, "browse", kind="facts", cursor=fact.id)
            assert "holds nothing" in await call(client, "recall", query="Where is the map?")
            assert await call(client, "list_banks") == '{"banks": ["alice"], "default": "alice"}'

    asyncio.run(script())
    assert portal.run(bob.status()).facts == before.facts
    assert portal.run(bob.profile()).name == "assistant"


def test_key_of_one_bank_reads_no_other_through_any_resource(server: LiveServer) -> None:
    (fact,) = portal.run(server.memory.bank("bob").facts())
    paths = [
        "bob",
        "%62ob",
        f"bob/facts/{fact.id}",
        "alice/../bob",
        "alice%2F..%2Fbob",
        "bob?x",
        f"alice/facts/{fact.id}",
    ]

    async def script() -> None:
        async with http_client(server, server.key("admin", "alice")) as client:
            listed = [each.uri for each in (await client.list_resources()).resources]
            assert listed == ["vmemo://banks", "vmemo://banks/alice"]
            assert "bob" not in str(await client.read_resource("vmemo://banks"))
            for path in paths:
                with pytest.raises(MCPError, match=r"PermissionDenied|NotFound") as error:
                    await client.read_resource(f"vmemo://banks/{path}")
                assert SECRET not in str(error.value)

    asyncio.run(script())


def test_key_with_read_permission_sees_only_reading_tools(server: LiveServer) -> None:
    async def script() -> None:
        async with http_client(server, server.key("read", "bob")) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert listed == {name for name, tool in TOOLS.items() if tool.permission == "read"} - {"list_banks"}
            assert SECRET in await call(client, "recall", query="Where is the map?")
            assert "write permission" in await call_error(client, "retain", content="Bob moved.")
            assert "admin permission" in await call_error(client, "delete_bank", bank="bob")

    asyncio.run(script())


def test_key_of_several_banks_must_name_one(server: LiveServer) -> None:
    async def script() -> None:
        async with http_client(server, server.key("read", "alice", "bob")) as client:
            assert "Name a bank" in await call_error(client, "recall", query="Where is the map?")
            assert SECRET in await call(client, "recall", query="Where is the map?", bank="bob")

    asyncio.run(script())


def test_revoked_key_stops_working_on_an_open_connection(server: LiveServer) -> None:
    async def script() -> None:
        id, secret = server.key_with_id("read", "bob")
        async with http_client(server, secret) as client:
            await call(client, "status")
            portal.run(server.auth.revoke(id))
            with pytest.raises(MCPError):
                await client.call_tool("status", {})

    asyncio.run(script())


def test_every_authorized_write_is_in_the_audit_log(server: LiveServer) -> None:
    id, secret = server.key_with_id("admin", "alice")

    async def script() -> None:
        async with http_client(server, secret) as client:
            await call(client, "retain", content=f"Ana knows {SECRET}.")
            await call(client, "recall", query="What does Ana know?")
            await call_error(client, "forget")
            await call_error(client, "forget", entity="Nobody")
            await call_error(client, "set_profile", bank="bob", name="Eve")
            await call(client, "delete_bank", bank="alice")

    asyncio.run(script())
    entries = portal.run(server.auth.audit_entries())
    assert [(each.verb, each.bank, each.status) for each in reversed(entries)] == [
        ("retain", "alice", 200),
        ("forget", "alice", 422),
        ("forget", "alice", 404),
        ("delete_bank", "alice", 200),
    ]
    assert {(each.key, each.interface) for each in entries} == {(id, "mcp")}
    assert all(each.request for each in entries)
    assert SECRET not in str(entries)


def test_request_without_a_valid_key_is_rejected(server: LiveServer) -> None:
    for headers in ({}, {"Authorization": "Bearer vmemo_wrong"}, {"Authorization": "Basic YTpi"}):
        response = list_tools(server, **headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json()["type"] == "urn:vmemo:problem:Unauthenticated"
    assert list_tools(server, **{"X-API-Key": server.key("read")}).status_code == 200


def test_web_pages_of_other_origins_are_rejected(tmp_path: Path) -> None:
    with mcp_server(tmp_path) as server:
        assert list_tools(server).status_code == 200
        assert list_tools(server, Origin=server.url).status_code == 200
        assert list_tools(server, Host="evil.example").status_code == 421
        assert list_tools(server, Origin="https://evil.example").status_code == 403
        assert list_tools(server, **{"Content-Type": "text/plain"}).status_code in (400, 415)
        with server.http() as http:
            for method in ("GET", "DELETE"):
                response = http.request(method, "/mcp")
                assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_sizes_are_limited(tmp_path: Path) -> None:
    with mcp_server(tmp_path, limits=Limits(body_bytes=2_000, batch=2, max_tokens=50)) as server:

        async def script() -> None:
            async with http_client(server) as client:
                assert "not 3" in await call_error(client, "retain", messages=[{"content": "a"}] * 3)
                await call(client, "retain", content="Ana lives in Lisbon.")
                assert "50 here" in await call_error(client, "recall", query="x", max_tokens=51)
                assert "Lisbon" in await call(client, "reflect", query="Where does Ana live?")

        asyncio.run(script())
        with server.http() as http:
            large = http.post("/mcp", content=b"x" * 2_001, headers={"Content-Type": "application/json"})
        assert (large.status_code, large.json()["type"]) == (413, "urn:vmemo:problem:BodyTooLarge")


def test_rate_of_requests_is_limited(tmp_path: Path) -> None:
    with mcp_server(tmp_path, keyless=False, limits=Limits(rate=1, burst=2)) as server:
        secret = server.key("read")
        responses = [list_tools(server, Authorization=f"Bearer {secret}") for _ in range(3)]
        assert [response.status_code for response in responses] == [200, 200, 429]
        assert int(responses[-1].headers["retry-after"]) > 0


def test_mcp_can_be_disabled(tmp_path: Path) -> None:
    with mcp_server(tmp_path, mcp=False) as server:
        assert list_tools(server).status_code == 404
