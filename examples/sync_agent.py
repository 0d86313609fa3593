"""An agent without asyncio: every method has a synchronous version that ends in `_sync`."""

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
    """Call your own model here, with the recalled facts and the question."""
    known = sum(line.startswith("- [") for line in prompt.splitlines())
    return f"Knowing {known} facts, I'd answer: {question}"


def main(file: Path) -> None:
    """Recall before each answer, and retain the exchange after it."""
    with Memory(f"sqlite:///{file}", bank="traveller") as memory:
        for message in TURNS:
            prompt = memory.recall_sync(message, max_tokens=500).to_prompt()
            answer = reply(prompt, message)
            print(f"user: {message}\nagent: {answer}")
            memory.add_exchange_sync(message, answer)
            memory.process_sync()
        status = memory.status_sync()
        print(f"The bank holds {status.messages} messages and {status.facts} facts.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "memory.db")
