"""Over HTTP the same keys, limits and records hold as through every other door."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agents import CASES, SECRET, Running, Seen, call, over_http, refusal, served
from mcp import MCPError

from vmemo.mcp.tools import TOOLS
from vmemo.server import Limits
from vmemo.sync import portal


@pytest.fixture
def locked(tmp_path: Path) -> Generator[Running]:
    """A server that asks for keys, with a bank that holds a secret and one that is empty."""
    with served(tmp_path, keyless=False) as running:
        portal.run(running.house.memory.bank("bob").retain(f"Bob hid the map in {SECRET}.", document="chat-1"))
        portal.run(running.house.memory.bank("alice").open())
        yield running


def arguments_for(bank: str, fact: str) -> dict[str, dict[str, Any]]:
    """Arguments for every tool that takes a bank, with another bank's name and ids."""
    seen: Seen = {"recall": {"facts": [{"id": fact}]}}
    banked = [name for name, tool in TOOLS.items() if "bank" in tool.takes.model_fields]
    return {name: {**CASES[name].asks(seen), "bank": bank} for name in banked}


def test_a_key_for_one_bank_reaches_no_other_by_any_tool(locked: Running) -> None:
    bob = locked.house.memory.bank("bob")
    (fact,) = portal.run(bob.facts())
    before = portal.run(bob.status())

    async def walk() -> None:
        async with over_http(locked, locked.key("admin", "alice")[1]) as client:
            calls = arguments_for("bob", fact.id)
            assert set(calls) == set(TOOLS) - {"list_banks"}
            for name, arguments in calls.items():
                told = await refusal(client, name, **arguments)
                assert told.startswith("NotAllowed: "), name
                assert SECRET not in told
            there = await refusal(client, "status", bank="bob")
            assert there == await refusal(client, "status", bank="nobody"), "tells whether a bank is there"
            assert "NotFound" in await refusal(client, "why", id=fact.id)
            assert "NotFound" in await refusal(client, "browse", kind="facts", cursor=fact.id)
            assert (await call(client, "recall", query=f"Where is {SECRET}?"))["facts"] == []
            assert await call(client, "list_banks") == {"banks": ["alice"], "more": False, "home": "alice"}

    asyncio.run(walk())
    assert portal.run(bob.status()).facts == before.facts
    assert portal.run(bob.profile()).name == "assistant"


def test_a_key_for_one_bank_reads_no_other_by_any_resource(locked: Running) -> None:
    (fact,) = portal.run(locked.house.memory.bank("bob").facts())
    ways = [
        "bob",
        "%62ob",
        f"bob/facts/{fact.id}",
        "alice/../bob",
        "alice%2F..%2Fbob",
        "bob?x",
        f"alice/facts/{fact.id}",
    ]

    async def walk() -> None:
        async with over_http(locked, locked.key("admin", "alice")[1]) as client:
            listed = [each.uri for each in (await client.list_resources()).resources]
            assert listed == ["vmemo://banks", "vmemo://banks/alice"]
            assert "bob" not in str(await client.read_resource("vmemo://banks"))
            for way in ways:
                with pytest.raises(MCPError, match=r"NotAllowed|NotFound") as refused:
                    await client.read_resource(f"vmemo://banks/{way}")
                assert SECRET not in str(refused.value)

    asyncio.run(walk())


def test_a_key_that_reads_sees_tools_that_read(locked: Running) -> None:
    async def walk() -> None:
        async with over_http(locked, locked.key("read", "bob")[1]) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert listed == {name for name, tool in TOOLS.items() if tool.right == "read"}
            assert SECRET in str(await call(client, "recall", query="Where is the map?"))
            assert "the right to write" in await refusal(client, "retain", content="Bob moved.")
            assert "the right to admin" in await refusal(client, "delete_bank", bank="bob")

    asyncio.run(walk())


