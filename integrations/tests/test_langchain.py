"""LangChain with vmemo: the tools of an agent that a scripted model drives, and the retriever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from langchain_core.prompts import ChatPromptTemplate

from vmemo import Memory
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, Refusal, ToolCall
from vmemo_conformance.llm_server import ScriptedServer
from vmemo_integrations.langchain import VmemoRetriever, memory_tools


def test_tools_remember_and_recall_in_sync_and_async_calls(memory: Memory) -> None:
    remember, recall = memory_tools(memory, max_tokens=200)
    assert remember.invoke({"text": "Ana wants tables."}) == "Remembered."
    assert asyncio.run(remember.ainvoke({"text": "Ana lives in Porto."})) == "Remembered."
    assert "Ana lives in Porto." in recall.invoke({"query": "Where does Ana live?"})
    assert "Ana wants tables." in asyncio.run(recall.ainvoke({"query": "tables"}))


def test_the_model_sees_what_a_tool_does_and_what_its_arguments_mean(memory: Memory) -> None:
    for tool in memory_tools(memory):
        [argument] = tool.args.values()
        assert argument["description"]
        assert "Args" not in tool.description
        assert tool.description.startswith(("Store", "Search"))


def test_a_text_is_remembered_even_if_it_cannot_be_processed() -> None:
    with Memory(":memory:", llm=FakeLLM({"extract": Refusal()}), embedder=HashEmbedder()) as memory:
        assert memory_tools(memory)[0].invoke({"text": "Ana lives in Porto."}) == "Remembered."
        assert memory.status_sync().pending == 1


def test_the_retriever_returns_facts_as_documents(memory: Memory) -> None:
    memory.retain_sync("Ana lives in Porto.", tags=["home"], metadata={"source": "chat"}, timestamp="2024-05-01")
    memory.retain_sync("Ana works in Braga.", tags=["work"])
    retriever = VmemoRetriever(memory=memory, top_k=1)
    [document] = retriever.invoke("Where does Ana live?")
    assert document.page_content == "User: Ana lives in Porto."
    assert document.id == memory.facts_sync()[0].id
    assert document.metadata["source"] == "chat"
    assert document.metadata["tags"] == ["home"]
    assert document.metadata["mentioned_at"] == "2024-05-01T00:00:00+00:00"
    [other] = asyncio.run(VmemoRetriever(memory=memory, filters={"tags": ["work"]}).ainvoke("Where does Ana live?"))
    assert "Braga" in other.page_content
    prompt = {"facts": retriever} | ChatPromptTemplate.from_template("{facts}")
    assert "Porto" in prompt.invoke("Where does Ana live?").to_string()


def test_the_example_recalls_in_one_conversation_what_it_remembered_in_another(
    run_example: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = [
        ToolCall("remember", {"text": "Ana is allergic to peanuts."}),
        "Noted.",
        ToolCall("recall", {"query": "What can Ana not eat?"}),
        "An apple.",
    ]
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    with ScriptedServer({"": replies}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run_example("langchain")
        asked, answered = (json.dumps(request.body["messages"]) for request in server.received[2:])
    assert "peanuts" not in asked
    assert "Ana is allergic to peanuts." in answered
    assert capsys.readouterr().out == "Noted.\nAn apple.\n"
