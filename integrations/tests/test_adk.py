"""Google ADK with vmemo: its memory service, driven by a scripted model."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import ClassVar

import pytest
from google.adk.agents import Agent
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LLMRegistry
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory
from google.genai import types

from vmemo import Memory
from vmemo_integrations.adk import VmemoMemoryService


class ScriptedGemini(BaseLlm):
    """A model that plays replies in order and records the requests; registered in place of Gemini."""

    replies: ClassVar[deque[types.Part]] = deque()
    requests: ClassVar[list[str]] = []

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return the names that are resolved to this model."""
        return [r"gemini-.*"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Return the next reply."""
        self.requests.append(llm_request.model_dump_json())
        yield LlmResponse(content=types.Content(role="model", parts=[self.replies.popleft()]))


@pytest.fixture(autouse=True)
def _scripted_model() -> None:
    LLMRegistry.register(ScriptedGemini)
    ScriptedGemini.replies.clear()
    ScriptedGemini.requests.clear()


def said(text: str, author: str = "user", *, thought: bool = False) -> Event:
    return Event(author=author, content=types.Content(role="user", parts=[types.Part(text=text, thought=thought)]))


def session(*events: Event, user: str = "ana") -> Session:
    return Session(id="s1", app_name="shop", user_id=user, events=list(events))


async def found(service: VmemoMemoryService, query: str, user: str = "ana") -> list[str]:
    response = await service.search_memory(app_name="shop", user_id=user, query=query)
    return [part.text or "" for entry in response.memories for part in entry.content.parts or ()]


def test_a_session_that_is_added_again_stores_only_new_events(memory: Memory) -> None:
    async def check() -> None:
        service = VmemoMemoryService(memory)
        first, second = said("I live in Lisbon."), said("The tram goes to Lisbon.", "guide")
        await service.add_session_to_memory(session(first))
        await service.add_session_to_memory(session(first, second))
        assert sorted(await found(service, "Lisbon")) == ["User: I live in Lisbon.", "guide: The tram goes to Lisbon."]
        bank = service.bank("shop", "ana")
        assert [message.id for message in await bank.messages(document="s1")] == [first.id, second.id]

    asyncio.run(check())


def test_only_finished_texts_are_stored(memory: Memory) -> None:
    call = types.Part(function_call=types.FunctionCall(name="tram", args={}))
    partial = said("I live in Li", "guide")
    partial.partial = True

    async def check() -> None:
        service = VmemoMemoryService(memory)
        called = Event(author="guide", content=types.Content(role="model", parts=[call]))
        await service.add_session_to_memory(
            session(said("Lisbon?", thought=True), called, partial, Event(author="user"))
        )
        assert not await service.bank("shop", "ana").exists()

    asyncio.run(check())


def test_users_and_apps_do_not_see_each_others_memories(memory: Memory) -> None:
    async def check() -> None:
        service = VmemoMemoryService(memory)
        await service.add_session_to_memory(session(said("I live in Lisbon.")))
        assert await found(service, "Where do I live?", user="bob") == []
        other = await service.search_memory(app_name="bank", user_id="ana", query="Where do I live?")
        assert other.memories == []

    asyncio.run(check())


def test_events_and_memories_keep_their_metadata_and_time(memory: Memory) -> None:
    async def check() -> None:
        service = VmemoMemoryService(memory)
        of_ana = {"app_name": "shop", "user_id": "ana"}
        await service.add_events_to_memory(
            **of_ana, events=[said("I moved to Porto.")], custom_metadata={"topic": "home"}
        )
        entry = MemoryEntry(
            id="m1",
            author="Ana",
            content=types.Content(parts=[types.Part(text="I sold my house in Porto.")]),
            timestamp="2024-05-01T09:30:00+00:00",
            custom_metadata={"source": "form"},
        )
        await service.add_memory(**of_ana, memories=[entry], custom_metadata={"source": "import", "topic": "home"})
        response = await service.search_memory(**of_ana, query="Porto house sold")
        metadata = {tuple(sorted(entry.custom_metadata.items())) for entry in response.memories}
        assert metadata == {(("topic", "home"),), (("source", "form"), ("topic", "home"))}
        assert "2024-05-01T09:30:00+00:00" in {entry.timestamp for entry in response.memories}

    asyncio.run(check())


def test_a_deleted_memory_is_not_found_again(memory: Memory) -> None:
    async def check() -> None:
        service = VmemoMemoryService(memory)
        await service.add_session_to_memory(session(said("I live in Lisbon."), said("I play chess.")))
        response = await service.search_memory(app_name="shop", user_id="ana", query="Lisbon")
        for memory_id in (response.memories[0].id, response.memories[0].id, "unknown", None):
            await service.delete_memory(app_name="shop", user_id="ana", memory_id=memory_id)
        assert await found(service, "Where do I live? Lisbon? Do I play chess?") == ["User: I play chess."]

    asyncio.run(check())


def test_an_agent_loads_what_an_earlier_session_said(memory: Memory) -> None:
    call = types.Part(function_call=types.FunctionCall(name="load_memory", args={"query": "allergic"}))
    ScriptedGemini.replies.extend([call, types.Part(text="Apples.")])

    async def check() -> None:
        service, sessions = VmemoMemoryService(memory), InMemorySessionService()
        await service.add_session_to_memory(session(said("I am allergic to peanuts.")))
        agent = Agent(name="assistant", model="gemini-scripted", tools=[load_memory])
        runner = Runner(app_name="shop", agent=agent, session_service=sessions, memory_service=service)
        current = await sessions.create_session(app_name="shop", user_id="ana")
        message = types.Content(role="user", parts=[types.Part(text="Which snack?")])
        async for _ in runner.run_async(user_id="ana", session_id=current.id, new_message=message):
            pass

    asyncio.run(check())
    assert "User: I am allergic to peanuts." in ScriptedGemini.requests[-1]
    assert not ScriptedGemini.replies


def test_the_example_runs(run_example: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    ScriptedGemini.replies.extend([types.Part(text="Noted."), types.Part(text="An apple.")])
    run_example("adk")
    assert "allergic to peanuts" in ScriptedGemini.requests[-1]
    assert capsys.readouterr().out == "Noted.\nAn apple.\n"
