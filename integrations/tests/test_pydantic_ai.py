"""PydanticAI with vmemo: its toolset, driven by a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import cast

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from vmemo import Memory
from vmemo_conformance.fake_llm import ToolCall
from vmemo_conformance.llm_server import ScriptedServer
from vmemo_integrations.pydantic_ai import VmemoToolset


def test_an_agent_recalls_in_one_run_what_it_remembered_in_another(
    run_example: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    replies = [
        ToolCall("remember", {"text": "Ana is allergic to peanuts."}),
        "Noted.",
        ToolCall("recall", {"query": "What can Ana not eat?"}),
        "An apple.",
    ]
    with ScriptedServer({"": replies}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run_example("pydantic_ai")
        first, last = server.received[0], server.received[-1]
    assert capsys.readouterr().out == "An apple.\n"
    assert "Ana is allergic to peanuts." in json.dumps(last.body["messages"])
    assert "long-term memory" in first.system
    tools = cast("list[dict[str, dict[str, object]]]", first.body["tools"])
    functions = {str(tool["function"]["name"]): json.dumps(tool["function"]) for tool in tools}
    assert functions.keys() == {"remember", "recall"}
    assert "Full sentences" in functions["remember"]


def test_the_toolset_works_in_every_bank_and_with_own_instructions(memory: Memory) -> None:
    async def check() -> None:
        model = TestModel(call_tools=["remember"])
        for user in ("ana", "bob"):
            toolset = VmemoToolset[object](memory.bank(user), instructions="Be brief.", id=user)
            result = await Agent(model, toolsets=[toolset]).run("Remember me.")
            assert "Remembered." in result.output
            assert "Be brief." in str(result.all_messages())
            assert len(await memory.bank(user).messages()) == 1

    asyncio.run(check())
