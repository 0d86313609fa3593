"""An agent of the OpenAI Agents SDK that remembers its user from one conversation to the next."""

import asyncio

from agents import Agent, Runner

from vmemo import Memory
from vmemo_integrations.openai_agents import VmemoSession, memory_tools


async def main() -> None:
    """Hold two conversations: the second one recalls what was said in the first."""
    async with Memory("memory.db", bank="ana") as memory:
        agent = Agent("Assistant", model="gpt-5-mini", tools=memory_tools(memory))
        first = VmemoSession("monday", memory, speaker="Ana")
        await Runner.run(agent, "I am allergic to peanuts.", session=first)

        second = VmemoSession("tuesday", memory, speaker="Ana")
        result = await Runner.run(agent, "Which snack do you suggest?", session=second)
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
