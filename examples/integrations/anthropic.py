"""Claude with Anthropic's memory tool, whose files are documents of a bank."""

from anthropic import Anthropic

from vmemo import Memory
from vmemo_integrations.anthropic import VmemoMemoryTool


def main() -> None:
    """Let Claude write a memory file, and find its text with a recall."""
    with Memory("memory.db", bank="ana") as memory:
        runner = Anthropic().beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=1024,
            messages=[{"role": "user", "content": "Remember that I am allergic to peanuts."}],
            tools=[VmemoMemoryTool(memory)],
            betas=["context-management-2025-06-27"],
        )
        answer = runner.until_done()
        print("".join(block.text for block in answer.content if block.type == "text"))
        print(memory.recall_sync("What must the user not eat?").hits[0].text)


if __name__ == "__main__":
    main()
