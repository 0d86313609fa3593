"""An agent of PydanticAI that remembers its user from one run to the next."""

import asyncio

from pydantic_ai import Agent

from vmemo import Memory
from vmemo_integrations.pydantic_ai import VmemoToolset


async def main() -> None:
    """Run the agent twice: the second run recalls what the first one remembered."""
    async with Memory("memory.db", bank="ana") as memory:
        agent = Agent("openai-chat:gpt-5-mini", toolsets=[VmemoToolset(memory)])
        await agent.run("I am Ana, and I am allergic to peanuts.")
        result = await agent.run("Which snack do you suggest for Ana?")
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main())
