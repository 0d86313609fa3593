"""The OpenAI Agents SDK with vmemo: its sessions and tools, driven by a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    Session,
    SessionSettings,
    TResponseInputItem,
    set_default_openai_api,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from vmemo import Memory
from vmemo_conformance.embedders import FailingEmbedder, HashEmbedder
from vmemo_conformance.fake_llm import ToolCall
from vmemo_conformance.llm_server import ScriptedServer
from vmemo_integrations.openai_agents import VmemoSession, memory_tools

ITEMS = cast(
    "list[TResponseInputItem]",
    [
        {"role": "user", "content": "Where is my bike?"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look it up."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "find", "arguments": '{"what":"bike"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "in the cellar\u0000"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Your bike is in the cellar.", "annotations": []}],
        },
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Thanks."}, {"type": "input_image", "image_url": "x"}],
        },
        {"role": "user", "content": "Thanks."},
        {"role": "user", "content": "Thanks."},
        {"role": "developer", "content": "Be brief."},
        {"type": "function_call", "call_id": "call_2", "name": "find", "arguments": "{}"},
    ],
)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    set_default_openai_api("chat_completions")
    set_tracing_disabled(True)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")


def test_items_come_back_exactly_and_in_order(memory: Memory) -> None:
    async def check() -> None:
        session = VmemoSession("a", memory)
        await session.add_items(ITEMS[:4])
        await session.add_items(ITEMS[4:])
        assert isinstance(session, Session)
        assert await session.get_items() == ITEMS
        assert await session.get_items(2) == ITEMS[-2:]
        assert await session.get_items(0) == []
        assert await VmemoSession("a", memory, session_settings=SessionSettings(limit=1)).get_items() == ITEMS[-1:]
        assert await VmemoSession("b", memory).get_items() == []

    asyncio.run(check())


def test_texts_are_recalled_and_tool_calls_are_not(memory: Memory) -> None:
    async def check() -> None:
        told: TResponseInputItem = {"role": "user", "content": "My bike is a red Batavus from 2019."}
        await VmemoSession("a", memory, speaker="Ana").add_items([*ITEMS, told])
        found = await memory.recall("find the bike: function call, reasoning, look up")
        texts = [hit.text for hit in found.hits]
        assert any("bike is in the cellar" in text for text in texts)
        assert not any("…" in text or "call_1" in text or "brief" in text for text in texts)
        assert "Ana" in {entity.name for entity in await memory.entities()}

    asyncio.run(check())


def test_popped_and_cleared_items_are_forgotten_with_their_facts(memory: Memory) -> None:
    async def check() -> None:
        session, other = VmemoSession("a", memory), VmemoSession("b", memory)
        await other.add_items([{"role": "user", "content": "My sister plays chess."}])
        await session.add_items(ITEMS[:5])
        assert await session.pop_item() == ITEMS[4]
        assert not any("in the cellar" in fact.text for fact in await memory.facts())
        assert await session.get_items() == ITEMS[:4]
        await session.clear_session()
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        assert [fact.text for fact in await memory.facts()] == ["User: My sister plays chess."]

    asyncio.run(check())


def test_secrets_in_items_are_redacted_without_damage_to_the_item(memory: Memory) -> None:
    key = "sk-aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD"
    called = {"type": "function_call", "call_id": "c", "name": "log_in", "arguments": json.dumps({"api_key": key})}
    items = cast("list[TResponseInputItem]", [{"role": "user", "content": f"My key is {key}."}, called])

    async def check() -> None:
        session = VmemoSession("a", memory)
        await session.add_items(items)
        said, call = cast("list[dict[str, str]]", await session.get_items())
        assert said == {"role": "user", "content": "My key is [redacted: api key]."}
        assert call.keys() == called.keys()
        assert key not in call["arguments"]

    asyncio.run(check())


def test_items_are_stored_if_facts_cannot_be_derived(tmp_path: Path) -> None:
    async def check() -> None:
        async with Memory(tmp_path / "memory.db", embedder=FailingEmbedder(HashEmbedder(), times=1)) as memory:
            session = VmemoSession("a", memory)
            await session.add_items(ITEMS[4:5])
            assert await session.get_items() == ITEMS[4:5]
            assert (await memory.status()).pending == 1
            await memory.process()
            assert "bike" in (await memory.recall("bike")).hits[0].text

    asyncio.run(check())


def test_an_agent_recalls_with_its_tool_what_it_remembered_in_another_session(memory: Memory) -> None:
    replies = [
        ToolCall("remember", {"text": "Ana wants her reports as tables."}),
        "Noted.",
        ToolCall("recall", {"query": "How does Ana want reports?"}),
        "As a table.",
    ]

    async def check(server: ScriptedServer) -> None:
        model = OpenAIChatCompletionsModel("scripted", AsyncOpenAI(base_url=server.url, api_key="unused"))
        agent = Agent("Assistant", model=model, tools=memory_tools(memory))
        await Runner.run(agent, "Tables, please.", session=VmemoSession("a", memory))
        result = await Runner.run(agent, "Write the report.", session=VmemoSession("b", memory))
        assert result.final_output == "As a table."
        assert "Ana wants her reports as tables." in json.dumps(server.received[-1].body)
        items = await VmemoSession("b", memory).get_items()
        assert [cast("dict[str, object]", item).get("type") for item in items] == [
            None,
            "function_call",
            "function_call_output",
            "message",
        ]

    with ScriptedServer({"": replies}) as server:
        asyncio.run(check(server))
        parameters = cast("list[dict[str, dict[str, object]]]", server.received[0].body["tools"])
    assert {tool["function"]["name"] for tool in parameters} == {"remember", "recall"}
    assert all("Args" not in str(tool["function"]["description"]) for tool in parameters)


def test_the_example_runs(
    run_example: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = ["Noted.", ToolCall("recall", {"query": "What can Ana not eat?"}), "An apple."]
    with ScriptedServer({"": replies}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run_example("openai_agents")
        assert "allergic to peanuts" in json.dumps(server.received[-1].body)
    assert capsys.readouterr().out == "An apple.\n"
