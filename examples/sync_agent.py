"""An agent without asyncio: every verb has a twin that ends in `_sync`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from vmemo import Memory

TURNS = (
    "I'm planning a trip to Lisbon next month.",
    "I get seasick, so no boats please.",
    "What should we do in Lisbon?",
)


def reply(prompt: str, question: str) -> str:
    """Stands for the call of your own model: it gets what memory holds, and the question."""
    known = sum(line.startswith("- [") for line in prompt.splitlines())
    return f"Knowing {known} facts, I'd answer: {question}"


def main(file: Path) -> None:
    """Before each answer the agent recalls; after it, the exchange is retained."""
    with Memory(f"sqlite:///{file}", bank="traveller") as memory:
        for said in TURNS:
            prompt = memory.recall_sync(said, max_tokens=500).to_prompt()
            answer = reply(prompt, said)
            print(f"user: {said}\nagent: {answer}")
            memory.add_exchange_sync(said, answer)
            memory.process_sync()
        status = memory.status_sync()
        print(f"The bank holds {status.messages} messages and {status.facts} facts.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "memory.db")
