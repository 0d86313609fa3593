"""An agent of Google ADK that knows at the beginning of a session what was said in earlier ones."""

import asyncio

from google.adk.agents import Agent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import preload_memory
from google.genai import types

from vmemo import Memory
from vmemo_integrations.adk import VmemoMemoryService


async def main(model: str = "gemini-2.5-flash") -> None:
    """Hold two sessions: the second one begins with what was said in the first."""
    async with Memory("memory.db") as memory:
        sessions, memories = InMemorySessionService(), VmemoMemoryService(memory)
        agent = Agent(name="assistant", model=model, tools=[preload_memory])
        runner = Runner(app_name="shop", agent=agent, session_service=sessions, memory_service=memories)
        for text in ("I am allergic to peanuts.", "Which snack do you suggest?"):
            session = await sessions.create_session(app_name="shop", user_id="ana")
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id="ana", session_id=session.id, new_message=message):
                if event.is_final_response() and event.content and event.content.parts:
                    print(event.content.parts[0].text)
            ended = await sessions.get_session(app_name="shop", user_id="ana", session_id=session.id)
            assert ended is not None
            await memories.add_session_to_memory(ended)


if __name__ == "__main__":
    asyncio.run(main())