def test_a_key_to_several_banks_must_name_one(locked: Running) -> None:
    async def walk() -> None:
        async with over_http(locked, locked.key("read", "alice", "bob")[1]) as client:
            assert "Name a bank" in await refusal(client, "recall", query="Where is the map?")
            assert SECRET in str(await call(client, "recall", query="Where is the map?", bank="bob"))

    asyncio.run(walk())


def test_each_request_stands_for_itself_so_that_a_revoked_key_ends_at_once(locked: Running) -> None:
    async def walk() -> None:
        id, secret = locked.key("read", "bob")
        async with over_http(locked, secret) as client:
            await call(client, "status")
            portal.run(locked.house.gate.revoke(id))
            with pytest.raises(MCPError):
                await client.call_tool("status", {})

    asyncio.run(walk())


def test_every_write_is_recorded_with_who_and_how_it_ended(locked: Running) -> None:
    id, secret = locked.key("admin", "alice")

    async def walk() -> None:
        async with over_http(locked, secret) as client:
            await call(client, "retain", content=f"Ana knows {SECRET}.")
            await call(client, "recall", query="What does Ana know?")
            await refusal(client, "forget")
            await refusal(client, "forget", entity="Nobody")
            await refusal(client, "set_profile", bank="bob", name="Eve")
            await call(client, "delete_bank", bank="alice")

    asyncio.run(walk())
    written = portal.run(locked.house.gate.audited())
    told = [(each.verb, each.bank, each.status) for each in reversed(written)]
    assert told == [
        ("retain", "alice", 200),
        ("forget", "alice", 422),
        ("forget", "alice", 404),
        ("delete_bank", "alice", 200),
    ]
    assert {(each.key, each.door) for each in written} == {(id, "mcp")}
    assert all(each.request for each in written)
    assert SECRET not in str(written)


def test_without_a_key_nothing_is_answered(locked: Running) -> None:
    for headers in ({}, {"Authorization": "Bearer vmemo_wrong"}, {"Authorization": "Basic YTpi"}):
        answer = locked.post(**headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["type"] == "urn:vmemo:problem:NoKey"
    assert locked.post(**{"X-API-Key": locked.key("read")[1]}).status_code == 200


def test_pages_of_the_web_reach_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        assert running.post().status_code == 200
        assert running.post(Origin=running.url).status_code == 200
        assert running.post(Host="evil.example").status_code == 421
        assert running.post(Origin="https://evil.example").status_code == 403
        assert running.post(**{"Content-Type": "text/plain"}).status_code in (400, 415)
        for method in ("GET", "DELETE"):
            answer = httpx2.request(method, f"{running.url}/mcp", timeout=10, trust_env=False)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_sizes_are_limited(tmp_path: Path) -> None:
    with served(tmp_path, limits=Limits(body_bytes=2_000, batch=2, max_tokens=50)) as running:

        async def walk() -> None:
            async with over_http(running) as client:
                assert "not 3" in await refusal(client, "retain", messages=[{"content": "a"}] * 3)
                await call(client, "retain", content="Ana lives in Lisbon.")
                assert "50 here" in await refusal(client, "recall", query="x", max_tokens=51)
                assert "50 here" in await refusal(client, "reflect", query="x", max_tokens=51)

        asyncio.run(walk())
        headers = {"Content-Type": "application/json"}
        large = httpx2.post(f"{running.url}/mcp", content=b"x" * 2_001, headers=headers, timeout=10, trust_env=False)
        assert (large.status_code, large.json()["type"]) == (413, "urn:vmemo:problem:TooLarge")


def test_requests_are_counted(tmp_path: Path) -> None:
    with served(tmp_path, keyless=False, limits=Limits(rate=1, burst=2)) as running:
        secret = running.key("read")[1]
        answers = [running.post(Authorization=f"Bearer {secret}") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert int(answers[-1].headers["retry-after"]) > 0


def test_a_server_may_go_without_the_door(tmp_path: Path) -> None:
    with served(tmp_path, mcp=False) as running:
        assert running.post().status_code == 404
