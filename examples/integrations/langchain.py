"""A LangChain agent with tools for memory, which recalls in one conversation what it remembered in another."""

from langchain.agents import create_agent

from vmemo import Memory
from vmemo_integrations.langchain import memory_tools


def main() -> None:
    """Hold two conversations, each without the messages of the other."""
    with Memory("memory.db", bank="ana") as memory:
        agent = create_agent("openai:gpt-5-mini", tools=memory_tools(memory))
        for said in "I am Ana, and I am allergic to peanuts.", "Which snack do you suggest?":
            result = agent.invoke({"messages": [{"role": "user", "content": said}]})
            print(result["messages"][-1].text)


if __name__ == "__main__":
    main()
