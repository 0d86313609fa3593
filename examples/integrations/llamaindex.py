"""A LlamaIndex agent that recalls in one conversation what was said in another."""

import asyncio

from llama_index.core.agent import FunctionAgent
from llama_index.core.memory import Memory as ChatMemory
from llama_index.llms.openai import OpenAI

from vmemo import Memory
from vmemo_integrations.llamaindex import VmemoMemoryBlock


async def main() -> None:
    """Hold two conversations, each with a chat history of its own."""
    async with Memory("memory.db", bank="ana") as memory:
        block = VmemoMemoryBlock(memory=memory, speaker="Ana")
        agent = FunctionAgent(llm=OpenAI(model="gpt-5-mini"))
        for session, said in ("monday", "I am allergic to peanuts."), ("tuesday", "Which snack do you suggest?"):
            chat = ChatMemory.from_defaults(session_id=session, memory_blocks=[block])
            print(await agent.run(user_msg=said, memory=chat))
            # A long chat history moves its oldest messages to the block by itself; at the end, move the rest.
            await block.aput(await chat.aget_all(), session_id=session)


if __name__ == "__main__":
    asyncio.run(main())
