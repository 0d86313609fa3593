"""LlamaIndex with vmemo: the memory block, in a chat history and in an agent that a scripted model drives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.memory import Memory as ChatMemory

from vmemo import Memory
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, Refusal
from vmemo_conformance.llm_server import ScriptedServer
from vmemo_integrations.llamaindex import VmemoMemoryBlock


def test_messages_that_leave_the_history_are_recalled(memory: Memory) -> None:
    async def check() -> None:
        block = VmemoMemoryBlock(memory=memory, speaker="Ana")
        chat = ChatMemory.from_defaults(
            session_id="s", token_limit=60, chat_history_token_ratio=0.5, token_flush_size=10, memory_blocks=[block]
        )
        for number in range(5):
            await chat.aput(ChatMessage(role="user", content=f"The train number {number} to Porto was late again."))
            await chat.aput(ChatMessage(role="assistant", content="What a pity."))
        await chat.aput(ChatMessage(role="user", content="Was train number 0 late?"))
        system, *history = await chat.aget()
        assert system.role == MessageRole.SYSTEM
        assert "Ana: The train number 0 to Porto was late again." in str(system.content)
        assert not any("number 0 to Porto" in str(message.content) for message in history)
        assert {message.document for message in await memory.messages()} == {"s"}

    asyncio.run(check())


def test_only_what_user_and_assistant_said_is_remembered_once(memory: Memory) -> None:
    async def check() -> None:
        block = VmemoMemoryBlock(memory=memory)
        messages = [
            ChatMessage(role="system", content="Be brief."),
            ChatMessage(role="user", content="I live in Porto.\0"),
            ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": []}),
            ChatMessage(role="tool", content="sunny"),
            ChatMessage(role="model", content="It is sunny in Porto."),
        ]
        await block.aput(messages[:2], session_id="s")
        await block.aput(messages, session_id="s")
        await block.aput([])
        stored = [(message.role, message.content) for message in await memory.messages()]
        assert stored == [("user", "I live in Porto."), ("assistant", "It is sunny in Porto.")]

    asyncio.run(check())


def test_nothing_is_inserted_without_a_question_or_a_fact(memory: Memory) -> None:
    async def check() -> None:
        block = VmemoMemoryBlock(memory=memory)
        assert await block.aget() == ""
        assert await block.aget([ChatMessage(role="assistant", content="Hello.")]) == ""
        assert await block.aget([ChatMessage(role="user", content="Where do I live?")]) == ""

    asyncio.run(check())


def test_a_block_recalls_within_its_budget(memory: Memory) -> None:
    memory.retain_sync([f"Ana visited the city number {number} by train." for number in range(50)])
    block = VmemoMemoryBlock(memory=memory, max_tokens=100)
    content = asyncio.run(block.aget([ChatMessage(role="user", content="Which city did Ana visit?")]))
    assert 2 <= content.count("by train") <= 8


def test_messages_are_stored_even_if_they_cannot_be_processed() -> None:
    with Memory(":memory:", llm=FakeLLM({"extract": Refusal()}), embedder=HashEmbedder()) as memory:
        block = VmemoMemoryBlock(memory=memory)
        asyncio.run(block.aput([ChatMessage(role="user", content="I live in Porto.")]))
        assert memory.status_sync().pending == 1


def test_the_example_recalls_in_one_conversation_what_was_said_in_another(
    run_example: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    with ScriptedServer({"": ["Noted.", "An apple."]}) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        run_example("llamaindex")
        first, second = server.received
    assert "<memory>" not in first.system
    assert "Ana: I am allergic to peanuts." in second.system
    assert "peanuts" not in json.dumps(second.user)
    assert capsys.readouterr().out == "Noted.\nAn apple.\n"
